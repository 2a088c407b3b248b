package analytic

import (
	"llmprof/roofline"
	"llmprof/unit"
)

// A total is what a step, or a run of them, comes to on one rank of each stage.
type total struct {
	work   roofline.Work // that the rank does
	model  unit.FLOPs    // matrix products that the model needs
	timing               // of all stages, one after the other
	stage  [4]timing     // of what may be the longest in a pipeline of several micro-batches: stages, and the host
	sig    uint64        // differs where another bound or formula holds
}

// A timing is how long a part of a step takes, summed over the steps of a run.
type timing struct {
	floor    roofline.Floor
	least    unit.Seconds // the floor of each step, summed
	launches float64      // by the host
	host     unit.Seconds // that it takes, hidden or not
	compute  unit.Seconds // of the kernels, overlap disregarded
	network  unit.Seconds
	fixed    unit.Seconds
	draw     Draw

	expected  unit.Seconds
	bound     [roofline.NumBounds]unit.Seconds // expected time by what bounds it
	throttled unit.Seconds                     // of the expected time, what the power limit costs
	raised    unit.Seconds                     // of the expected time, what larger batches take no less than smaller ones
	clock     float64                          // how many times longer arithmetic takes for the power limit; 0: not worked out yet
	slower    unit.Seconds                     // by how much more it takes where arithmetic takes throttle times as long (power.go)
	slowest   unit.Seconds                     // by how much more where arithmetic takes throttle² times as long
}

// mark tells the total apart from those of steps in which something else holds.
func (t *total) mark(what uint64) { t.sig = (t.sig ^ what) * 1099511628211 } // FNV-1a

// add adds n times u.
func (t *total) add(u *total, n float64) {
	t.work.Add(&u.work, n)
	t.model += u.model.Times(n)
	t.timing.add(&u.timing, n)
	for i := range t.stage {
		if u.stage[i].expected > 0 {
			t.stage[i].add(&u.stage[i], n)
		}
	}
}

// add adds n times u.
func (t *timing) add(u *timing, n float64) {
	t.floor.Add(&u.floor, n)
	t.least += u.least.Times(n)
	t.launches += u.launches * n
	t.host += u.host.Times(n)
	t.compute += u.compute.Times(n)
	t.network += u.network.Times(n)
	t.fixed += u.fixed.Times(n)
	t.draw.Add(u.draw, n)
	t.expected += u.expected.Times(n)
	for i := range t.bound {
		t.bound[i] += u.bound[i].Times(n)
	}
	t.raised += u.raised.Times(n)
	t.slower += u.slower.Times(n)
	t.slowest += u.slowest.Times(n)
}

// counts adds the work of the operators of a part.
func (t *total) counts(ops []Op, past uint64) {
	for i := range ops {
		o := &ops[i]
		t.work.Add(&o.Work, o.Count)
		t.model += o.Model.Times(o.Count)
		t.mark(uint64(o.Variant))
		if o.Variant&turning != 0 {
			t.mark(past) // no two of them are alike
		}
	}
}

// floors adds the floors of the operators of a part.
func (t *timing) floors(ops []Op, peaks *roofline.Peaks) {
	for i := range ops {
		o := &ops[i]
		f := peaks.FloorOf(&o.Work, o.Format, o.Shape.Ranks, o.Count)
		t.floor.Add(&f, 1)
	}
}

// takes adds what a kernel costs, and what it would if its arithmetic took throttle
// times as long, and throttle² times. Memory and links have clocks of their own. It tells
// apart what the kernel waits for.
func (t *timing) takes(k *Kernel, c *roofline.Cost, m *Machine) (waits uint64) {
	t.expected += c.Time
	t.bound[c.Bound] += c.Time
	t.compute += c.Compute()
	t.network += c.Times[roofline.Network]
	t.fixed += c.Times[roofline.Fixed]
	t.draw.Add(m.DrawOf(c), 1)
	if k.Phase == "" && !k.Graphed {
		t.launches += (k.Launches + k.Helpers + k.Pieces) * k.Count
	}
	piece := c.Piece()
	if m.Throttle > 1 {
		if slowest := c.Slower(m.Throttle * m.Throttle); slowest > c.Time {
			slower := c.Slower(m.Throttle)
			t.slowest += slowest - c.Time
			t.slower += slower - c.Time
			if piece |= 4; slower > c.Time {
				piece |= 8
			}
		}
	}
	return uint64(c.Bound) | piece<<4
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
	t.work, t.model = t.work.Scale(m), t.model.Times(m)
	t.launches *= m
	t.host = t.host.Times(m)
	t.compute, t.network, t.fixed = t.compute.Times(m), t.network.Times(m), t.fixed.Times(m)
	t.draw = Draw{t.draw.Memory.Times(m), t.draw.Chip.Times(m)}
	longest, least := &t.stage[0], unit.Seconds(0)
	for i := range t.stage {
		s := &t.stage[i]
		least = max(least, s.least)
		if s.expected > longest.expected {
			longest = s
		}
	}
	if prefill {
		t.least += least.Times(m - 1)
		t.waits(longest, m-1)
		return
	}
	t.least = max(t.least, least.Times(m))
	if longest.expected.Times(m) > t.expected {
		t.expected, t.throttled, t.raised, t.bound = 0, 0, 0, [roofline.NumBounds]unit.Seconds{}
		t.waits(longest, m)
	}
}

// waits adds n times the time of u.
func (t *timing) waits(u *timing, n float64) {
	t.expected += u.expected.Times(n)
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
func (t *total) stages(parts *[PartLast + 1]timing, stages, layers int) {
	each, more := layers/stages, layers%stages
	first := each
	if more > stages-2 {
		first++
	}
	t.stage[0].add(&parts[PartFirst], 1)
	t.stage[0].add(&parts[PartLayers], float64(first)/float64(layers))
	t.stage[1].add(&parts[PartLayers], float64(each)/float64(layers))
	t.stage[1].add(&parts[PartLast], 1)
	if stages > 2 && more > 0 {
		t.stage[2].add(&parts[PartLayers], float64(each+1)/float64(layers))
	}
}
