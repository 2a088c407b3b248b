package measure

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"llmprof/analytic"
	"llmprof/analytic/operator"
	"llmprof/measure/experiment"
	"llmprof/measure/power"
	"llmprof/measure/result"
	"llmprof/measure/worker"
	"llmprof/models"
)

// Settings say what to measure, of what, and how long to look.
type Settings struct {
	Model       result.Model
	Load        worker.Load
	Parallelism result.Parallelism
	Workload    result.Workload

	Size, TTFT, TPOT, TTLT, Energy bool
	Ops                            bool // the operators of a step, one by one

	Repeats     int           // measured passes of each phase, at least
	Warmup      int           // passes before the first; Steady to go by the times
	WarmupBlock time.Duration // duration of the blocks of passes whose times are compared
	WarmupLimit time.Duration // after which a phase is measured unsteady, and marked
	Window      time.Duration // shortest window of an energy measurement
	Idle        time.Duration // duration of the measurement of idle power

	// Theory computes the sizes that the counted ones are compared with, of a cache that has room for the
	// given tokens of each sequence. It is nil if the shape is not known.
	Theory func(tokens int) (*analytic.Memory, error)

	Progress func(string) // how far a phase is, and "" at its end; nil for nobody

	Unloaded *result.Window // idle power before the engine was started; nil if not measured
	Carbon   *result.CO2    // intensity of the power grid; nil if not given
}

// steady is the Warmup that ends when times hold still.
const steady = 0

// Defaults of the times. An energy window of 5 s holds 50 ticks of a counter
// that ticks each 100 ms, so that an edge that is a tick off costs 2 %; edges are
// found at ticks, so it costs less.
const (
	defaultRepeats     = 10
	defaultWarmupBlock = time.Second
	defaultWarmupLimit = time.Minute
	defaultWindow      = 5 * time.Second
	defaultIdle        = 5 * time.Second
)

// defaults fills in what was left to the measurer.
func (s *Settings) defaults() {
	s.Repeats = cmp.Or(s.Repeats, defaultRepeats)
	s.WarmupBlock, s.WarmupLimit = cmp.Or(s.WarmupBlock, defaultWarmupBlock), cmp.Or(s.WarmupLimit, defaultWarmupLimit)
	s.Window, s.Idle = cmp.Or(s.Window, defaultWindow), cmp.Or(s.Idle, defaultIdle)
}

// check refuses settings that cannot be measured.
func (s *Settings) check() error {
	l := &s.Load
	for _, n := range []struct {
		what  string
		value int
	}{{"batch", l.Batch}, {"prompt length", l.PromptLen}, {"generated length", l.GenLen}, {"number of repeats", s.Repeats}, {"TP", l.TP}} {
		if n.value < 1 {
			return fmt.Errorf("the %s is %d: want at least 1", n.what, n.value)
		}
	}
	if !s.Size && !s.TTFT && !s.TPOT && !s.TTLT && !s.Energy && !s.Ops {
		return fmt.Errorf("nothing to measure: want size, TTFT, TPOT, TTLT, energy or operators")
	}
	if s.TPOT && l.GenLen < 2 {
		return fmt.Errorf("one generated token has no TPOT: want a generated length of 2 or more")
	}
	return nil
}

// phases are those that the wanted figures come from. Energy alone is energy of
// everything.
func (s *Settings) phases() []worker.Phase {
	all := s.Energy && !s.TTFT && !s.TPOT && !s.TTLT
	var p []worker.Phase
	if s.TTFT || all {
		p = append(p, worker.Prefill)
	}
	if s.TPOT || all && s.Load.GenLen > 1 {
		p = append(p, worker.Decode)
	}
	if s.TTLT || all {
		p = append(p, worker.Request)
	}
	return p
}

// settings turn a point into what a session needs, with the model's shape and
// the theory of its sizes.
func (l *Lab) settings(ctx context.Context, p *experiment.Point) (*Settings, error) {
	m, config, err := l.model(ctx, p.Model)
	if err != nil {
		return nil, err
	}
	set := &Settings{
		Progress: l.Progress,
		Model:    result.Model{Name: m.Name, Source: m.Source, Family: m.Family, ParamsTotal: m.Params(), RandomWeights: p.RandomWeights},
		Load: worker.Load{
			Model: p.Model, RandomWeights: p.RandomWeights, Weights: p.WeightsDir, DType: p.DType, Quantization: p.Quantization,
			Attention: p.Attention, Graph: p.Graph, Compile: p.Compile, Device: p.Device, TP: p.TP, TrustRemoteCode: p.TrustRemoteCode,
			Workload: p.Workload.Workload, Seed: p.Seed, SaveOutputs: p.SaveOutputs,
			AllLogits: p.Elana, FrozenContext: p.Elana, Libraries: p.Libraries, Config: config,
		},
		Parallelism: result.Parallelism{TP: p.TP, PP: 1, EP: 1, DP: 1, Replicas: p.Replicas},
		Workload:    workloadOf(p),
		Size:        p.Size, TTFT: p.TTFT, TPOT: p.TPOT, TTLT: p.TTLT, Energy: p.Energy, Ops: p.Ops,
		Repeats: p.Repeats, Warmup: p.Warmup,
		Theory:      func(tokens int) (*analytic.Memory, error) { return l.theory(m, p, tokens) },
		WarmupBlock: l.WarmupBlock, WarmupLimit: l.WarmupLimit, Window: cmp.Or(p.Window.Duration(), l.Window), Idle: l.idleTime(p),
	}
	if set.Carbon, err = carbon(p); err != nil {
		return nil, err
	}
	if p.Prompts != randomPrompts {
		if set.Load.Prompts, set.Load.Texts, err = readPrompts(p.Prompts); err != nil {
			return nil, err
		}
	}
	if p.Engine == experiment.Native {
		if err := l.resolveNative(ctx, set, m, p); err != nil {
			return nil, err
		}
	}
	set.defaults()
	return set, nil
}

func workloadOf(p *experiment.Point) result.Workload {
	return result.Workload{
		Workload: p.Workload.Workload, Weights: p.WeightFormat(), KV: p.DType, Act: p.DType,
		Prompts: p.Prompts, Seed: p.Seed, Elana: p.Elana,
	}
}

// carbon is the intensity of the grid that the point gives or names, nil for none.
func carbon(p *experiment.Point) (*result.CO2, error) {
	switch {
	case p.CarbonIntensity > 0:
		return &result.CO2{GramsPerKWh: p.CarbonIntensity, Source: "given"}, nil
	case p.CarbonRegion == "":
		return nil, nil
	}
	intensity, source, err := power.Region(p.CarbonRegion)
	if err != nil {
		return nil, err
	}
	return &result.CO2{GramsPerKWh: intensity, Source: source}, nil
}

// theory is what one GPU's memory holds of the model in an engine whose cache
// has room for so many tokens. It is the same on every GPU.
func (l *Lab) theory(m *models.Model, p *experiment.Point, tokens int) (*analytic.Memory, error) {
	scheme, err := models.ParseScheme(p.WeightFormat())
	if err != nil {
		return nil, err
	}
	n, err := operator.Count(m, operator.Parallelism{TP: p.TP}, scheme, &operator.Workload{
		Batch: p.Batch, PromptLen: max(tokens-1, 1), GenLen: 1, AllLogits: p.Elana,
	})
	if err != nil {
		return nil, fmt.Errorf("the theory of %s: %w", m.Name, err)
	}
	return &n.Memory, nil
}
