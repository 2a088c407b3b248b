package view

import (
	"fmt"
	"strconv"
	"strings"

	"llmprof/analytic"
	"llmprof/analytic/breakdown"
	"llmprof/analytic/sensitivity"
	"llmprof/cmd/llmprof/internal/render"
	"llmprof/roofline"
	"llmprof/unit"
)

// An Estimate is an estimate with what its page says about where it comes from.
type Estimate struct {
	analytic.Case
	breakdown.Report
	ModelName    string // model as the user gave it
	GPUName      string // GPU as the user gave it
	SchemeReason string // why these formats were taken
	EngineReason string // why this engine was taken, empty where it was asked for
	Links        string // how its GPUs are taken to be linked, empty where no flag would say otherwise
	PriceSource  string // empty where no price is known
	Load         *Load  // nil unless the steady state under one was asked for
	Top          int    // only so many operators of each phase are shown, the longest; 0 for all
	Binary       bool   // the short answer has memory in GiB
}

// Table is every operator of both phases, one a row, in SI units.
func (e *Estimate) Table() *render.Table {
	type row struct {
		Phase string `json:"phase"`
		opJSON
	}
	var rows []row
	for _, o := range e.phaseOf(&e.Prefill, e.PrefillOps).Ops {
		rows = append(rows, row{"prefill", o})
	}
	for _, o := range e.phaseOf(&e.Decode, e.DecodeOps).Ops {
		rows = append(rows, row{"decode", o})
	}
	return flat(rows, "phase", "layer", "layers", "name", "flops", "vector_flops", "weight_bytes", "kv_bytes", "state_bytes", "act_bytes",
		"wire_bytes",
		"intensity_flop_per_byte=intensity", "bound", "floor_s", "expected_s", "share", "energy_j", "in")
}

// Inputs says what the estimate was computed from, one input a line.
func (e *Estimate) Inputs() []string {
	var lines []string
	add := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	m, g, c := e.Model, e.Machine.GPU, &e.Machine.Cal
	add("model %s from %s: %d parameters, %d active", m.Name, m.Source, m.Params(), m.ActiveParams())
	add("GPU %s (%s), compute capability %s, generation %s: %s", g.Name, g.Key, g.ComputeCapability, g.Generation, g.Source)
	for _, f := range unit.Formats() {
		if run, rate := e.Machine.Runs(f); run == f {
			add("peak in %v: %v", f, f.Rate(rate))
		} else {
			add("peak in %v: none, computed in %v", f, run)
		}
	}
	for _, t := range g.Traps {
		add("%s: %s", g.Key, t)
	}
	add("calibration %s: %s", c.Name, c.Source)
	for _, k := range roofline.All() {
		if v := c.Constants[k]; v > 0 {
			add("%s %s: %s", k, constantText(k, v), k.Info().Help)
		}
	}
	profile := e.Machine.Engine.Profile()
	add("engine %s: %s; %v of memory", profile.Name, profile.Source, profile.Reserve)
	return lines
}

func constantText(k roofline.Constant, v float64) string {
	if k.Info().Quantity.Timed() {
		return unit.Seconds(v).String()
	}
	return strconv.FormatFloat(v, 'g', 4, 64)
}

// A Verdict says whether the workload can run at all.
type Verdict struct {
	Possible bool        `json:"possible"`
	Short    *unit.Bytes `json:"memory_short_bytes"`  // shortfall of one GPU; null where the memory suffices
	Over     *int        `json:"context_over_tokens"` // null where the model's context suffices
	Text     string      `json:"text"`
}

// Verdict says whether the workload can run at all, and what is missing.
func (e *Estimate) Verdict() Verdict {
	m := &e.Memory
	v := Verdict{Possible: true, Text: "fits"}
	if !m.Fits() {
		short := m.Total - m.Usable
		v.Possible, v.Short = false, &short
		v.Text = fmt.Sprintf("does not fit: %v short on each GPU, which needs %v and may take %v", short, m.Total, m.Usable)
	}
	if over := e.over(); over > 0 {
		text := e.overText(over)
		if v.Possible {
			v.Text = text
		} else {
			v.Text += "; " + text
		}
		v.Possible, v.Over = false, &over
	}
	return v
}

// several is a number with what is counted, in the plural but for one.
func several[N int | float64](n N, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%v %ss", n, one)
}

// over is by how many tokens prompt and answer are longer than the model takes; 0 if they are not.
func (e *Estimate) over() int {
	if e.Model.MaxContext == 0 {
		return 0
	}
	return max(e.Workload.PromptLen+e.Workload.GenLen-e.Model.MaxContext, 0)
}

// overText says by how much the context is too long.
func (e *Estimate) overText(over int) string {
	return fmt.Sprintf("context too long by %s: prompt and answer are %d, %s takes %d",
		several(over, "token"), e.Workload.PromptLen+e.Workload.GenLen, e.Model.Name, e.Model.MaxContext)
}

// mostStages is how far a larger split is looked for.
const mostStages = 64

// WhatFits says, for a case that does not fit, which changes would make it fit: more GPUs,
// a smaller batch or narrower weights on the same ones, or narrower weights on fewer more. None of them lets the model
// take a context that is too long.
func (e *Estimate) WhatFits() string {
	if e.Memory.Fits() || e.over() > 0 {
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

func fits(c *analytic.Case) bool {
	e, err := analytic.Predict(c)
	return err == nil && e.Memory.Fits()
}
