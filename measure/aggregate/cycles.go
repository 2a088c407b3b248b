package aggregate

import (
	"fmt"
	"slices"
	"strings"

	"llmprof/internal/stats"
)

// Cycles are the repeats of one configuration.
type Cycles struct {
	Experiment string   `json:"experiment"` // the id without the cycle
	Hash       string   `json:"measurement_config_hash"`
	N          int      `json:"n"`
	Cycles     []int    `json:"cycles"`
	Metrics    []Spread `json:"metrics"`
}

// A Spread is how one metric varies from cycle to cycle: AIPerf's statistics of
// repeated runs. Of one value there is no spread.
type Spread struct {
	Name      string   `json:"name"`
	N         int      `json:"n"`
	Mean      float64  `json:"mean"`
	Min       float64  `json:"min"`
	Max       float64  `json:"max"`
	Std       *float64 `json:"std"` // standard deviation with n-1
	SE        *float64 `json:"se"`
	CV        *float64 `json:"cv"`
	CILow     *float64 `json:"ci_low"` // Student's t interval of the mean, 95 %
	CIHigh    *float64 `json:"ci_high"`
	TCritical *float64 `json:"t_critical"`
	Class     *string  `json:"class"` // excellent, good, fair or bad, by cv
}

// cyclesOf groups aggregates by configuration and compares those of which there
// are several.
func cyclesOf(all []Aggregate) ([]Cycles, error) {
	type key struct{ name, hash string }
	groups := map[key][]*Aggregate{}
	var order []key
	for i := range all {
		a := &all[i]
		name, repeated := strings.CutSuffix(a.ID, fmt.Sprintf("-c%d", a.Cycle))
		if a.Hash == "" || !repeated {
			continue
		}
		k := key{name, a.Hash}
		if groups[k] == nil {
			order = append(order, k)
		}
		groups[k] = append(groups[k], a)
	}
	sets := []Cycles{}
	for _, k := range order {
		group := groups[k]
		if len(group) < 2 {
			continue
		}
		slices.SortFunc(group, func(a, b *Aggregate) int { return a.Cycle - b.Cycle })
		c := Cycles{Experiment: k.name, Hash: k.hash, N: len(group)}
		for _, a := range group {
			c.Cycles = append(c.Cycles, a.Cycle)
		}
		var err error
		if c.Metrics, err = spreads(group); err != nil {
			return nil, fmt.Errorf("%s: %w", k.name, err)
		}
		sets = append(sets, c)
	}
	return sets, nil
}

// spreads compares the metrics that every cycle has.
func spreads(group []*Aggregate) ([]Spread, error) {
	list := []Spread{}
	for _, m := range []struct {
		name string
		of   func(*Aggregate) *float64
	}{
		{"ttft_s", func(a *Aggregate) *float64 { return median(a.Latency.TTFT) }},
		{"tpot_s", func(a *Aggregate) *float64 { return median(a.Latency.TPOT) }},
		{"ttlt_s", func(a *Aggregate) *float64 { return median(a.Latency.TTLT) }},
		{"tokens_per_second", func(a *Aggregate) *float64 { return a.Totals.TokensPerS }},
		{"total_energy_j", func(a *Aggregate) *float64 { return a.Totals.EnergyJ }},
		{"joules_per_token", func(a *Aggregate) *float64 { return a.Efficiency.JoulesPerToken }},
		{"energy_per_output_token_j", func(a *Aggregate) *float64 { return a.AIPerf.PerOutputToken }},
		{"energy_per_request_j", func(a *Aggregate) *float64 { return a.AIPerf.PerRequest }},
		{"average_gpu_power_w", func(a *Aggregate) *float64 { return a.AIPerf.AverageGPUPower }},
	} {
		values := stats.Values(group, func(a **Aggregate) *float64 { return m.of(*a) })
		if len(values) < len(group) {
			continue
		}
		s, err := spread(m.name, values)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", m.name, err)
		}
		list = append(list, s)
	}
	return list, nil
}

func median(s *stats.Summary) *float64 {
	if s == nil {
		return nil
	}
	return &s.Median
}

func spread(name string, values []float64) (Spread, error) {
	s, err := stats.Summarize(values)
	if err != nil {
		return Spread{}, err
	}
	out := Spread{
		Name: name, N: s.N, Mean: s.Mean, Min: s.Min, Max: s.Max, Std: s.StdDev, CV: s.CV, CILow: s.MeanLow, CIHigh: s.MeanHigh,
	}
	if s.StdDev != nil {
		se := stats.StdErr(*s.StdDev, s.N)
		out.SE, out.TCritical = &se, new(stats.TCritical(s.N))
	}
	if s.CV != nil {
		out.Class = new(class(*s.CV))
	}
	return out, nil
}

// class is AIPerf's word for a coefficient of variation.
func class(cv float64) string {
	switch {
	case cv < 0.05:
		return "excellent"
	case cv < 0.10:
		return "good"
	case cv <= 0.20:
		return "fair"
	}
	return "bad"
}
