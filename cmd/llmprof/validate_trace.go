package main

import (
	"context"
	"fmt"

	"github.com/spf13/pflag"

	"llmprof/cmd/llmprof/internal/settings"
	"llmprof/cmd/llmprof/internal/view"
	"llmprof/validate/traced"
)

// traceFlags say what a trace is of, as far as it does not say so itself.
type traceFlags struct {
	file    string
	context int
	tp      int
	weights string
	kv      string
}

func (t *traceFlags) add(f *pflag.FlagSet) {
	f.StringVar(&t.file, "trace", "", "compare operators of a torch profiler's trace `FILE` of vLLM or SGLang")
	f.IntVar(&t.context, "context", 0, "`tokens` that a sequence has when it decodes (default: the prompt)")
	f.IntVar(&t.tp, "tp", 1, "`GPUs` that share a matrix")
	f.StringVar(&t.weights, "weights", "", "`format` of the weights (default: bf16, or what the trace says)")
	f.StringVar(&t.kv, "kv", "", "`format` of the KV cache (default: 16 bits)")
}

// ofTrace are the flags that have a meaning for a trace, and but for the first for reports of other tools.
var ofTrace = []string{"context", "tp", "weights", "kv"}

// checkTrace refuses flags that have no meaning with a trace, or without one.
func (v *comparison) checkTrace() error {
	t := &v.trace
	if t.file == "" && len(v.Files) > 0 {
		return settings.Refuse(v.given, []string{"context"}, "--%s is about a trace: give --trace FILE")
	}
	if t.file == "" {
		return settings.Refuse(v.given, ofTrace, "--%s is about a trace, or about a report of another tool: give --trace FILE, or a FILE")
	}
	if err := settings.Refuse(v.given, []string{"live", "ablate", "by", "fail-over", "worst", "chart", "pool"},
		"--trace compares operators of one trace: --%s has no meaning beside it"); err != nil {
		return err
	}
	switch {
	case len(v.Files) > 0:
		return usage("--trace %s: result files are compared without it", t.file)
	case len(v.Models) > 1 || len(v.Engines) > 1:
		return usage("--trace: give one --model and one --engine")
	case t.context < 0 || t.context > 1<<30 || t.tp < 1 || t.tp > 1024:
		return usage("--context %d and --tp %d: want numbers above 0", t.context, t.tp)
	}
	for flag, given := range map[string][]int{"batch": v.live.batches, "prompt-len": v.live.prompts} {
		if v.given(flag) && (len(given) != 1 || given[0] < 1 || given[0] > 1<<30) {
			return usage("--trace: --%s %v: want one number above 0", flag, given)
		}
	}
	return nil
}

// traced reads a trace and sets its operators beside those of an estimate.
func (a *app) traced(ctx context.Context, v *comparison) (*view.Traced, error) {
	l, err := traced.ScanFile(v.trace.file)
	if err != nil {
		return nil, err
	}
	if v.Scorer, err = a.scorer(v.live.hardware, v.constant); err != nil {
		return nil, err
	}
	if err := a.ownModels(ctx, v); err != nil {
		return nil, err
	}
	gpus, err := a.library().GPUs(v.live.hardware)
	if err != nil {
		return nil, err
	}
	ask := &traced.Overrides{Selection: &v.Selection, TP: v.trace.tp, Context: v.trace.context, Weights: v.trace.weights, KV: v.trace.kv}
	if v.given("batch") {
		ask.Batch = v.live.batches[0]
	}
	if v.given("prompt-len") {
		ask.Prompt = v.live.prompts[0]
	}
	q, err := ask.Subject(l, v.Scorer, gpus)
	if err != nil {
		return nil, err
	}
	phases, err := traced.Explain(l, q, v.Scorer)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", v.trace.file, err)
	}
	return &view.Traced{File: v.trace.file, Scorer: v.Scorer, Phases: phases}, nil
}

// runTrace writes the operators of a trace, and the chart of them where a picture is wanted.
func (a *app) runTrace(ctx context.Context, v *comparison) error {
	t, err := a.traced(ctx, v)
	if err != nil {
		return err
	}
	return v.output.write(a, forms{page: t.Page, table: t.Table, data: func() any { return t.Document() }, chart: t.Chart})
}
