package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"llmprof/analytic/engine"
	"llmprof/input"
	"llmprof/measure/result"
	"llmprof/plots"
	"llmprof/validate"
)

// timedOperators reads the operators of a trace or a result, and asks for the estimate of the step that
// they are of.
func (a *app) timedOperators(ctx context.Context, d *drawing) ([]plots.MeasuredOperator, error) {
	phases, err := a.timedPhases(ctx, d)
	if err != nil {
		return nil, err
	}
	var all []plots.MeasuredOperator
	for i := range phases {
		p := &phases[i]
		if p.Why != nil {
			return nil, fmt.Errorf("--measured %s: %w", d.measured, p.Why)
		}
		for k := range p.Rows {
			if r := &p.Rows[k]; r.Predicted != nil {
				all = append(all, plots.MeasuredOperator{Name: r.Name, Decode: p.Decode, FLOPs: r.Predicted.FLOPs, Bytes: r.Predicted.Bytes, Observed: r.Observed})
			}
		}
	}
	return all, d.askAs(phases)
}

func (a *app) timedPhases(ctx context.Context, d *drawing) ([]validate.OperatorPhase, error) {
	v := &comparison{gpu: d.GPU, constant: d.Calibration, given: d.Given, live: liveFlags{hardware: d.Hardware, offline: d.Offline}}
	if d.Model != "" {
		v.models = []string{d.Model}
	}
	if d.Engine != "" {
		v.engines = []string{d.Engine}
	}
	if strings.HasSuffix(d.measured, ".gz") || !isResult(d.measured) {
		v.trace = traceFlags{file: d.measured, tp: max(d.Parallel.TP, 1), weights: d.Weights}
		v.live.batches, v.live.prompts = []int{d.Workload.Batch}, []int{d.Workload.PromptLen}
		t, err := a.traced(ctx, v)
		if err != nil {
			return nil, err
		}
		var phases []validate.OperatorPhase
		for i := range t.Phases {
			phases = append(phases, t.Phases[i].OperatorPhase)
		}
		return phases, nil
	}
	r, err := result.Read(d.measured)
	if err != nil {
		return nil, err
	}
	if v.Scorer, err = a.scorer(d.Hardware, d.Calibration); err != nil {
		return nil, err
	}
	if err := a.ownModels(ctx, v); err != nil {
		return nil, err
	}
	phases := v.Scorer.Operators(r)
	if len(phases) == 0 {
		return nil, fmt.Errorf("%s has no operators: \"llmprof measure --ops\" times them", d.measured)
	}
	return phases, nil
}

// mostOfResult is larger than any result.
const mostOfResult = 256 << 20

// isResult reports whether a file is a result rather than a trace. What is neither is a mistake
// of the reader that gets it.
func isResult(file string) bool {
	text, err := input.Read(file, mostOfResult)
	const head = 1 << 12
	return err == nil && strings.Contains(string(text[:min(len(text), head)]), result.Schema)
}

// askAs sets the question to what was timed, and refuses flags that contradict it.
func (d *drawing) askAs(phases []validate.OperatorPhase) error {
	c := &phases[0].Config
	e, err := engine.ParseMode(c.Engine, c.Mode)
	if err != nil {
		return err
	}
	d.Model, d.GPU, d.Engine = cmp.Or(d.Model, c.Model), cmp.Or(d.GPU, c.GPU), cmp.Or(d.Engine, e.Profile().Name)
	for i := range phases {
		p := &phases[i]
		w := &d.Workload
		for flag, of := range map[string]struct {
			to *int
			is int
		}{"batch": {&w.Batch, p.Config.Batch}, "prompt-len": {&w.PromptLen, max(p.Config.Prompt, p.Context)}, "tp": {&d.Parallel.TP, p.Config.TP}} {
			if d.Given(flag) && *of.to != of.is && of.is > 0 {
				return usage("--%s %d: %s was measured with %d", flag, *of.to, d.measured, of.is)
			}
			if of.is > 0 {
				*of.to = of.is
			}
		}
	}
	d.Workload.GenLen = 2
	d.Weights = cmp.Or(d.Weights, c.Weights)
	return nil
}
