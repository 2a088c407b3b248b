package analytic

import "llmprof/unit"

// sums are what operators add up to on one rank, whatever bounds them.
type sums struct {
	floor    floor
	busy     [3]unit.Seconds // compute and network at their expected rates, overlap disregarded; and what takes counts of fixed times
	draw     draw
	flops    unit.FLOPs // matrix products that the rank computes
	vector   unit.FLOPs
	model    unit.FLOPs // matrix products that the model needs
	must     unit.Bytes // weights, cache and state: what no engine can avoid
	traffic  unit.Bytes
	wire     unit.Bytes
	launches float64 // of an engine that does not fuse
	kernels  float64 // of the engine as it is
}

// of adds what one operator does.
func (s *sums) of(o *Op, c *Cost) {
	n := o.Layers
	s.floor.add(&c.Floor, 1)
	s.busy[0] += c.Compute
	s.busy[1] += c.Network
	s.draw.add(c.Draw, 1)
	s.flops += o.FLOPs.Times(n)
	s.vector += o.Vector.Times(n)
	s.model += o.Model.Times(n)
	must := o.Weights + o.KV + o.State
	s.must += must.Times(n)
	s.traffic += (must + o.Acts).Times(n)
	s.wire += (o.Wire + o.NodeWire).Times(n)
	s.launches += o.Eager * n
	s.kernels += c.Kernels
}

// add adds n times g.
func (s *sums) add(g *sums, n float64) {
	s.floor.add(&g.floor, n)
	for i := range s.busy {
		s.busy[i] += g.busy[i].Times(n)
	}
	s.draw.add(g.draw, n)
	s.flops += g.flops.Times(n)
	s.vector += g.vector.Times(n)
	s.model += g.model.Times(n)
	s.must += g.must.Times(n)
	s.traffic += g.traffic.Times(n)
	s.wire += g.wire.Times(n)
	s.launches += g.launches * n
	s.kernels += g.kernels * n
}

// A tally is what one step, or a run of them, comes to on one rank.
type tally struct {
	sums
	expected unit.Seconds
	slower   unit.Seconds            // by how much more it takes where arithmetic takes held times as long (power.go)
	steep    unit.Seconds            // by how much more for each time that it takes longer yet
	more     unit.Seconds            // of the expected time, what the power limit costs
	slowed   float64                 // how many times longer arithmetic takes for it; 0: not worked out yet
	least    unit.Seconds            // the floor
	bound    [numBounds]unit.Seconds // expected time by what bounds it
	sig      uint64                  // differs where another bound or formula holds
}

// add adds n times g.
func (t *tally) add(g *tally, n float64) {
	t.sums.add(&g.sums, n)
	t.expected += g.expected.Times(n)
	t.slower += g.slower.Times(n)
	t.steep += g.steep.Times(n)
	t.least += g.least.Times(n)
	for i := range t.bound {
		t.bound[i] += g.bound[i].Times(n)
	}
}

// takes records what an operator costs, and what it would if its arithmetic took
// held times as long. Memory and links have clocks of their own.
func (t *tally) takes(c *Cost, variant uint32, held float64) {
	time, b, piece := c.Time(), c.Bound(), uint64(c.piece())
	t.expected += time
	t.bound[b] += time
	t.busy[2] += c.Fixed
	if slow := c.Compute.Times(held); slow > max(c.Memory, c.Network) {
		t.slower += slow + c.Fixed - time
		t.steep += c.Compute
		piece |= 4
	}
	t.sig = (t.sig ^ uint64(b) ^ piece<<4 ^ uint64(variant)<<8) * 1099511628211 // FNV-1a
}

// pipeline turns a sum over steps of one micro-batch of m into the time of all
// of them through a pipeline. One micro-batch goes through the stages one after
// the other and takes what it takes on one GPU, hops added. Of m of them a
// prefill takes m + stages − 1 times the longest stage, the bubble being the
// stages − 1; a decode step waits for its own micro-batch's last one, so it takes
// max(m, stages) of them (GPipe, arXiv:1811.06965).
func (t *tally) pipeline(par *Parallelism, layers int, prefill bool) {
	m, stages := float64(par.MicroBatches), float64(par.PP)
	if m == 1 {
		return
	}
	turns := max(m, stages)
	if prefill {
		turns = m + stages - 1
	}
	longest := turns * par.stageShare(layers)
	t.expected = t.expected.Times(longest)
	t.more = t.more.Times(longest)
	t.least = t.least.Times(turns / stages)
	for i := range t.bound {
		t.bound[i] = t.bound[i].Times(longest)
	}
	all := t.sums
	t.sums = sums{}
	t.sums.add(&all, m)
}
