//go:build !js

package view

import (
	"fmt"
	"slices"

	"llmprof/analytic"
	"llmprof/cmd/llmprof/internal/render"
	"llmprof/cmd/llmprof/internal/report"
	"llmprof/measure/result"
	"llmprof/models"
	"llmprof/unit"
)

// BesideEstimate is a section that sets another estimate next to this one.
func (e *Estimate) BesideEstimate(id string, o *EstimateDocument) report.Section {
	return report.Section{ID: id, Title: "Beside: " + o.Model.Name + " on " + o.GPU.Name, Parts: []report.Part{{Block: e.headlines(o)}}}
}

// BesideMeasured is a section on a measurement: where its settings are not the
// estimate's, and the page of the measurement.
func (e *Estimate) BesideMeasured(id string, r *result.Result, page []render.Block) report.Section {
	s := report.Section{ID: id, Title: fmt.Sprintf("Measured: %s, %s", r.Model.Name, r.Engine.Name)}
	s.Parts = []report.Part{{Block: render.Notes{Title: "Measured on another case than this page's estimate", Items: e.differences(r)}}}
	for _, b := range page {
		s.Parts = append(s.Parts, report.Part{Block: b})
	}
	return s
}

func storedFormat(scheme string) string {
	if s, err := models.ParseScheme(scheme); err == nil {
		return s.Weights.String()
	}
	return scheme
}

// differences are the settings that a measurement and the estimate do not share.
func (e *Estimate) differences(r *result.Result) (why []string) {
	w, p := &e.Workload, &e.Parallel
	check := func(what string, got, want any) {
		if got != want {
			why = append(why, fmt.Sprintf("%s: measured with %v, estimated with %v", what, got, want))
		}
	}
	check("model", r.Model.ParamsTotal, e.Model.Params())
	check("batch", r.Workload.Batch, w.Batch)
	check("prompt length", r.Workload.PromptLen, w.PromptLen)
	check("generated length", r.Workload.GenLen, w.GenLen)
	check("weights", storedFormat(r.Workload.Weights), e.Scheme.Weights.String())
	check("TP", r.Parallelism.TP, max(p.TP, 1))
	check("engine", resultEngine(r), pageEngine(e.Machine.Engine.Profile().Name))
	keys := []string{}
	for _, g := range r.Machine.GPUs {
		keys = append(keys, g.Key)
	}
	slices.Sort(keys)
	for _, k := range slices.Compact(keys) {
		check("GPU", k, e.Machine.GPU.Key)
	}
	if len(keys) == 0 {
		why = append(why, "GPU: the measurement used none, or names none")
	}
	return why
}

// resultEngine is the engine that ran, with its mode where estimates distinguish modes.
func resultEngine(r *result.Result) string {
	if mode := r.Engine.Options["graph"]; r.Engine.Name == "transformers" && mode != "" {
		return "transformers " + map[bool]string{true: "graph", false: "eager"}[mode == "true"]
	}
	return r.Engine.Name
}

// pageEngine is the same of an estimate's engine.
func pageEngine(name string) string {
	switch name {
	case "transformers":
		return "transformers eager"
	case "transformers-graph":
		return "transformers graph"
	}
	return name
}

// headlines sets another estimate's headline figures next to this one's.
func (e *Estimate) headlines(o *EstimateDocument) render.Table {
	t := render.Table{Title: "Headline figures of both", Columns: []render.Column{
		{Title: "", Left: true}, {Title: "this page"}, {Title: "the other"}, {Title: "the other over this", Unit: " ", Fixed: true, Places: 2},
	}}
	add := func(name string, ours unit.Seconds, span *analytic.Span) {
		if span == nil || ours == 0 {
			return
		}
		theirs := unit.Seconds(span.Expected)
		t.Add(name, ours, theirs, float64(theirs/ours))
	}
	add("TTFT", e.TTFT.Expected, o.TTFT)
	add("TPOT", e.TPOT.Expected, o.TPOT)
	add("TTLT", e.TTLT.Expected, o.TTLT)
	return t
}
