//go:build !js

package view

import "llmprof/plots"

// Chart is the Pareto plot of the rows of the table.
func (p *Plan) Chart() (*plots.Figure, error) {
	cost := "$ a million tokens"
	if p.Request.Load.Given() {
		cost = "$ an hour"
	}
	several := len(p.models()) > 1
	var all []plots.Deployment
	for _, r := range p.Shown {
		d := plots.Deployment{Group: r.Card.GPU.Key, PerUser: r.PerUser(), PerGPU: r.Throughput / float64(r.GPUs), Cost: float64(r.PerMillion),
			Latency: float64(r.E2E)}
		if several {
			d.Group = r.Card.Model.Name + " on " + d.Group
		}
		if p.Request.Load.Given() {
			d.Cost = float64(r.PerHour)
		}
		all = append(all, d)
	}
	return plots.Pareto(p.title(), cost, all)
}
