package analytic

import (
	"llmprof/models"
	"llmprof/unit"
)

// A Predictor answers for any number of workloads of one model, machine, split
// and scheme. It has worked out beforehand what does not depend on the workload,
// so that an estimate takes less than a microsecond and allocates nothing. It
// may be used by several goroutines at once.
type Predictor struct {
	model   *models.Model
	machine *Machine
	par     Parallelism // whole
	scheme  Scheme
	dense   Scheme
	plain   Scheme
	price   unit.DollarsPerHour

	even      []even // one for each set of rides that a step carries and that tells
	tells     aboard // the rides that the even operators' prices depend on
	wide      bool   // Step.Wide
	cores     []core // blocks' cores, which are not even
	footprint footprint
}

// even is the operators proportional to the tokens, and those to the rows of logits.
type even struct {
	on               aboard
	tokens, rows     []price
	ofTokens, ofRows line // what they add up to
}

// A price is the cost of an operator that is proportional to x tokens or rows:
// base + slope·x for each resource.
type price struct {
	fixed           unit.Seconds
	compute         unit.Seconds // slope; its base is 0
	memory, memory1 unit.Seconds // base and slope
	network         unit.Seconds // slope
	collective      *Op          // at x = 1, nil for other operators: its latency depends on its size
	within, wide    bool         // products may do the collective, and those are wide
}

// A line is base + slope·x.
type line struct{ base, slope sums }

// at adds the value at x to s.
func (l *line) at(s *sums, x float64) {
	s.add(&l.base, 1)
	s.add(&l.slope, x)
}

// A core is a block whose cost has to be worked out for every step.
type core struct {
	block  *models.Block
	layers float64
}

// NewPredictor prepares for estimates of c, whatever its Workload.
func NewPredictor(c *Case) (*Predictor, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	p := &Predictor{model: c.Model, machine: c.Machine, par: c.Parallel.whole(), scheme: c.Scheme, price: c.Price}
	p.dense, p.plain = c.Scheme.parts()
	p.wide = wide(p.model, p.machine.GPU, &p.par)
	p.spread()
	for i := range c.Model.Layers {
		l := &c.Model.Layers[i]
		for j := range l.Blocks {
			if b := &l.Blocks[j]; b.Attention != nil || b.Scan != nil || b.Experts != nil {
				p.cores = append(p.cores, core{b, float64(l.Count)})
			}
		}
	}
	p.footprint = p.hold()
	return p, nil
}

// spread prices the even operators for every set of rides.
func (p *Predictor) spread() {
	one, two := p.template(), p.template()
	one.Batch, two.Batch = 1, 2
	tokens1, tokens2 := p.proportional(&one), p.proportional(&two)
	rows1, rows2 := one.head(nil, p.model), two.head(nil, p.model)
	p.tells = tells(tokens1, tokens2, rows1, rows2)
	e := &p.machine.Engine
	for _, s := range e.states(one) {
		a := e.carries(&s) & p.tells
		if p.evenOn(a) != nil {
			continue
		}
		v := even{on: a}
		v.tokens, v.rows = p.lines(&v.ofTokens, a, tokens1, tokens2), p.lines(&v.ofRows, a, rows1, rows2)
		p.even = append(p.even, v)
	}
}

// evenOn are the even operators with these rides, nil if there are none: of the few
// sets that an engine's steps have.
func (p *Predictor) evenOn(a aboard) *even {
	for i := range p.even {
		if p.even[i].on == a {
			return &p.even[i]
		}
	}
	return nil
}

// template is a step of one token of one sequence.
func (p *Predictor) template() Step {
	return Step{Par: &p.par, Scheme: &p.scheme, Dense: &p.dense, Plain: &p.plain, Batch: 1, New: 1, Logits: 1, Wide: p.wide}
}

// proportional lists the operators of a step that are proportional to its tokens.
func (p *Predictor) proportional(s *Step) []Op {
	dst := s.embedding(make([]Op, 0, 32), p.model)
	for i := range p.model.Layers {
		l := &p.model.Layers[i]
		first := len(dst)
		for j := range l.Blocks {
			block := len(dst)
			dst = s.before(dst, &l.Blocks[j])
			dst = s.after(dst, p.model, &l.Blocks[j], joined(l, j))
			s.inMixture(dst[block:], l, j)
		}
		inLayer(dst[first:], l)
	}
	return s.finalNorm(s.hops(dst, p.model), p.model)
}

// lines finds the lines through the operators at x = 1 and at x = 2.
func (p *Predictor) lines(all *line, on aboard, one, two []Op) []price {
	prices := make([]price, len(one))
	for i := range one {
		a, b := p.machine.within(&one[i], on), p.machine.within(&two[i], on)
		prices[i] = price{
			fixed: a.Fixed, compute: b.Compute - a.Compute,
			memory: 2*a.Memory - b.Memory, memory1: b.Memory - a.Memory, network: b.Network - a.Network,
		}
		if one[i].Kind == Collective {
			prices[i].collective, prices[i].within, prices[i].wide = &one[i], on.has(one[i].Ride), !on.has(ownProduct)
		}
		var first, second sums
		first.of(&one[i], &a)
		second.of(&two[i], &b)
		all.base.add(&first, 2)
		all.base.add(&second, -1)
		all.slope.add(&second, 1)
		all.slope.add(&first, -1)
	}
	return prices
}

// common prices the operators that are proportional to tokens or rows.
func (p *Predictor) common(tokens, rows float64, on aboard) (t tally) {
	v := p.evenOn(on & p.tells)
	v.ofTokens.at(&t.sums, tokens)
	p.charge(&t, v.tokens, tokens)
	if rows > 0 {
		v.ofRows.at(&t.sums, rows)
		p.charge(&t, v.rows, rows)
	}
	return t
}

// charge adds the time of operators at x.
func (p *Predictor) charge(t *tally, prices []price, x float64) {
	for i := range prices {
		r := &prices[i]
		c := Cost{Compute: r.compute.Times(x), Memory: r.memory + r.memory1.Times(x), Network: r.network.Times(x), Fixed: r.fixed}
		if o := r.collective; o != nil {
			latency := p.machine.latency(o, x)
			if r.within {
				latency = p.machine.posted(o, x, r.wide)
			}
			c.Fixed = latency.Times(o.Layers * o.Kernels)
		}
		t.takes(&c, 0, p.machine.held)
	}
}

// core adds what a block's core costs in a step that takes some rides along.
func (p *Predictor) core(t *tally, s *Step, c *core, on aboard) {
	if c.block.Experts == nil && c.block.Scan == nil {
		var room [3]Op
		p.priced(t, s.core(room[:0], p.model, c.block), s, c.layers, on)
		return
	}
	var room [8]Op
	p.priced(t, s.core(room[:0], p.model, c.block), s, c.layers, on)
}

func (p *Predictor) priced(t *tally, ops []Op, s *Step, layers float64, on aboard) {
	for i := range ops {
		o := &ops[i]
		o.Layers = layers
		c := p.machine.within(o, on)
		t.of(o, &c)
		t.takes(&c, o.Variant, p.machine.held)
		if o.Variant&mixed != 0 {
			t.sig ^= uint64(s.Past) // no two of them are alike
		}
	}
}
