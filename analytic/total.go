package analytic

import (
	"llmprof/analytic/energy"
	"llmprof/analytic/operator"
	"llmprof/roofline"
	"llmprof/unit"
)

// A total is the sums over a step, or over a run of steps, on one rank of each stage.
type total struct {
	operator.Sum
	timing                    // times of all stages, one after the other
	stage     [4]timing       // candidates for the longest stage of a pipeline, and its host
	numStages int             // candidates, in pipelines whose stages are priced apart; else 0
	slopes    roofline.Slopes // derivatives of the expected time
	limited   unit.Seconds    // derivative of the expected time by the logarithm of the power limit, below 0 where a higher limit helps
	operators []Operator      // nil unless they are asked for
}

// A timing is the times of a part of a step, summed over the steps of a run.
type timing struct {
	floor    roofline.Floor
	least    unit.Seconds // the floor of each step, summed
	launches float64      // launches by the host
	calls    float64      // Python calls for operators and compiled pieces
	host     unit.Seconds // time of the host, hidden or not
	exposed  unit.Seconds // time of the host beside its launches that no kernel hides

	kernels  unit.Seconds // expected time of the kernels, one after the other
	variance float64      // sum of the squares of the half-widths of a step's kernels
	scatter  unit.Seconds // half-width of the time of the kernels that their shapes give; a kernel is off by as much in every step
	// By how much faster and slower the kernels may be because they were not measured: errors of one constant, which add up.
	unmeasured struct{ low, high unit.Seconds }
	// Time that the kernels take less where experts are chosen as tokens of a text choose them, and shared ones hide beside others.
	uneven unit.Seconds

	energy.Load
	bound     [roofline.NumBounds]unit.Seconds // expected time by what bounds it
	throttled unit.Seconds                     // part of the expected time that the power limit costs
	raised    unit.Seconds                     // part of the expected time by which larger batches are lifted to the time of smaller ones
	clock     energy.Clocks                    // factors by which limits lengthen arithmetic; zero before they are worked out
}

// add adds n times u.
func (t *total) add(u *total, n float64) {
	t.Add(&u.Sum, n)
	t.timing.add(&u.timing, n)
	t.numStages = max(t.numStages, u.numStages)
	for i := range u.stage[:u.numStages] {
		t.stage[i].add(&u.stage[i], n)
	}
	t.slopes.Add(&u.slopes, n)
	for i := range u.operators {
		o := &u.operators[i]
		var sum *Operator
		t.operators, sum = sumOf(t.operators, o.Name, o.Layer)
		sum.add(o, n)
	}
}

// add adds n times u.
func (t *timing) add(u *timing, n float64) {
	t.floor.Add(&u.floor, n)
	t.least += u.least.Times(n)
	t.launches += u.launches * n
	t.calls += u.calls * n
	t.host += u.host.Times(n)
	t.exposed += u.exposed.Times(n)
	t.kernels += u.kernels.Times(n)
	t.variance += u.variance * n * n
	t.scatter += u.scatter.Times(n)
	t.unmeasured.low += u.unmeasured.low.Times(n)
	t.unmeasured.high += u.unmeasured.high.Times(n)
	t.uneven += u.uneven.Times(n)
	t.Add(&u.Load, n)
	for i := range t.bound {
		t.bound[i] += u.bound[i].Times(n)
	}
	t.raised += u.raised.Times(n)
}

// share is a part of the kernels' time, as a share of it.
func (t *timing) share(part unit.Seconds) float64 {
	if t.kernels == 0 {
		return 0
	}
	return float64(part / t.kernels)
}

// heldError is the half-width of the time that limits below the board's own cost, as a share of it.
const heldError = 0.3

// slow slows a phase until it draws no more than the power limit.
func (t *timing) slow(m *Machine) {
	t.clock, t.throttled = m.Limit(&t.Load)
	t.Expected += t.throttled
	// How power and memory follow the clocks was measured on few boards.
	off := m.Held(&t.Load, t.throttled).Times(heldError * float64(t.kernels/max(t.Expected, t.kernels)))
	t.unmeasured.low, t.unmeasured.high = t.unmeasured.low+off, t.unmeasured.high+off
	t.bound[roofline.ByCompute] += t.throttled
}

// limit turns the sum over the steps of one of so many micro-batches into a phase of all of them, no
// GPU of which draws more than its power limit.
func (p *Predictor) limit(t *total, parts float64, prefill bool) {
	m := p.machine
	t.slow(m)
	t.throttleSlopes(m.Throttle)
	for i := range t.stage[:t.numStages] {
		t.stage[i].slow(m)
	}
	before := t.Expected
	t.pipeline(parts, prefill)
	if before > 0 && t.Expected != before {
		ratio := float64(t.Expected / before)
		t.slopes.Scale(ratio)
		t.limited = t.limited.Times(ratio)
	}
}

// throttleSlopes moves derivatives from the rate of arithmetic in bursts to the rate that it sustains, as far as the power limit slows it:
// at a throttle, all arithmetic depends on the sustained rate, and none on that of bursts.
func (t *total) throttleSlopes(throttle float64) {
	if t.throttled <= 0 {
		return
	}
	w := min((t.clock.At-1)/(throttle-1), 1)
	burst := &t.slopes.By[roofline.GEMMCompute]
	t.slopes.By[roofline.GEMMSustained] += t.bound[roofline.ByCompute].Times(w)
	*burst = burst.Times(1 - w)
	t.slopes.On[roofline.Matrix] += t.throttled
}

// depends sums the derivatives by lever.
func (t *total) depends() Dependence {
	on, host := &t.slopes.On, unit.Seconds(0)
	for _, k := range hostConstants {
		host += t.slopes.By[k]
	}
	return Dependence{
		Compute: on[roofline.Matrix] + on[roofline.Vector], MemoryBandwidth: on[roofline.Memory] + on[roofline.Serial],
		NetworkBandwidth: on[roofline.Network], PowerLimit: -t.limited,
		LaunchLatency: on[roofline.Fixed] + on[roofline.Chain] + t.slopes.By[roofline.StreamNode], HostSpeed: host,
	}
}

// draws is the mean power of one GPU in a phase.
func (t *timing) draws(m *Machine, p *operator.Parallelism) unit.Watts {
	return m.Mean(&t.Load, t.clock, float64(p.PP), float64(p.MicroBatches))
}
