//go:build !js

package view

import (
	"errors"
	"math"
	"time"

	"llmprof/internal/stats"
	"llmprof/measure/result"
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
