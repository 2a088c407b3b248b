package analytic

import (
	"math"
	"sync"

	"llmprof/footprint"
	"llmprof/operator"
	"llmprof/roofline"
	"llmprof/unit"
)

// A Predictor answers for any number of workloads of one model, machine, split
// and scheme. It may be used by several goroutines at once.
type Predictor struct {
	operator.Shard
	machine   *Machine
	price     unit.DollarsPerHour
	layers    int
	footprint footprint.Footprint
}

// rooms has Lowerings, whose slices have grown.
var rooms = sync.Pool{New: func() any { return new(Lowering) }}

// NewPredictor prepares for estimates of c, whatever its Workload.
func NewPredictor(c *Case) (*Predictor, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	p := &Predictor{Shard: operator.NewShard(c.Model, c.Parallel, c.Scheme, c.Popularity), machine: c.Machine, price: c.Price, layers: c.Model.NumLayers()}
	g, e := c.Machine.GPU, c.Machine.Engine.Profile()
	own := e.Reserve
	if e.Sampler != nil {
		own += e.Sampler(c.Model, g.Capacity())
	}
	p.footprint = footprint.Of(&p.Rank, footprint.Reserve(p.Par, g.System(), own))
	return p, nil
}

// Prefill is the steps of a prefill of one micro-batch, chunk by chunk.
func (p *Predictor) Prefill(w *Workload) [2]operator.Run { return p.Shard.Prefill(w, p.machine.Budget) }

// Budget is how many tokens a step of the engine takes at most, 0 for no limit.
func (p *Predictor) Budget() float64 { return float64(p.machine.Budget) }

// A Visit sees the kernels of a part of a step with what they cost.
type Visit func(l *Lowering, costs []roofline.Cost)

// Walk shows the kernels of a step, part by part.
func (p *Predictor) Walk(s *operator.Step, see Visit) { p.walk(s, see) }

// walk prices a step, all stages of the pipeline one after the other: it lists the
// operators of each part, lets the engine lower them to kernels, and sums what these
// cost. Every estimate and every report is such a walk.
func (p *Predictor) walk(s *operator.Step, see Visit) (t total) {
	l := rooms.Get().(*Lowering)
	l.GPU, l.Constants = p.machine.GPU, &p.machine.Cal.Constants
	l.step = *s
	l.Step = &l.step
	l.parts = [operator.PartLast + 1]timing{}
	p.part(&t, l, operator.PartFirst, s.AppendFirst(l.Ops[:0]), see)
	for i := range p.Model.Layers {
		p.part(&t, l, operator.PartLayers, s.AppendLayer(l.Ops[:0], &p.Model.Layers[i]), see)
	}
	if p.Par.PP > 1 {
		p.part(&t, l, operator.PartLayers, s.AppendHops(l.Ops[:0]), see)
	}
	p.part(&t, l, operator.PartLast, s.AppendLast(l.Ops[:0]), see)
	p.time(&t, &l.parts, s)
	rooms.Put(l)
	return t
}

// time sums the times of the parts of a step, and adds those of the host.
func (p *Predictor) time(t *total, parts *[operator.PartLast + 1]timing, s *operator.Step) {
	for i := range parts {
		t.timing.add(&parts[i], 1)
	}
	t.scatter = unit.Seconds(math.Sqrt(t.variance))
	p.launch(t, &t.timing, s)
	host := p.machine.seconds(roofline.HostStep)
	if p.Par.MicroBatches > 1 {
		t.stages(parts, p.Par.PP, p.layers)
		for i := range t.stage {
			p.launch(t, &t.stage[i], s)
		}
		t.stage[len(t.stage)-1].waitsForHost(host)
	}
	t.waitsForHost(host)
}

// part counts the operators of a part of a step, and prices their kernels.
func (p *Predictor) part(t *total, l *Lowering, which operator.Part, ops []operator.Op, see Visit) {
	l.Part, l.Ops, l.Kernels = which, ops, l.Kernels[:0]
	p.machine.Engine.Lower(l)
	l.reduceOps()
	t.AddOps(ops, l.Step.Past)
	sum := &l.parts[which]
	sum.floors(ops, &p.machine.prices.Peaks)
	var costs []roofline.Cost
	for i := range l.Kernels {
		k := &l.Kernels[i]
		c := p.machine.prices.Cost(&k.Kernel)
		t.Piece.Mark(sum.takes(k, &c, p.machine))
		t.terms |= c.Constants
		if see != nil {
			costs = append(costs, c)
		}
	}
	if see != nil {
		see(l, costs)
	}
}

// StepTime is what a step takes in which each of batch sequences gains fresh tokens
// after past ones, with the scores of logits positions of each.
func (p *Predictor) StepTime(batch, fresh, past, logits float64) unit.Seconds {
	s := p.Step(batch, fresh, past, logits)
	t := p.step(&s)
	t.limit(p.machine)
	return t.Expected
}

// step prices a step. A decode step of a batch beyond a switch of kernels takes no
// less than the largest batch before it.
func (p *Predictor) step(s *operator.Step) total {
	t := p.walk(s, nil)
	if !s.Decode() {
		return t
	}
	for _, limit := range p.machine.Engine.Profile().Switches {
		if limit >= s.Batch {
			continue
		}
		small := *s
		small.Batch = limit
		u := p.walk(&small, nil)
		t.terms |= u.terms
		t.raise(&t.timing, &u.timing, limit)
		for i := range t.stage {
			t.raise(&t.stage[i], &u.stage[i], limit)
		}
	}
	return t
}

// raise lets a part of the step take no less than it does with a batch at a switch.
func (t *total) raise(own, small *timing, limit float64) {
	if more := small.Expected - own.Expected; more > 0 {
		own.Expected, own.raised = small.Expected, own.raised+more
		own.bound[roofline.ByMemory] += more
		t.Piece.Mark(uint64(limit))
	}
}

// launch adds to the time of a stage what the host takes longer than the GPU takes for
// the kernels. Where the host is ahead of the GPU, a kernel still begins later than one
// of a graph does.
func (p *Predictor) launch(t *total, stage *timing, s *operator.Step) {
	m := p.machine
	stage.least = stage.floor.Time()
	t.Piece.Mark(stage.floor.Slowest())
	stage.host = p.host(stage, s)
	if stage.host > stage.Expected {
		stage.bound = [roofline.NumBounds]unit.Seconds{roofline.ByLaunch: stage.host}
		t.Piece.Mark(1 | stage.hide(stage.host-stage.Expected))
		stage.Expected = stage.host
	}
	if !s.Decode() || !m.Engine.Profile().Graph {
		stage.waitsForHost(m.seconds(roofline.StreamNode).Times(stage.launches))
	}
}

// host is how long the host takes for a step while the GPU works: launches, and with
// asynchronous scheduling what a decode step takes besides. What the first step of a
// prompt takes besides cannot be hidden.
func (p *Predictor) host(t *timing, s *operator.Step) unit.Seconds {
	m := p.machine
	eager := m.seconds(roofline.HostLaunch).Times(t.launches) + m.seconds(roofline.HostDispatch).Times(t.calls)
	if !s.Decode() {
		return eager
	}
	if m.Engine.Profile().Graph {
		return p.async(s)
	}
	return p.async(s) + eager
}

// async is what the host takes for a step besides launches, with asynchronous scheduling.
func (p *Predictor) async(s *operator.Step) unit.Seconds {
	return p.machine.seconds(roofline.HostAsync) + p.machine.seconds(roofline.HostSequence).Times(s.Batch)
}

// waitsForHost adds time of the host.
func (t *timing) waitsForHost(host unit.Seconds) {
	t.Expected += host
	t.bound[roofline.ByLaunch] += host
}

// hide takes from what slower arithmetic would cost what launches take longer than
// the GPU: so much of it does not show. The result differs where another part of it shows.
func (t *timing) hide(wait unit.Seconds) (what uint64) {
	if wait >= t.Slower {
		what |= 2
	}
	if wait >= t.Slowest {
		what |= 4
	}
	t.Slower, t.Slowest = max(t.Slower-wait, 0), max(t.Slowest-wait, 0)
	return what
}

// maxSteps is how many steps a run may price one by one; only windows of a few
// tokens under answers of millions come near it.
const maxSteps = 20000

// A runner sums runs of steps.
type runner struct {
	p      *Predictor
	budget int // steps that it may still price before the rest is taken as linear
	first  *firstStep
}

// sum prices the first and the last step of a run, and halves the run where these do not
// lie on one linear piece.
func (r *runner) sum(run *operator.Run) (all total) {
	first := r.begin(&run.First)
	if run.Steps == 1 {
		return first
	}
	end := run.Last()
	last := r.p.step(&end)
	r.between(&all, run, &first, &last)
	return all
}

// A firstStep is the first decode step of the run before, which runs that differ in
// their length alone share.
type firstStep struct {
	batch, past, cache float64
	total              total
}

// begin prices the first step of a run.
func (r *runner) begin(s *operator.Step) total {
	f := r.first
	if f == nil || !s.Decode() {
		return r.p.step(s)
	}
	cache := 0.0
	if r.p.machine.Engine.Profile().FixedCache {
		cache = s.Cache
	}
	if f.batch != s.Batch || f.past != s.Past || f.cache != cache {
		*f = firstStep{s.Batch, s.Past, cache, r.p.step(s)}
	}
	return f.total
}

// between adds the steps of a run: as many times the mean of first and last if both lie on
// one piece, else the sums of the two halves. A run of two steps is their sum in any case.
func (r *runner) between(all *total, run *operator.Run, first, last *total) {
	if run.Steps <= 2 || first.Piece == last.Piece || r.budget <= 0 {
		all.add(first, float64(run.Steps)/2)
		all.add(last, float64(run.Steps)/2)
		return
	}
	r.budget -= 2
	left, right := run.Halves()
	end := left.Last()
	leftEnd, rightBegin := r.p.step(&end), r.p.step(&right.First)
	r.between(all, &left, first, &leftEnd)
	r.between(all, &right, &rightBegin, last)
}
