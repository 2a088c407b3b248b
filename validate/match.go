package validate

import (
	"cmp"
	"fmt"
	"math"
	"strings"

	"llmprof/analytic"
	"llmprof/analytic/engine"
	"llmprof/hardware"
	"llmprof/models"
	"llmprof/operator"
	"llmprof/roofline"
	"llmprof/unit"
)

// A Scorer matches observations with estimates. Estimates are kept: those of
// one configuration have several metrics.
type Scorer struct {
	// Model finds a model by the name that an observation has.
	Model func(name string) (*models.Model, error)
	// GPU finds a GPU by the name that an observation has.
	GPU func(name string) (*hardware.GPU, error)

	// Calibration finds what a GPU and an engine reach in practice; nil, or a nil
	// file, stands for the defaults of the GPU's generation. What was asked for once is
	// asked for again by several goroutines at a time.
	Calibration func(g *hardware.GPU, engine string) (*hardware.CalibrationFile, error)

	// Progress, if not nil, is told how many parts of a long computation are done.
	Progress func(done, of int)

	// change, if not nil, alters the constants of every estimate.
	change func(*roofline.Constants)

	models   map[string]found[*models.Model]
	gpus     map[string]found[*hardware.GPU]
	stored   map[storage]found[stored]
	machines map[runner]found[*analytic.Machines]
	alters   map[runner]found[bool]              // whether change alters a constant of it
	altered  map[runner]found[*analytic.Machine] // by change
	answers  map[Config]found[prediction]
}

// found is what a name or a configuration led to, or why to nothing.
type found[T any] struct {
	value T
	err   error
}

// A prediction is the estimate of a configuration.
type prediction struct {
	analytic.Estimate
	first    analytic.Estimate // of one client alone; only of clients in a closed loop
	joins    unit.Seconds      // by how much longer a decode step of all clients takes for a prompt in it; only of clients in a closed loop
	together float64           // prompts that a step has; only of clients in a closed loop
	apart    bool              // prompts have steps of their own
}

// A Reason is why an observation is not scored.
type Reason string

// The reasons.
const (
	UnknownModel  Reason = "unknown model"
	UnknownGPU    Reason = "unknown GPU"
	UnknownEngine Reason = "engine without a profile"
	OtherModel    Reason = "another model of that name"
	Impossible    Reason = "no estimate can be made"
	DoesNotFit    Reason = "does not fit in memory"
	Queueing      Reason = "under load it includes queueing"
	Repeated      Reason = "duplicate"
	Unreadable    Reason = "cannot be compared"
)

// A mismatch is an observation that cannot be scored.
type mismatch struct {
	reason Reason
	err    error
}

// Error says why.
func (m *mismatch) Error() string { return fmt.Sprintf("%s: %v", m.reason, m.err) }

// Unwrap returns what was wrong.
func (m *mismatch) Unwrap() error { return m.err }

// once looks a name up the first time that it is asked for.
func once[K comparable, T any](kept *map[K]found[T], key K, find func(K) (T, error)) (T, error) {
	if f, ok := (*kept)[key]; ok {
		return f.value, f.err
	}
	value, err := find(key)
	if *kept == nil {
		*kept = map[K]found[T]{}
	}
	(*kept)[key] = found[T]{value, err}
	return value, err
}

// Canonical is a configuration with the names that the tables have for its model
// and its GPU. Names that they do not know stay as they are.
func (s *Scorer) Canonical(c Config) Config {
	if m, err := once(&s.models, c.Model, s.Model); err == nil {
		c.Model = m.Name
	}
	if g, err := once(&s.gpus, c.GPU, s.GPU); err == nil {
		c.GPU = g.Key
	}
	return c
}

// predict answers for a configuration.
func (s *Scorer) predict(c Config) (prediction, error) {
	return once(&s.answers, c, s.estimate)
}

func (s *Scorer) estimate(c Config) (p prediction, err error) {
	question, err := s.question(&c)
	if err != nil {
		return p, err
	}
	predictor, err := analytic.NewPredictor(question)
	if err != nil {
		return p, &mismatch{Impossible, err}
	}
	if p.Estimate, err = predictor.Predict(&question.Workload); err != nil {
		return p, &mismatch{Impossible, err}
	}
	if err := holds(&c, &p.Memory); err != nil {
		return p, &mismatch{DoesNotFit, err}
	}
	if c.Load.clients() {
		alone := question.Workload
		alone.Batch = 1
		if p.first, err = predictor.Predict(&alone); err != nil {
			return p, &mismatch{Impossible, err}
		}
		p.together = c.Load.together(&question.Workload, predictor)
		scheduler, err := engine.SchedulerOf(question.Machine.Engine.Profile().Engine(), question.Machine.GPU)
		if p.apart = err == nil && !scheduler.Mixed; p.apart {
			p.joins = goes(predictor, &question.Workload, p.together)
		} else {
			p.joins = joins(predictor, &question.Workload, p.together)
		}
	}
	return p, nil
}

// holds tells what was run at once from what an engine must have run in parts. In
// a closed loop prompts come one by one, so only decoding has to fit.
func holds(c *Config, m *analytic.Memory) error {
	switch {
	case c.Load.clients() && c.Batch > m.MaxDecodeBatch:
		return fmt.Errorf("%d sequences fit at once, not %d", m.MaxDecodeBatch, c.Batch)
	case c.Load == Static && !m.Fits():
		return fmt.Errorf("%v are needed of %v", m.Total, m.Usable)
	}
	return nil
}

// question turns a configuration into a case, as "llmprof estimate" does.
func (s *Scorer) question(c *Config) (*analytic.Case, error) {
	m, err := once(&s.models, c.Model, s.Model)
	if err != nil {
		return nil, &mismatch{UnknownModel, err}
	}
	if n := m.Params(); c.Params != 0 && c.Params != n {
		return nil, &mismatch{OtherModel, fmt.Errorf("it was measured with %d parameters, %s has %d", c.Params, m.Name, n)}
	}
	g, err := once(&s.gpus, c.GPU, s.GPU)
	if err != nil {
		return nil, &mismatch{UnknownGPU, err}
	}
	runs, err := engineOf(c)
	if err != nil {
		return nil, &mismatch{UnknownEngine, err}
	}
	held, err := s.store(c, m)
	if err != nil {
		return nil, &mismatch{Impossible, err}
	}
	used := held.scheme.For(g)
	if err := engine.Runs(runs, held.model, g, &used); err != nil {
		return nil, &mismatch{Impossible, err}
	}
	question := &analytic.Case{
		Model: held.model, Scheme: used,
		Workload: analytic.Workload{Batch: c.Batch, PromptLen: c.Prompt, GenLen: c.Gen, Budget: c.Budget, AllLogits: c.Logits},
		Parallel: analytic.Parallelism{TP: c.TP, EP: c.EP, GPUsPerNode: g.GPUsPerNode},
	}
	question.Machine, err = s.machine(question, c)
	return question, err
}

// engineOf is the engine of a configuration, in its mode.
func engineOf(c *Config) (analytic.Engine, error) { return c.runner().parse() }

// A runner is an engine on a GPU, by the names that an observation has.
type runner struct {
	gpu, engine, mode, release string
	graphs                     int
}

// parse is the engine in its mode, with the graphs that it was told to capture.
func (r runner) parse() (analytic.Engine, error) {
	e, err := engine.ParseMode(r.engine, r.mode)
	if err == nil && r.release != "" {
		e, err = engine.AtRelease(e, r.release)
	}
	if err != nil || r.graphs == 0 {
		return e, err
	}
	return engine.WithGraphs(e, r.graphs)
}

// machine is what the case runs on, by the calibration of its GPU and engine.
func (s *Scorer) machine(c *analytic.Case, config *Config) (*analytic.Machine, error) {
	if s.change != nil {
		return once(&s.altered, config.runner(), s.changed)
	}
	all, err := once(&s.machines, config.runner(), s.prepare)
	if err != nil {
		return nil, &mismatch{Impossible, err}
	}
	return c.On(all), nil
}

func (c *Config) runner() runner { return runner{c.GPU, c.Engine, c.Mode, c.Release, c.Graphs} }

// prepare is an engine on a GPU with the calibration of both.
func (s *Scorer) prepare(r runner) (*analytic.Machines, error) {
	g, e, file, err := s.calibrated(r)
	if err != nil {
		return nil, err
	}
	return analytic.NewMachines(g, e, file)
}

// calibrated finds an engine, a GPU and their calibration, nil where there is none.
func (s *Scorer) calibrated(r runner) (g *hardware.GPU, e analytic.Engine, file *hardware.CalibrationFile, err error) {
	if g, err = once(&s.gpus, r.gpu, s.GPU); err != nil {
		return nil, nil, nil, err
	}
	if e, err = r.parse(); err != nil || s.Calibration == nil {
		return g, e, nil, err
	}
	file, err = s.Calibration(g, e.Profile().Engine())
	return g, e, file, err
}

// changed is the machine with the constants altered. Its interval is that of the
// generation: nobody asks for one, and making one takes some twenty estimates.
func (s *Scorer) changed(r runner) (*analytic.Machine, error) {
	g, e, file, err := s.calibrated(r)
	if err != nil {
		return nil, &mismatch{Impossible, err}
	}
	cal, err := analytic.Constants(g, e, file)
	if err != nil {
		return nil, &mismatch{Impossible, err}
	}
	s.change(&cal.Constants)
	m, err := analytic.NewMachine(g, cal, e)
	if err != nil {
		return nil, &mismatch{Impossible, err}
	}
	return m, nil
}

// A storage names a model with the formats of its weights and its KV cache.
type storage struct{ model, weights, kv string }

// stored is a model in these formats.
type stored struct {
	model  *models.Model
	scheme models.Scheme
}

// store is the model of a configuration in its formats: as a quantization of llama.cpp
// stores it, or as it is.
func (s *Scorer) store(c *Config, m *models.Model) (stored, error) {
	return once(&s.stored, storage{c.Model, c.Weights, c.KV}, func(storage) (q stored, err error) {
		q.model = m
		if !models.IsMix(c.Weights) {
			q.scheme, err = schemeOf(c, m)
			return q, err
		}
		if q.model, err = models.Quantize(m, c.Weights); err != nil {
			return q, err
		}
		q.scheme = models.StoredScheme(q.model)
		if c.KV != "" {
			err = q.scheme.KV.UnmarshalText([]byte(c.KV))
		}
		return q, err
	})
}

// schemeOf is the scheme of a configuration. Weights are "stored" as the model's checkpoint has
// them, and a format of activations may follow, as in "stored+act-fp8".
func schemeOf(c *Config, m *models.Model) (s models.Scheme, err error) {
	name, act, given := strings.Cut(c.Weights, "+act-")
	if name == "stored" {
		s = models.StoredScheme(m)
	} else if s, err = models.ParseScheme(name); err != nil {
		return s, err
	}
	if given {
		var f unit.Format
		if err := f.UnmarshalText([]byte(act)); err != nil {
			return s, err
		}
		s = s.WithAct(f)
	}
	if c.KV == "" {
		return s, nil
	}
	return s, s.KV.UnmarshalText([]byte(c.KV))
}

// A span is a predicted figure. Energies have no floor and no interval.
type span struct {
	expected         float64
	floor, low, high *float64
}

// of picks the prediction of a metric.
func (p *prediction) of(c *Config, m Metric) (s span, err error) {
	switch m {
	case TTFT:
		if c.Load.clients() {
			return s, &mismatch{Queueing, fmt.Errorf("%d clients in a closed loop", c.Batch)}
		}
		return times(p.TTFT), nil
	case TPOT:
		if c.Load.clients() {
			return p.interrupted(c), nil
		}
		return times(p.TPOT), nil
	case TTLT:
		if c.Load.clients() {
			return s, &mismatch{Queueing, fmt.Errorf("%d clients in a closed loop", c.Batch)}
		}
		return times(p.TTLT), nil
	}
	j, err := p.energy(c, m)
	return span{expected: float64(j)}, err
}

func (p *prediction) energy(c *Config, m Metric) (unit.Joules, error) {
	if c.Load.clients() {
		return 0, &mismatch{Queueing, fmt.Errorf("%d clients in a closed loop", c.Batch)}
	}
	switch m {
	case EnergyPerPrompt:
		return p.Energy.PerPrompt, nil
	case EnergyPerToken:
		return p.Energy.PerToken, nil
	}
	return p.Energy.PerRequest, nil
}

func times(s analytic.Span) span {
	floor, low, high := float64(s.Floor), float64(s.Low), float64(s.High)
	return span{float64(s.Expected), &floor, &low, &high}
}

// Span is the predicted time of a metric, with its floor and its interval. There
// is none of an energy.
func (s *Scorer) Span(c Config, m Metric) (span analytic.Span, err error) {
	p, err := s.predict(c)
	if err != nil {
		return span, err
	}
	t, err := p.of(&c, m)
	if err != nil {
		return span, err
	}
	if t.floor == nil {
		return span, &mismatch{Impossible, fmt.Errorf("%s is no time", m)}
	}
	return analytic.Span{
		Floor: unit.Seconds(*t.floor), Expected: unit.Seconds(t.expected), Low: unit.Seconds(*t.low), High: unit.Seconds(*t.high),
	}, nil
}

// together is how many prompts of clients in a closed loop come with one step. Those of answers of
// one length end together, and so do their prompts: as many share a step as its budget of tokens
// holds. Others ask one after the other, where not several do during one step.
func (l Load) together(w *analytic.Workload, p *analytic.Predictor) float64 {
	n := float64(w.Batch)
	if l == Varied {
		return max(n/float64(w.GenLen), 1)
	}
	return min(max((stepBudget(w, p)-n)/float64(w.PromptLen), 1), n)
}

// stepBudget is the most tokens of a step; infinite where there is no limit.
func stepBudget(w *analytic.Workload, p *analytic.Predictor) float64 {
	budget := p.Budget()
	if w.Budget > 0 {
		budget = float64(w.Budget)
	}
	if budget == 0 {
		return math.Inf(1)
	}
	return budget
}

// joins is by how much longer a decode step of all sequences of a workload takes for one of the
// prompts of other clients that join it together. Prompts longer than a step's budget of tokens
// take several steps.
func joins(p *analytic.Predictor, w *analytic.Workload, prompts float64) unit.Seconds {
	decode := operator.Group{Batch: float64(w.Batch), New: 1, Past: float64(w.PromptLen) + float64(w.GenLen)/2, Logits: 1}
	step, _ := p.MixedStep([]operator.Group{decode})
	budget := max(min(stepBudget(w, p), prompts*float64(w.PromptLen)+decode.Batch)-decode.Batch, 1)
	sum, left := unit.Seconds(0), prompts*float64(w.PromptLen)
	for past := 0.0; left > 0 && past < 1e6; past += budget / prompts {
		chunk := min(left, budget)
		prompt := operator.Group{Batch: prompts, New: chunk / prompts, Past: past}
		if left -= chunk; left <= 0 {
			prompt.Logits = 1
		}
		mixed, _ := p.MixedStep([]operator.Group{decode, prompt})
		sum += max(mixed-step, 0)
	}
	return sum.Times(1 / prompts)
}

// goes is what a step of so many prompts, of an engine whose prompts have steps of their own, takes for
// one of them.
func goes(p *analytic.Predictor, w *analytic.Workload, prompts float64) (sum unit.Seconds) {
	each := min(float64(w.PromptLen), stepBudget(w, p)/prompts)
	for past := 0.0; past < float64(w.PromptLen); past += each {
		step, _ := p.MixedStep([]operator.Group{{Batch: prompts, New: min(each, float64(w.PromptLen)-past), Past: past, Logits: 1}})
		sum += step
	}
	return sum.Times(1 / prompts)
}

// interrupted is the time per token in a closed loop of C clients: while one of
// them generates, each of the others asks once more, and its prompt joins a step of all, but for
// those that share a step with its own.
//
//	TPOT = decode step of C sequences + (C - prompts of a step) × what a prompt adds to a step / generated
//
// Where prompts have steps of their own, those whose answers have one length begin and end a wave together:
// on the mean half of the others' prompts come after one's own.
//
// The floor leaves the prompts out, since an engine may hide them. A prompt among
// decode steps is a burst: the power limit is kept over some 100 ms, and decoding
// draws less than it.
func (p *prediction) interrupted(c *Config) span {
	s := times(p.TPOT)
	stops := (float64(c.Batch) - min(p.together, float64(c.Batch))) / float64(c.Gen) * float64(p.joins)
	if p.apart && c.Load == Closed {
		stops /= 2
	}
	first := &p.first.TTFT
	s.expected += stops
	*s.low += stops * float64(first.Low/first.Expected)
	*s.high += stops * float64(first.High/first.Expected)
	return s
}

// byConfig orders configurations.
func byConfig(a, b *Config) int {
	return cmp.Or(
		cmp.Compare(a.GPU, b.GPU), cmp.Compare(a.Engine, b.Engine), cmp.Compare(a.Mode, b.Mode), cmp.Compare(a.Release, b.Release), cmp.Compare(a.Model, b.Model),
		cmp.Compare(a.TP, b.TP), cmp.Compare(a.EP, b.EP), cmp.Compare(a.Batch, b.Batch), cmp.Compare(a.Prompt, b.Prompt), cmp.Compare(a.Gen, b.Gen),
		cmp.Compare(a.Weights, b.Weights), cmp.Compare(a.KV, b.KV), cmp.Compare(a.Load, b.Load), cmp.Compare(a.Graphs, b.Graphs),
	)
}
