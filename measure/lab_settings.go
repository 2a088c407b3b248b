package measure

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"llmprof/analytic"
	"llmprof/measure/engine"
	"llmprof/measure/experiment"
	"llmprof/measure/power"
	"llmprof/measure/result"
	"llmprof/models"
	"llmprof/operator"
	"llmprof/parallel"
	"llmprof/workload"
)

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
		Load: engine.Load{
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
		WarmupBlock: l.WarmupBlock, WarmupLimit: l.WarmupLimit, Window: cmp.Or(time.Duration(float64(p.Window)*float64(time.Second)), l.Window), Idle: l.idleTime(p),
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
		if err := l.settleNative(ctx, set, m, p); err != nil {
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
	n, err := operator.Count(m, parallel.Parallelism{TP: p.TP}, scheme, &workload.Workload{
		Batch: p.Batch, PromptLen: max(tokens-1, 1), GenLen: 1, AllLogits: p.Elana,
	})
	if err != nil {
		return nil, fmt.Errorf("the theory of %s: %w", m.Name, err)
	}
	return &n.Memory, nil
}
