package analytic

import (
	"math"
	"sync"

	"llmprof/footprint"
	"llmprof/roofline"
	"llmprof/routing"
	"llmprof/unit"
)

// A Predictor answers for any number of workloads of one model, machine, split
// and scheme. It may be used by several goroutines at once.
type Predictor struct {
	footprint.Rank
	machine   *Machine
	price     unit.DollarsPerHour
	layers    int
	footprint footprint.Footprint
	routings  routing.Routings
}

// rooms has Lowerings, whose slices have grown.
var rooms = sync.Pool{New: func() any { return new(Lowering) }}

// NewPredictor prepares for estimates of c, whatever its Workload.
func NewPredictor(c *Case) (*Predictor, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	return newPredictor(c, c.Machine), nil
}

// newPredictor prepares for a case that was checked; without a machine it can count, but
// has no times.
func newPredictor(c *Case, m *Machine) *Predictor {
	p := &Predictor{Rank: footprint.NewRank(c.Model, c.Parallel, c.Scheme), machine: m, price: c.Price, layers: c.Model.NumLayers()}
	var reserve unit.Bytes
	if m != nil {
		e := m.Engine.Profile()
		own := e.Reserve
		if e.Sampler != nil {
			own += e.Sampler(c.Model, m.GPU.Capacity())
		}
		reserve = footprint.Reserve(p.Par, m.GPU, own)
	}
	p.footprint = footprint.Of(&p.Rank, reserve)
	p.routings = c.Popularity.Routings(c.Model, p.Par.EP)
	return p
}

// template is a step of one token of one sequence.
func (p *Predictor) template() Step {
	return Step{Rank: p.Rank, Batch: 1, New: 1, Logits: 1, routings: p.routings}
}

// at is a step of a micro-batch of a workload after past tokens.
func (p *Predictor) at(w *Workload, past int) Step {
	st := p.template()
	st.Batch, st.Cache, st.Past = float64(w.Batch)/float64(p.Par.MicroBatches), float64(w.Context()), float64(past)
	return st
}

// FirstDecode is the first decode step of a workload, of one micro-batch. Each that
// follows has one more token past.
func (p *Predictor) FirstDecode(w *Workload) Step { return p.at(w, w.PromptLen) }

// A Run is a number of steps like its first, each Past the one before by New, that is
// repeated for several groups of sequences.
type Run struct {
	First Step
	Steps int
	Times float64
}

// Prefill is the steps of a prefill of one micro-batch, chunk by chunk: those before the
// last, if there are any, and the last. The LM head runs in the last, unless it runs on
// every position. A batch that a step's budget of tokens does not hold prefills in equal
// groups; an engine fills its steps and splits a prompt between two of them, which is the
// same work in as many steps.
func (p *Predictor) Prefill(w *Workload) (runs [2]Run) {
	full := p.at(w, w.CachedPrefix)
	most, chunk := w.Step(p.budget())
	groups := max(math.Ceil(full.Batch/most), 1)
	fresh := w.PromptLen - w.CachedPrefix
	n := (fresh - 1) / int(chunk)
	last := p.at(w, w.CachedPrefix+n*int(chunk))
	full.Batch /= groups
	last.Batch = full.Batch
	full.New, full.Logits, last.New = chunk, 0, float64(fresh-n*int(chunk))
	if w.AllLogits {
		full.Logits, last.Logits = full.New, last.New
	}
	return [2]Run{{full, n, groups}, {last, 1, groups}}
}

// Budget is how many tokens a step of the engine takes at most, 0 for no limit.
func (p *Predictor) Budget() float64 { return float64(p.budget()) }

// budget is how many tokens a step of the engine takes at most, 0 for no limit.
func (p *Predictor) budget() int {
	if p.machine == nil {
		return 0
	}
	return p.machine.Budget
}

// A Visit sees the kernels of a part of a step with what they cost.
type Visit func(l *Lowering, costs []roofline.Cost)

// Walk shows the kernels of a step, part by part.
func (p *Predictor) Walk(s *Step, see Visit) { p.walk(s, see) }

// walk prices a step, all stages of the pipeline one after the other: it lists the
// operators of each part, lets the engine lower them to kernels, and sums what these
// cost. Every estimate and every report is such a walk.
func (p *Predictor) walk(s *Step, see Visit) (t total) {
	l := rooms.Get().(*Lowering)
	if p.machine != nil {
		l.GPU, l.Constants = p.machine.GPU, &p.machine.Cal.Constants
	}
	l.step = *s
	l.Step = &l.step
	l.parts = [PartLast + 1]timing{}
	p.part(&t, l, PartFirst, s.appendFirst(l.Ops[:0]), see)
	for i := range p.Model.Layers {
		p.part(&t, l, PartLayers, s.appendLayer(l.Ops[:0], &p.Model.Layers[i]), see)
	}
	if p.Par.PP > 1 {
		p.part(&t, l, PartLayers, s.hops(l.Ops[:0]), see)
	}
	p.part(&t, l, PartLast, s.appendLast(l.Ops[:0]), see)
	if p.machine != nil {
		p.time(&t, &l.parts, s)
	}
	rooms.Put(l)
	return t
}

// time sums the times of the parts of a step, and adds those of the host.
func (p *Predictor) time(t *total, parts *[PartLast + 1]timing, s *Step) {
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
func (p *Predictor) part(t *total, l *Lowering, which Part, ops []Op, see Visit) {
	l.Part, l.Ops, l.Kernels = which, ops, l.Kernels[:0]
	if p.machine != nil {
		p.machine.Engine.Lower(l)
		l.reduceOps()
	}
	t.counts(ops, uint64(l.Step.Past))
	if p.machine == nil {
		return
	}
	sum := &l.parts[which]
	sum.floors(ops, &p.machine.prices.Peaks)
	var costs []roofline.Cost
	for i := range l.Kernels {
		k := &l.Kernels[i]
		c := p.machine.prices.Cost(&k.Kernel)
		t.mark(sum.takes(k, &c, p.machine))
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
	s := p.template()
	s.Batch, s.New, s.Past, s.Logits = batch, fresh, past, logits
	t := p.step(&s)
	t.limit(p.machine)
	return t.Expected
}

// step prices a step. A decode step of a batch beyond a switch of kernels takes no
// less than the largest batch before it.
func (p *Predictor) step(s *Step) total {
	t := p.walk(s, nil)
	if p.machine == nil || !s.Decode() {
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
		t.mark(uint64(limit))
	}
}

// launch adds to the time of a stage what the host takes longer than the GPU takes for
// the kernels. Where the host is ahead of the GPU, a kernel still begins later than one
// of a graph does.
func (p *Predictor) launch(t *total, stage *timing, s *Step) {
	m := p.machine
	stage.least = stage.floor.Time()
	t.mark(stage.floor.Slowest())
	stage.host = p.host(stage, s)
	if stage.host > stage.Expected {
		stage.bound = [roofline.NumBounds]unit.Seconds{roofline.ByLaunch: stage.host}
		t.mark(1 | stage.hide(stage.host-stage.Expected))
		stage.Expected = stage.host
	}
	if !s.Decode() || !m.Engine.Profile().Graph {
		stage.waitsForHost(m.seconds(roofline.StreamNode).Times(stage.launches))
	}
}

// host is how long the host takes for a step while the GPU works: launches, and with
// asynchronous scheduling what a decode step takes besides. What the first step of a
// prompt takes besides cannot be hidden.
func (p *Predictor) host(t *timing, s *Step) unit.Seconds {
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
func (p *Predictor) async(s *Step) unit.Seconds {
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

// A run is a sum over steps that differ in their past alone.
type run struct {
	p      *Predictor
	budget int // steps it may still price before the rest is taken as linear
	first  *firstStep
}

// sum sums count steps like s, each Past further by stride than the one before. It prices the first and
// the last step, and between halves the run where these differ in their regime (total.regime).
func (r *run) sum(s Step, stride, count float64) (all total) {
	first := r.begin(&s)
	if count == 1 {
		return first
	}
	end := s
	end.Past += stride * (count - 1)
	last := r.p.step(&end)
	r.between(&all, s, stride, count, &first, &last)
	return all
}

// A firstStep is the first decode step of the run before, which runs that differ in
// their length alone share.
type firstStep struct {
	batch, past, cache float64
	total              total
}

// begin prices the first step of a run.
func (r *run) begin(s *Step) total {
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

// between adds the steps from first to last: count times their mean if both are of one regime, else the
// sums of the two halves of the run. A run of two steps is their sum in any case.
func (r *run) between(all *total, s Step, stride, count float64, first, last *total) {
	if count <= 2 || first.regime == last.regime || r.budget <= 0 {
		all.add(first, count/2)
		all.add(last, count/2)
		return
	}
	r.budget -= 2
	half := float64(int64(count / 2))
	left, right := s, s
	left.Past += stride * (half - 1)
	right.Past += stride * half
	leftEnd, rightBegin := r.p.step(&left), r.p.step(&right)
	r.between(all, s, stride, half, first, &leftEnd)
	r.between(all, right, stride, count-half, &rightBegin, last)
}
