//go:build !js

package view

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"llmprof/internal/stats"
	"llmprof/measure/result"
	"llmprof/plots"
	"llmprof/serving"
	"llmprof/validate/reports"
)

// Report is a simulation of one load as a Benchmark Report of llm-d.
func (s *Simulation) Report(version string) (any, error) {
	if len(s.Points) != 1 {
		return nil, errors.New("a Benchmark Report of llm-d is of one load: give one --rate, --concurrency or --trace")
	}
	d, p := s.Document(), s.Points[0]
	r := &result.Result{ID: "simulated", Started: time.Now(), Model: result.Model{Name: d.Model}, Engine: result.Engine{Name: d.Engine,
		Version: "simulated"}}
	r.Ended = r.Started.Add(time.Duration(float64(p.Result.Duration) * float64(time.Second)))
	c := s.Deployment.Parallel
	r.Parallelism = result.Parallelism{TP: c.TP, PP: c.PP, EP: c.EP, DP: 1, Replicas: d.Replicas + d.Prefill}
	for range d.GPUs {
		r.Machine.GPUs = append(r.Machine.GPUs, result.GPU{Key: d.GPU})
	}
	r.Provenance.Version = version
	n := p.Result.Counted()
	r.Serving = &result.Serving{Requests: n, Completed: n, Duration: float64(p.Result.Duration), RequestRate: p.Result.Rate(),
		PromptTokens:    constant(float64(p.Result.Prompt) / float64(n)),
		GeneratedTokens: constant(float64(p.Result.Generated) / float64(n))}
	r.Throughput = &result.Rates{Generated: new(p.Result.Throughput())}
	if p.Load != nil {
		r.Workload.PromptLen, r.Workload.GenLen = int(math.Round(p.Load.Prompt.MeanLength())), int(math.Round(p.Load.Gen.MeanLength()))
		r.Workload.Prompts = "random"
		r.Serving.Concurrency = p.Load.Arrival.Concurrency
		if hz := p.Load.Arrival.Rate; hz > 0 {
			r.Serving.RateHz = &hz
		}
	}
	r.TTFT, r.TPOT, r.TTLT, r.Serving.ChunkGap = summed(&p.Result.TTFT), summed(&p.Result.TPOT), summed(&p.Result.E2E), summed(&p.Result.ITL)
	return reports.LLMD(r)
}

// constant is a summary of which the mean alone is known.
func constant(x float64) *stats.Summary {
	return &stats.Summary{N: 1, Mean: x, Median: x, Min: x, Max: x, P5: x, P25: x, P75: x, P90: x, P95: x, P99: x}
}

// summed is a distribution in figures; nil of none.
func summed(s *serving.Sketch) *result.Times {
	if s.N == 0 {
		return nil
	}
	t := &result.Times{}
	t.N, t.Mean = s.N, s.Mean()
	for share, to := range map[float64]*float64{0: &t.Min, 0.05: &t.P5, 0.25: &t.P25, 0.5: &t.Median, 0.75: &t.P75, 0.9: &t.P90, 0.95: &t.P95,
		0.99: &t.P99, 1: &t.Max} {
		*to = s.Quantile(share)
	}
	return t
}

// Chart draws the simulation: latency over rate, timeline or cdf.
func (s *Simulation) Chart(kind string) (*plots.Figure, error) {
	switch kind {
	case "timeline":
		var all []plots.ServedTime
		for _, b := range s.Points[0].Result.Timeline {
			all = append(all, plots.ServedTime{At: float64(b.Begin+b.End) / 2, Waiting: b.Waiting, Running: b.Running, Cache: b.Cache,
				Tokens: b.Tokens})
		}
		return plots.Timeline(s.caption(), all)
	case "cdf":
		return plots.Distributions(s.caption(), s.distributions())
	}
	curve := plots.LoadCurve{Name: s.Server.Scheduler.Name}
	for _, p := range s.Points {
		curve.Loads = append(curve.Loads, plots.Loaded{
			Load: p.Name, Throughput: p.Result.Rate(), TTFT: spreadOf(&p.Result.TTFT), TPOT: spreadOf(&p.Result.TPOT),
		})
	}
	f, err := plots.UnderLoad(s.caption(), plots.RequestsPerSecond, []plots.LoadCurve{curve})
	if err != nil {
		return nil, err
	}
	if knee := s.Knee(); knee != "" {
		f.Notes = append(f.Notes, "Knee: "+knee+".")
	}
	return f, nil
}

func spreadOf(k *serving.Sketch) plots.Spread {
	if k.N == 0 {
		return plots.Spread{}
	}
	return plots.Spread{Median: k.Quantile(0.5), P99: k.Quantile(0.99)}
}

func (s *Simulation) caption() string {
	parts := []string{
		s.Deployment.Model.Name, fmt.Sprintf("%d × %s", gpusOf(s.Server), s.Deployment.Machine.GPU.Name),
		s.Deployment.Machine.Engine.Profile().Name + " engine", s.Server.Scheduler.Name + " scheduler",
	}
	if l := s.Points[0].Load; l != nil {
		parts = append(parts, fmt.Sprintf("%s + %s tokens", l.Prompt.String(), l.Gen.String()), arrivals(l.Arrival.Kind))
	} else {
		parts = append(parts, s.Points[0].Name+" trace")
	}
	return strings.Join(append(parts, "simulated"), " · ")
}

// chartPoints is the number of quantiles by which a chart draws a distribution.
const chartPoints = 300

func (s *Simulation) distributions() []plots.Distribution {
	var all []plots.Distribution
	for _, p := range s.Points {
		d := plots.Distribution{Name: p.Name}
		for i, k := range p.Result.Sketches() {
			for n := 1; n <= chartPoints && k.N > 0; n++ {
				share := float64(n) / chartPoints
				d.Times[i] = append(d.Times[i], plots.Quantile{Value: k.Quantile(share), Share: share})
			}
		}
		all = append(all, d)
	}
	return all
}

// arrivals names how requests come at a rate, Poisson by its capital.
func arrivals(kind string) string {
	if kind == "poisson" {
		kind = "Poisson"
	}
	return kind + " arrivals"
}
