package validate

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"llmprof/analytic"
	"llmprof/analytic/energy"
	"llmprof/analytic/engine"
	"llmprof/analytic/operator"
	"llmprof/hardware"
	"llmprof/models"
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

	models      map[string]found[*models.Model]
	gpus        map[string]found[*hardware.GPU]
	stored      map[storage]found[stored]
	engines     map[runner]found[analytic.Engine]
	machines    map[runner]found[*analytic.Machine]
	alters      map[runner]found[bool]              // whether change alters a constant of it
	altered     map[runner]found[*analytic.Machine] // machines with a changed constant
	predictions map[Config]found[prediction]
}

// found is what a name or a configuration led to, or why to nothing.
type found[T any] struct {
	value T
	err   error
}

// A prediction is the estimate of a configuration.
type prediction struct {
	analytic.Estimate
	first          analytic.Estimate // estimate of one client alone; only for clients in a closed loop
	joins          unit.Seconds      // time that a prompt adds to a decode step of all clients; only for clients in a closed loop
	promptsPerStep float64           // prompts that a step has; only of clients in a closed loop
	apart          bool              // prompts have steps of their own
	ffn            string            // feed-forward layers of the model, as Row.FFN
	kind           string            // what mixes its tokens, as Row.Kind

	placement string // what of it lies in host memory, as Row.InHost
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

// GPUName is the full name of the GPU with that key.
func (s *Scorer) GPUName(key string) string {
	if g, err := s.GPU(key); err == nil {
		return g.Name
	}
	return key
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

func (s *Scorer) predict(c Config) (prediction, error) {
	return once(&s.predictions, c, s.estimate)
}

func (s *Scorer) estimate(c Config) (p prediction, err error) {
	resolved, err := s.caseOf(&c)
	if err != nil {
		return p, err
	}
	predictor, err := analytic.NewPredictor(resolved)
	if err != nil {
		return p, &mismatch{Impossible, err}
	}
	p.kind, p.ffn = Architecture(resolved.Model)
	p.placement = placement(resolved.Offload)
	if p.Estimate, err = predictor.Predict(&resolved.Workload); err != nil {
		return p, &mismatch{Impossible, err}
	}
	if err := holds(&c, &p.Memory); err != nil {
		return p, &mismatch{DoesNotFit, err}
	}
	if c.Load.clients() {
		alone := resolved.Workload
		alone.Batch = 1
		if p.first, err = predictor.Predict(&alone); err != nil {
			return p, &mismatch{Impossible, err}
		}
		name := resolved.Machine.Engine.Profile().Engine()
		p.promptsPerStep = c.promptsPerStep(&resolved.Workload, predictor, !cuts(name))
		scheduler, err := engine.SchedulerOf(name, resolved.Machine.Engine, resolved.Machine.GPU)
		if p.apart = err == nil && !scheduler.Mixed; p.apart {
			p.joins = goes(predictor, &resolved.Workload, p.promptsPerStep)
		} else {
			p.joins = joins(predictor, &resolved.Workload, p.promptsPerStep)
		}
	}
	return p, nil
}

// placement is what lies in host memory, as Row.InHost.
func placement(off *operator.Offload) string {
	switch {
	case off == nil:
		return "nothing"
	case slices.Contains(off.Kinds, operator.WholeLayer):
		return "layers"
	}
	return "experts"
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

// caseOf turns a configuration into a case, as "llmprof estimate" does.
func (s *Scorer) caseOf(c *Config) (*analytic.Case, error) {
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
	runs, err := s.runs(c.runner())
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
	if c.Load == Closed && c.Budget > 0 {
		// Launch files that fit the tokens of a step to a run fit its sequences too (max-num-seqs of aiconfigurator's cli_args.0.12.0.j2).
		question.Settings.Sequences = c.Batch
	}
	if question.Popularity, err = popularity(c.Skew, held.model); err != nil {
		return nil, &mismatch{Impossible, err}
	}
	if question.Machine, err = s.machine(c); err != nil || c.Placement == "" {
		return question, err
	}
	place, _, err := engine.ParsePlacement(c.Placement)
	if err == nil {
		*question, err = place.Of(question)
	}
	if err != nil {
		return nil, &mismatch{Impossible, err}
	}
	return question, nil
}

// sameExperts is the skew of a model whose router gives every expert the same score, so that all tokens take the same ones.
const sameExperts = "same"

// popularity is how unevenly experts were chosen.
func popularity(skew string, m *models.Model) (*operator.Popularity, error) {
	switch skew {
	case "":
		return nil, nil
	case sameExperts:
		for _, b := range m.Blocks() {
			if e := b.Experts; e != nil {
				p := &operator.Popularity{Loads: make([]float64, e.Count)}
				for i := range e.TopK {
					p.Loads[i] = 1
				}
				return p, nil
			}
		}
	}
	zipf, err := strconv.ParseFloat(skew, 64)
	return &operator.Popularity{Zipf: zipf}, err
}

// A span is a predicted figure. Energies have no floor.
type span struct {
	expected         float64
	floor, low, high *float64
}

// of picks the prediction of a metric. What clients in a closed loop see includes queueing, but for the time between tokens.
func (p *prediction) of(c *Config, m Metric) (s span, err error) {
	clients := c.Load.clients()
	if clients && m != TPOT {
		return s, &mismatch{Queueing, fmt.Errorf("%d clients in a closed loop", c.Batch)}
	}
	switch m {
	case TTFT:
		return times(p.TTFT), nil
	case TPOT:
		if clients {
			return p.interrupted(c), nil
		}
		return times(p.TPOT), nil
	case TTLT:
		return times(p.TTLT), nil
	case EnergyPerPrompt:
		return joules(p.Energy.PerPrompt, p.Energy.Prompt), nil
	case EnergyPerToken:
		return joules(p.Energy.PerToken, p.Energy.Token), nil
	}
	return joules(p.Energy.PerRequest, p.Energy.Request), nil
}

func joules(e unit.Joules, i energy.Interval) span {
	low, high := float64(i.Low), float64(i.High)
	return span{expected: float64(e), low: &low, high: &high}
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

func byConfig(a, b *Config) int {
	return cmp.Or(
		cmp.Compare(a.GPU, b.GPU), cmp.Compare(a.Engine, b.Engine), cmp.Compare(a.Mode, b.Mode), cmp.Compare(a.Release, b.Release),
		cmp.Compare(a.Model, b.Model),
		cmp.Compare(a.TP, b.TP), cmp.Compare(a.EP, b.EP), cmp.Compare(a.Batch, b.Batch), cmp.Compare(a.Prompt, b.Prompt),
		cmp.Compare(a.Gen, b.Gen),
		cmp.Compare(a.Weights, b.Weights), cmp.Compare(a.KV, b.KV), cmp.Compare(a.Load, b.Load), cmp.Compare(a.Graphs, b.Graphs),
		cmp.Compare(a.RecvInterval, b.RecvInterval), cmp.Compare(a.Option, b.Option), cmp.Compare(a.Skew, b.Skew),
		cmp.Compare(a.Host, b.Host), cmp.Compare(a.Placement, b.Placement),
	)
}

// Architecture is what sets the layers of a model apart, as Row has it: those that mix tokens (recurrences, sparse, latent or windowed
// attention, else attention), and the feed-forward layers.
func Architecture(m *models.Model) (kind, ffn string) {
	kinds := []string{"attention", "windows", "latent", "sparse", "hybrid"}
	most := 0
	for _, b := range m.Blocks() {
		a := b.Attention
		switch {
		case b.Scan != nil:
			most = max(most, 4)
		case a == nil:
		case a.Indexer != nil || a.Compress > 0:
			most = max(most, 3)
		case a.Latent != nil:
			most = max(most, 2)
		case a.Window > 0:
			most = max(most, 1)
		}
	}
	if m.HasExperts() {
		return kinds[most], "experts"
	}
	return kinds[most], "dense"
}
