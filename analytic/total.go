package analytic

import (
	"llmprof/analytic/energy"
	"llmprof/analytic/operator"
	"llmprof/roofline"
	"llmprof/unit"
)

// A total is the sums over a step, or a run of steps, on one rank of each stage.
type total struct {
	operator.Sum
	timing                 // times of all stages, one after the other
	stage     [4]timing    // candidates for the longest stage of a pipeline, and its host
	numStages int          // candidates, in pipelines whose stages are priced apart; else 0
	constants roofline.Set // constants that a kernel depends on
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
	unfitted unit.Seconds // time of the kernels whose leading constant was not read off the board
	// Time that the kernels take less where experts are chosen as tokens of a text choose them, and shared ones hide beside others.
	uneven unit.Seconds

	energy.Load
	bound     [roofline.NumBounds]unit.Seconds // expected time by what bounds it
	throttled unit.Seconds                     // part of the expected time that the power limit costs
	raised    unit.Seconds                     // part of the expected time by which larger batches are lifted to the time of smaller ones
	clock     float64                          // factor by which the power limit lengthens arithmetic; 0 before it is worked out
}

func (t *total) add(u *total, n float64) {
	t.Add(&u.Sum, n)
	t.constants |= u.constants
	t.timing.add(&u.timing, n)
	t.numStages = max(t.numStages, u.numStages)
	for i := range u.stage[:u.numStages] {
		t.stage[i].add(&u.stage[i], n)
	}
}

// takes adds the sums over kernels on a machine of moves. The result identifies what the kernels wait for.
func (t *total) takes(u *sums, machine int) (piece uint64) {
	t.Add(&u.Sum, 1)
	t.Piece.Mark(uint64(u.Piece))
	t.constants |= u.constants
	t.timing.add(&u.timing, 1)
	return u.piece + u.shifted(&t.timing, machine)
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
	t.unfitted += u.unfitted.Times(n)
	t.uneven += u.uneven.Times(n)
	t.Add(&u.Load, n)
	for i := range t.bound {
		t.bound[i] += u.bound[i].Times(n)
	}
	t.raised += u.raised.Times(n)
}

// An addend is what a kernel adds to a timing.
type addend struct {
	bound           roofline.Bound
	launches, calls float64
	load            energy.Load
	variance        float64 // square of the half-width of its time, with the products by those of kernels that share its error
	// Time that it takes less where experts are chosen as tokens of a text choose them, or where it hides beside another.
	uneven unit.Seconds
	choice uint64 // resources that the kernel waits for at the clocks of bursts and at those of the power limit
}

func (a *addend) set(k *Kernel, c *roofline.Cost, m *Machine) {
	*a = addend{bound: c.Bound}
	if k.Phase == "" && !k.Graphed {
		a.launches, a.calls = (k.Launches+k.Helpers+k.Pieces)*k.Count, k.Dispatches*k.Count
	}
	a.choice = c.Piece() | m.Take(&a.load, c)
}

func (t *timing) takes(a *addend) {
	t.kernels += a.load.Expected
	t.bound[a.bound] += a.load.Expected
	t.launches += a.launches
	t.calls += a.calls
	t.variance += a.variance
	t.uneven += a.uneven
	t.Add(&a.load, 1)
}

// limit slows a phase until it draws no more than the power limit.
func (t *timing) limit(m *Machine) {
	t.clock, t.throttled = m.Limit(&t.Load)
	t.Expected += t.throttled
	t.bound[roofline.ByCompute] += t.throttled
}

// draws is the mean power of one GPU in a phase.
func (t *timing) draws(m *Machine, p *operator.Parallelism) unit.Watts {
	return m.Mean(&t.Load, t.clock, float64(p.PP), float64(p.MicroBatches))
}

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
		t.Expected, t.throttled, t.raised, t.bound = 0, 0, 0, [roofline.NumBounds]unit.Seconds{}
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
		t.kernels, t.scatter, t.unfitted, t.uneven = t.kernels.Times(by), t.scatter.Times(by), t.unfitted.Times(by), t.uneven.Times(by)
	}
	t.host, t.launches = unit.Seconds(all(float64(t.host), float64(longest.host))), all(t.launches, longest.launches)
}

func (t *timing) waits(u *timing, n float64) {
	t.Expected += u.Expected.Times(n)
	t.throttled += u.throttled.Times(n)
	t.raised += u.raised.Times(n)
	t.clock = max(t.clock, u.clock)
	for i := range t.bound {
		t.bound[i] += u.bound[i].Times(n)
	}
}

// stages sums the parts of a step up to the stages of a pipeline that may be the
// longest. The first stage has the embedding and the last the head; layers that do not
// divide evenly go to the stages between them first, and then to the first.
func (t *total) stages(parts *[operator.PartLast + 1]timing, stages, layers int) {
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
