//go:build !js

package view

import (
	"fmt"
	"strings"

	"llmprof/plots"
	"llmprof/serving"
)

// Chart draws the simulation: latency over rate, timeline or cdf.
func (s *Simulation) Chart(kind string) (*plots.Figure, error) {
	switch kind {
	case "timeline":
		return plots.Timeline(s.caption(), s.timelines())
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
	if knee, ok := s.Knee(); ok {
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

func (s *Simulation) timelines() []plots.ServedTime {
	var all []plots.ServedTime
	for _, b := range s.Points[0].Result.Timeline {
		all = append(all, plots.ServedTime{At: float64(b.Begin+b.End) / 2, Waiting: b.Waiting, Running: b.Running, Cache: b.Cache,
			Tokens: b.Tokens})
	}
	return all
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
