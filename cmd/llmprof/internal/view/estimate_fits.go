package view

import (
	"fmt"
	"strings"

	"llmprof/analytic"
	"llmprof/analytic/sensitivity"
)

// mostStages is how far a larger split is looked for.
const mostStages = 64

// WhatFits says, for a case that does not fit, which changes would make it fit: more GPUs,
// a smaller batch or narrower weights on the same ones, or narrower weights on fewer more.
func (e *Estimate) WhatFits() string {
	if e.Memory.Fits() {
		return ""
	}
	var hints []string
	split, wide := largerSplit(e.Case)
	if wide {
		hints = append(hints, splitFlagsOf(&split))
	}
	if most := e.Memory.MaxBatch; most > 0 && most < e.Workload.Batch {
		hints = append(hints, fmt.Sprintf("--batch %d on the same GPUs", most))
	}
	if narrow, flags, ok := e.narrowerWeights(); ok && (!wide || narrow.GPUs() < split.GPUs()) {
		hints = append(hints, flags)
	}
	if len(hints) == 0 {
		return "no split over nodes of this GPU makes it fit"
	}
	return "it fits with " + strings.Join(hints, ", or with ")
}

// narrowerWeights finds the widest weights narrower than e's that fit on its GPUs; failing
// these, those that fit on the fewest more.
func (e *Estimate) narrowerWeights() (split analytic.Parallelism, flags string, ok bool) {
	for name, c := range sensitivity.Narrowed(&e.Case) {
		if fits(&c) {
			return c.Parallel, "--weights " + name, true
		}
		if p, wide := largerSplit(c); wide && (!ok || p.GPUs() < split.GPUs()) {
			split, flags, ok = p, "--weights "+name+" "+splitFlagsOf(&p), true
		}
	}
	return split, flags, ok
}

// largerSplit doubles TP up to a node, then the stages of a pipeline, until c fits.
func largerSplit(c analytic.Case) (split analytic.Parallelism, ok bool) {
	node := max(c.Parallel.GPUsPerNode, 1)
	for c.Parallel.TP*2 <= node {
		c.Parallel.TP *= 2
		if fits(&c) {
			return c.Parallel, true
		}
	}
	for c.Parallel.PP*2 <= mostStages {
		c.Parallel.PP *= 2
		if fits(&c) {
			return c.Parallel, true
		}
	}
	return c.Parallel, false
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
