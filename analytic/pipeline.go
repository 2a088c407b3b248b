package analytic

import (
	"llmprof/analytic/operator"
	"llmprof/roofline"
	"llmprof/unit"
)

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
		t.kernels, t.scatter, t.uneven = t.kernels.Times(by), t.scatter.Times(by), t.uneven.Times(by)
		t.unmeasured.low, t.unmeasured.high = t.unmeasured.low.Times(by), t.unmeasured.high.Times(by)
	}
	t.host, t.launches = unit.Seconds(all(float64(t.host), float64(longest.host))), all(t.launches, longest.launches)
}

func (t *timing) waits(u *timing, n float64) {
	t.Expected += u.Expected.Times(n)
	t.throttled += u.throttled.Times(n)
	t.raised += u.raised.Times(n)
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
