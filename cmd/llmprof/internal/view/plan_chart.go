package view

import "llmprof/plots"

// Chart is the Pareto plot.
func (p *Plan) Chart() (*plots.Figure, error) { return nil, nil }
