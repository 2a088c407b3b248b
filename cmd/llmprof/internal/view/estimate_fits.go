package view

import (
	"fmt"
	"strings"

	"llmprof/analytic"
	"llmprof/analytic/sensitivity"
)

// mostStages is how far a larger split is looked for.
const mostStages = 64

// WhatFits says, for a case that does not fit, which changes would make it fit:
// more GPUs, or a smaller batch on the same ones.
func (e *Estimate) WhatFits() string {
	if e.Memory.Fits() {
		return ""
	}
	var hints []string
	if split, ok := e.largerSplit(); ok {
		hints = append(hints, split)
	}
	if most := e.Memory.MaxBatch; most > 0 && most < e.Workload.Batch {
		hints = append(hints, fmt.Sprintf("--batch %d on the same GPUs", most))
	}
	for name, c := range sensitivity.Narrowed(&e.Case) {
		if fits(&c) {
			hints = append(hints, "--weights "+name)
			break
		}
	}
	if len(hints) == 0 {
		return "no split over nodes of this GPU makes it fit"
	}
	return "it fits with " + strings.Join(hints, ", or with ")
}

// largerSplit doubles TP up to a node, then the stages of a pipeline.
func (e *Estimate) largerSplit() (string, bool) {
	c := e.Case
	node := max(c.Parallel.GPUsPerNode, 1)
	for c.Parallel.TP*2 <= node {
		c.Parallel.TP *= 2
		if fits(&c) {
			return splitFlagsOf(&c.Parallel), true
		}
	}
	for c.Parallel.PP*2 <= mostStages {
		c.Parallel.PP *= 2
		if fits(&c) {
			return splitFlagsOf(&c.Parallel), true
		}
	}
	return "", false
}

func splitFlagsOf(p *analytic.Parallelism) string {
	s := fmt.Sprintf("--tp %d", p.TP)
	if p.PP > 1 {
		s += fmt.Sprintf(" --pp %d", p.PP)
	}
	return s
}

// fits reports whether the case is possible and fits.
func fits(c *analytic.Case) bool {
	e, err := analytic.Predict(c)
	return err == nil && e.Memory.Fits()
}
