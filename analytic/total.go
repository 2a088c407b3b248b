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
	// Router imbalance: time that the kernels take less where tokens of a text choose the experts, and shared ones hide beside others.
	imbalance unit.Seconds

	energy.Load
	bound     [roofline.NumBounds]unit.Seconds // expected time by what bounds it
	throttled unit.Seconds                     // part of the expected time that the power limit costs
	clamped   unit.Seconds                     // part of the expected time by which larger batches are lifted to the time of smaller ones
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
	t.imbalance += u.imbalance.Times(n)
	t.Add(&u.Load, n)
	for i := range t.bound {
		t.bound[i] += u.bound[i].Times(n)
	}
	t.clamped += u.clamped.Times(n)
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
	by := &t.slopes.By
	reads, cores := by[roofline.HostMemory], by[roofline.HostCompute]
	copies := by[roofline.WeightCopyShare] + by[roofline.WeightCopyPageable]
	return Dependence{
		Compute:         on[roofline.Matrix] + on[roofline.Vector] - cores,
		MemoryBandwidth: on[roofline.Memory] + on[roofline.Serial] - reads - copies,
		HostBandwidth:   reads, HostCores: cores, HostLink: copies,
		NetworkBandwidth: on[roofline.Network], PowerLimit: -t.limited,
		LaunchLatency: on[roofline.Fixed] + on[roofline.Chain] + t.slopes.By[roofline.StreamNode], HostSpeed: host,
	}
}

// draws is the mean power of one GPU in a phase.
func (t *timing) draws(m *Machine, p *operator.Parallelism) unit.Watts {
	return m.Mean(&t.Load, t.clock, float64(p.PP), float64(p.MicroBatches))
}

// A partTimings is the times of the parts of a step.
type partTimings [operator.PartLast + 1]timing

// pipeline turns a sum over steps of one micro-batch of m into the time of all of them
// through a pipeline. The first goes through the stages one after the other, and takes
// what it takes on one GPU, hops added. In a prefill each of the others follows by one
// turn of the longest stage (GPipe, arXiv:1811.06965). A decode step needs the token
// before it: it takes what one micro-batch takes through all stages, or what all
// micro-batches take through the longest one.
func (t *total) pipeline(m float64, prefill bool) {
	if m == 1 {
		return
	}
	t.Work, t.Model = t.Work.Scale(m), t.Model.Times(m)
	one := t.floor
	t.floor.Add(&one, m-1)
	t.eachAlone(m, prefill)
	t.Busy = t.Times(m)
	longest, least := &t.stage[0], unit.Seconds(0)
	for i := range t.stage[:t.numStages] {
		s := &t.stage[i]
		least = max(least, s.least)
		if s.Expected > longest.Expected {
			longest = s
		}
	}
	if prefill {
		t.least += least.Times(m - 1)
		t.waits(longest, m-1)
		return
	}
	t.least = max(t.least, least.Times(m))
	if longest.Expected.Times(m) > t.Expected {
		t.Expected, t.throttled, t.clamped, t.bound = 0, 0, 0, [roofline.NumBounds]unit.Seconds{}
		t.waits(longest, m)
	}
}

// eachAlone sets what all micro-batches take by the kernels alone and by the host alone.
func (t *total) eachAlone(m float64, prefill bool) {
	var longest timing
	for i := range t.stage[:t.numStages] {
		s := &t.stage[i]
		longest.kernels, longest.host, longest.launches = max(longest.kernels, s.kernels), max(longest.host, s.host),
			max(longest.launches, s.launches)
	}
	all := func(one, longest float64) float64 {
		if prefill {
			return one + (m-1)*longest
		}
		return max(one, m*longest)
	}
	if t.kernels > 0 {
		by := all(float64(t.kernels), float64(longest.kernels)) / float64(t.kernels)
		t.kernels, t.scatter, t.imbalance = t.kernels.Times(by), t.scatter.Times(by), t.imbalance.Times(by)
		t.unmeasured.low, t.unmeasured.high = t.unmeasured.low.Times(by), t.unmeasured.high.Times(by)
	}
	t.host, t.launches = unit.Seconds(all(float64(t.host), float64(longest.host))), all(t.launches, longest.launches)
}

func (t *timing) waits(u *timing, n float64) {
	t.Expected += u.Expected.Times(n)
	t.throttled += u.throttled.Times(n)
	t.clamped += u.clamped.Times(n)
	if u.clock.At > t.clock.At {
		t.clock = u.clock
	}
	for i := range t.bound {
		t.bound[i] += u.bound[i].Times(n)
	}
}

// stages sums the parts of a step up to the stages of a pipeline that may be the
// longest. The first stage has the embedding and the last the head; layers that do not
// divide evenly go to the stages between them first, and then to the first.
func (t *total) stages(parts *partTimings, stages, layers int) {
	each, more := layers/stages, layers%stages
	first := each
	if more > stages-2 {
		first++
	}
	t.numStages = len(t.stage)
	t.stage[0].add(&parts[operator.PartFirst], 1)
	t.stage[0].add(&parts[operator.PartLayers], float64(first)/float64(layers))
	t.stage[1].add(&parts[operator.PartLayers], float64(each)/float64(layers))
	t.stage[1].add(&parts[operator.PartLast], 1)
	if stages > 2 && more > 0 {
		t.stage[2].add(&parts[operator.PartLayers], float64(each+1)/float64(layers))
	}
}
