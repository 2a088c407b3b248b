package validate

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"llmprof/internal/stats"
)

// A Dimension is something that groups of rows have in common.
type Dimension string

// The dimensions.
const (
	ByEngine Dimension = "engine"
	ByGPU    Dimension = "gpu"
	ByTP     Dimension = "tp"
	ByModel  Dimension = "model"
	ByFFN    Dimension = "ffn"       // tells models with dense feed-forward layers from mixtures of experts
	ByKind   Dimension = "kind"      // tells attention to all keys, windows, latent and sparse attention, and recurrences apart
	ByHost   Dimension = "placement" // tells models of which experts or layers lie in host memory from those whole on the GPU
	ByBatch  Dimension = "batch"
	ByServer Dimension = "release" // tells releases of an engine apart, those of its constants together
	BySource Dimension = "source"
)

// dimensions lists them.
func dimensions() []Dimension {
	return []Dimension{ByEngine, ByGPU, ByTP, ByModel, ByFFN, ByKind, ByHost, ByBatch, ByServer, BySource}
}

// ParseDimension finds a dimension by name.
func ParseDimension(name string) (Dimension, error) {
	return known("dimension", name, dimensions())
}

// A Group is what rows have in common; nil where they were not told apart by it.
type Group struct {
	Metric Metric  `json:"metric"`                    // what was observed; the name ends in its unit
	Engine *string `json:"engine"`                    // engine and mode, as "transformers graph"; null where groups are not told apart by it
	GPU    *string `json:"gpu"`                       // key in the table of GPUs
	TP     *int    `json:"tp" jsonschema:"minimum=1"` // tensor parallelism
	Model  *string `json:"model"`
	// feed-forward layers of the models: dense, or experts of mixtures
	FFN *string `json:"ffn" jsonschema:"enum=dense,enum=experts"`
	// what mixes tokens in the models: attention to all keys alone, or windows, latent vectors, chosen keys, recurrences
	Kind *string `json:"kind" jsonschema:"enum=attention,enum=windows,enum=latent,enum=sparse,enum=hybrid"`
	// what lies in host memory of models that are not whole on the GPU
	InHost *string `json:"placement" jsonschema:"enum=nothing,enum=experts,enum=layers"`
	// release of the engine; timed: that of its constants
	Server *string `json:"release"`
	Batch  *int    `json:"batch" jsonschema:"minimum=1"` // sequences together
	// where the observations are from
	Source *string `json:"source"`
	Fitted bool    `json:"fitted"` // a constant was fitted on them
}

// A Summary says how far off the predictions of a group are.
type Summary struct {
	Group
	N         int      `json:"n" jsonschema:"minimum=1"`
	Bias      float64  `json:"bias"`                                      // mean of predicted over observed less 1
	MedianAPE float64  `json:"median_ape" jsonschema:"minimum=0"`         // median of the absolute error
	MeanAPE   float64  `json:"mean_ape" jsonschema:"minimum=0"`           // mean of the absolute error
	P90APE    float64  `json:"p90_ape" jsonschema:"minimum=0"`            // 90th percentile of the absolute error
	Coverage  *float64 `json:"coverage" jsonschema:"minimum=0,maximum=1"` // share of the observations inside of the predicted interval
	Noise     *float64 `json:"noise" jsonschema:"minimum=0"`              // median half-width of the observations' own intervals, as a share
	// 90th percentile of how far an observation is from another of the same configuration
	Repeat *float64 `json:"repeat_p90" jsonschema:"minimum=0"`
	Reason *string  `json:"coverage_reason"` // why Coverage is nil
}

// noInterval is why an energy has no coverage.
const noInterval = "an estimate gives no interval of energy"

// Summarize groups rows by metric, by whether a constant was fitted on them, and
// by what is asked for.
func Summarize(rows []Row, by ...Dimension) []Summary {
	groups := map[string][]*Row{}
	var keys []string
	for i := range rows {
		k := groupKey(&rows[i], by)
		if groups[k] == nil {
			keys = append(keys, k)
		}
		groups[k] = append(groups[k], &rows[i])
	}
	all := make([]Summary, 0, len(keys))
	for _, k := range keys {
		s := summarize(groups[k])
		s.Group = groupOf(groups[k][0], by)
		all = append(all, s)
	}
	slices.SortStableFunc(all, func(a, b Summary) int { return a.order(&b.Group) })
	return all
}

// order is below 0 where g comes before other in a table.
func (g *Group) order(other *Group) int {
	fitted := func(g *Group) int {
		if g.Fitted {
			return 1
		}
		return 0
	}
	return cmp.Or(
		slices.Index(metrics(), g.Metric)-slices.Index(metrics(), other.Metric), fitted(g)-fitted(other),
		compare(g.Source, other.Source), compare(g.GPU, other.GPU), compare(g.Engine, other.Engine),
		compare(g.Server, other.Server), compare(g.TP, other.TP), compare(g.Model, other.Model), compare(g.Kind, other.Kind),
		compare(g.FFN, other.FFN), compare(g.InHost, other.InHost), compare(g.Batch, other.Batch),
	)
}

// compare orders two values of groups that were told apart by the same.
func compare[T cmp.Ordered](a, b *T) int {
	if a == nil || b == nil {
		return 0
	}
	return cmp.Compare(*a, *b)
}

func groupKey(r *Row, by []Dimension) string {
	k := fmt.Sprintf("%s|%v", r.Metric, r.Fitted != "")
	for _, d := range by {
		k += "|" + dimension(r, d)
	}
	return k
}

func dimension(r *Row, d Dimension) string {
	switch d {
	case ByEngine:
		return r.Runs()
	case ByGPU:
		return r.GPU
	case ByTP:
		return fmt.Sprint(r.TP)
	case ByModel:
		return r.Model
	case ByFFN:
		return r.FFN
	case ByKind:
		return r.Kind
	case ByHost:
		return r.InHost
	case ByBatch:
		return fmt.Sprint(r.Batch)
	case ByServer:
		return cmp.Or(r.Release, "timed")
	}
	return r.Source
}

func groupOf(r *Row, by []Dimension) Group {
	g := Group{Metric: r.Metric, Fitted: r.Fitted != ""}
	for _, d := range by {
		text := dimension(r, d)
		switch d {
		case ByEngine:
			g.Engine = &text
		case ByGPU:
			g.GPU = &text
		case ByTP:
			g.TP = &r.TP
		case ByModel:
			g.Model = &text
		case ByFFN:
			g.FFN = &text
		case ByKind:
			g.Kind = &text
		case ByHost:
			g.InHost = &text
		case ByServer:
			g.Server = &text
		case ByBatch:
			g.Batch = &r.Batch
		case BySource:
			g.Source = &text
		}
	}
	return g
}

func summarize(rows []*Row) Summary {
	s := Summary{N: len(rows), Repeat: repeatability(rows)}
	signed, absolute := make([]float64, len(rows)), make([]float64, len(rows))
	var noise []float64
	var inside, intervals float64
	for i, r := range rows {
		signed[i], absolute[i] = r.Error, math.Abs(r.Error)
		if in, ok := r.Inside(); ok {
			intervals++
			if in {
				inside++
			}
		}
		if n, ok := r.noise(); ok {
			noise = append(noise, n)
		}
	}
	slices.Sort(absolute)
	s.Bias, s.MeanAPE = stats.Mean(signed), stats.Mean(absolute)
	s.MedianAPE, s.P90APE = stats.Percentile(absolute, 50), stats.Percentile(absolute, 90)
	if s.Reason = new(noInterval); intervals > 0 {
		share := inside / intervals
		s.Coverage, s.Reason = &share, nil
	}
	if len(noise) > 0 {
		slices.Sort(noise)
		s.Noise = new(stats.Percentile(noise, 50))
	}
	return s
}

// Over are the groups that no constant was fitted on whose median error is more
// than a limit.
func Over(all []Summary, limit float64) []Summary {
	return slices.DeleteFunc(slices.Clone(all), func(s Summary) bool { return s.Fitted || s.MedianAPE <= limit })
}

// String names the group.
func (g *Group) String() string {
	parts := []string{string(g.Metric)}
	for _, p := range []*string{g.Engine, g.GPU, g.Model, g.FFN, g.Source} {
		if p != nil {
			parts = append(parts, *p)
		}
	}
	if g.TP != nil {
		parts = append(parts, fmt.Sprintf("TP %d", *g.TP))
	}
	if g.Batch != nil {
		parts = append(parts, fmt.Sprintf("batch %d", *g.Batch))
	}
	return strings.Join(parts, ", ")
}
