package analytic

import (
	"llmprof/models"
	"llmprof/unit"
)

// A tally is what one step, or a run of them, comes to on one rank: sums of
// quantities that are linear in the context as long as sig stays the same.
type tally struct {
	steps    float64
	expected unit.Seconds
	floor    unit.Seconds
	busy     [3]unit.Seconds         // compute, memory, network: at their expected rates, overlap disregarded
	bound    [numBounds]unit.Seconds // expected time by what bounds it
	flops    unit.FLOPs              // matrix products that the rank computes
	vector   unit.FLOPs
	model    unit.FLOPs // matrix products that the model needs
	must     unit.Bytes // weights, cache and state: what no engine can avoid
	traffic  unit.Bytes
	wire     unit.Bytes
	sig      uint64 // tells apart the linear pieces
}

// plus adds n times the mean of a and b: the sum of a linear run from a to b.
func (t *tally) plus(a, b *tally, n float64) {
	half := n / 2
	t.steps += n
	t.expected += (a.expected + b.expected).Times(half)
	t.floor += (a.floor + b.floor).Times(half)
	for i := range t.busy {
		t.busy[i] += (a.busy[i] + b.busy[i]).Times(half)
	}
	for i := range t.bound {
		t.bound[i] += (a.bound[i] + b.bound[i]).Times(half)
	}
	t.flops += (a.flops + b.flops).Times(half)
	t.vector += (a.vector + b.vector).Times(half)
	t.model += (a.model + b.model).Times(half)
	t.must += (a.must + b.must).Times(half)
	t.traffic += (a.traffic + b.traffic).Times(half)
	t.wire += (a.wire + b.wire).Times(half)
}

// A pricer prices steps of one model on one machine. It holds the buffer for
// their operators.
type pricer struct {
	machine *Machine
	model   *models.Model
	ops     []Op
	budget  int // steps it may still price before a run is taken as linear
}

// step prices one step, all stages of the pipeline one after the other.
func (p *pricer) step(s *Step) (t tally) {
	p.ops = s.AppendOps(p.ops[:0], p.model)
	var f floor
	var launches float64
	sig := uint64(14695981039346656037) // FNV-1a
	for i := range p.ops {
		o := &p.ops[i]
		c := p.machine.Cost(o)
		bound := c.Bound()
		time := c.Time()
		t.expected += time
		t.bound[bound] += time
		t.busy[0] += c.Compute
		t.busy[1] += c.Memory
		t.busy[2] += c.Network
		f.add(&c.Floor)
		t.flops += o.FLOPs.Times(o.Layers)
		t.vector += o.Vector.Times(o.Layers)
		t.model += o.Model.Times(o.Layers)
		t.must += (o.Weights + o.KV + o.State).Times(o.Layers)
		t.traffic += o.Traffic().Times(o.Layers)
		t.wire += (o.Wire + o.NodeWire).Times(o.Layers)
		launches += o.Eager * o.Layers
		sig = (sig ^ uint64(bound) ^ uint64(o.Variant)<<8) * 1099511628211
		if o.Variant&mixed != 0 {
			sig ^= uint64(s.Past) // no two of them are alike
		}
	}
	t.steps = 1
	t.floor = f.time()
	t.sig = sig ^ uint64(f.which())
	p.host(&t, launches)
	return t
}

// host adds the host's time: what it does in every step, and launches that take
// it longer than the GPU takes for the kernels.
func (p *pricer) host(t *tally, launches float64) {
	e := &p.machine.Engine
	if launch := e.Launch.Times(launches); launch > t.expected {
		t.bound = [numBounds]unit.Seconds{ByLaunch: launch}
		t.expected = launch
		t.sig ^= 1 << 62
	}
	t.expected += e.Host
	t.bound[ByLaunch] += e.Host
}

// which is the resource that the floor waits for.
func (f *floor) which() int {
	all := [...]unit.Seconds{f.matrix, f.vector, f.memory, f.link, f.node}
	w := 0
	for i, t := range all {
		if t > all[w] {
			w = i
		}
	}
	return w
}

// run sums count steps like s, each Past further by stride than the one before.
// Every quantity of an Op is linear in Past between the contexts where a window
// fills or a bound changes; a run that agrees at both ends is the mean of the
// two, any other is halved.
func (p *pricer) run(s Step, stride, count float64) (sum tally) {
	first := p.step(&s)
	if count == 1 {
		sum.plus(&first, &first, 1)
		return sum
	}
	end := s
	end.Past += stride * (count - 1)
	last := p.step(&end)
	p.between(&sum, s, stride, count, &first, &last)
	return sum
}

func (p *pricer) between(sum *tally, s Step, stride, count float64, first, last *tally) {
	if count <= 2 || first.sig == last.sig || p.budget <= 0 {
		sum.plus(first, last, count)
		return
	}
	p.budget -= 2
	half := float64(int64(count / 2))
	left, right := s, s
	left.Past += stride * (half - 1)
	right.Past += stride * half
	leftEnd, rightBegin := p.step(&left), p.step(&right)
	p.between(sum, s, stride, half, first, &leftEnd)
	p.between(sum, right, stride, count-half, &rightBegin, last)
}

// pipeline turns a sum over steps of one micro-batch of m into the time of all
// of them through stages stages. One micro-batch goes through the stages one
// after the other and takes what it takes on one GPU, hops added. Of m of them a
// prefill takes m + stages − 1 times the longest stage, the bubble being the
// stages − 1; a decode step waits for its own micro-batch's last one, so it takes
// max(m, stages) of them (GPipe, arXiv:1811.06965).
func (t *tally) pipeline(par *Parallelism, layers int, prefill bool) {
	m, stages := float64(par.MicroBatches), float64(par.PP)
	if m == 1 || stages == 1 {
		return
	}
	turns := max(m, stages)
	if prefill {
		turns = m + stages - 1
	}
	share := turns * par.stageShare(layers)
	t.expected = t.expected.Times(share)
	t.floor = t.floor.Times(turns / stages)
	for i := range t.bound {
		t.bound[i] = t.bound[i].Times(share)
	}
	for i := range t.busy {
		t.busy[i] = t.busy[i].Times(m)
	}
	t.flops, t.vector, t.model = t.flops.Times(m), t.vector.Times(m), t.model.Times(m)
	t.must, t.traffic, t.wire = t.must.Times(m), t.traffic.Times(m), t.wire.Times(m)
}
