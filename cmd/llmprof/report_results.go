package main

import (
	"encoding/json"
	"fmt"
	"slices"

	"llmprof/analytic"
	"llmprof/cmd/llmprof/internal/render"
	"llmprof/cmd/llmprof/internal/report"
	"llmprof/input"
	record "llmprof/measure/result"
	"llmprof/unit"
	compare "llmprof/validate"
)

// A stored is a result file that becomes a section of the report: of a
// measurement or of another estimate.
type stored struct {
	file     string
	origin   string // source of its observations, if they come with the program
	measured *record.Result
	estimate *otherEstimate
}

// An otherEstimate is of an estimate's JSON what the page shows.
type otherEstimate struct {
	Model, GPU struct{ Name string }
	TTFT       *spanJSON `json:"ttft_s"`
	TPOT       *spanJSON `json:"tpot_s"`
	TTLT       *spanJSON `json:"ttlt_s"`
}

// mostResult bounds a result file: beyond any that llmprof writes.
const mostResult = 32 << 20

// readResults reads result files of the kinds that the report knows.
func readResults(files []string) ([]stored, error) {
	var all []stored
	for _, file := range files {
		s, err := readStored(file)
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, nil
}

func readStored(file string) (stored, error) {
	s := stored{file: file}
	data, err := input.Read(file, mostResult)
	if err != nil {
		return s, fmt.Errorf("--results %s: %w", file, reason(err))
	}
	var head struct {
		Schema string `json:"schema"`
	}
	if err := json.Unmarshal(data, &head); err != nil {
		return s, fmt.Errorf("--results %s: not a JSON object: %w", file, err)
	}
	switch head.Schema {
	case record.Schema:
		if s.measured, err = record.Decode(file, data); err == nil {
			s.origin, err = compare.Origin(data)
		}
	case estimateSchema:
		err = json.Unmarshal(data, &s.estimate)
	default:
		err = fmt.Errorf("schema %.80q: want %s", head.Schema, orList([]string{record.Schema, estimateSchema}))
	}
	if err != nil {
		return s, fmt.Errorf("--results %s: %w", file, err)
	}
	return s, nil
}

func orList(names []string) string { return names[0] + " or " + names[1] }

// section is the result beside the estimate of the page.
func (s *stored) section(i int, ans *answer) report.Section {
	out := report.Section{ID: fmt.Sprintf("result-%d", i+1)}
	if s.estimate != nil {
		out.Title = "Beside: " + s.estimate.Model.Name + " on " + s.estimate.GPU.Name
		out.Parts = []report.Part{{Block: s.estimate.beside(ans)}}
		return out
	}
	r := s.measured
	out.Title = fmt.Sprintf("Measured: %s, %s", r.Model.Name, r.Engine.Name)
	out.Parts = append(out.Parts, report.Part{Block: render.Notes{Title: "Measured on another case than this page's estimate", Items: differences(r, ans)}})
	for _, b := range rawBlocks(r) {
		out.Parts = append(out.Parts, report.Part{Block: b})
	}
	return out
}

// storedFormat is the format in which a scheme keeps weights.
func storedFormat(scheme string) string {
	if s, err := analytic.ParseScheme(scheme); err == nil {
		return s.Weights.String()
	}
	return scheme
}

// differences are the settings that a measurement and the estimate do not share.
func differences(r *record.Result, ans *answer) (why []string) {
	w, p := &ans.Workload, &ans.Parallel
	check := func(what string, got, want any) {
		if got != want {
			why = append(why, fmt.Sprintf("%s: measured with %v, estimated with %v", what, got, want))
		}
	}
	check("model", r.Model.ParamsTotal, ans.Model.Params())
	check("batch", r.Workload.Batch, w.Batch)
	check("prompt length", r.Workload.PromptLen, w.Prompt)
	check("generated length", r.Workload.GenLen, w.Gen)
	check("weights", storedFormat(r.Workload.Weights), ans.Scheme.Weights.String())
	check("TP", r.Parallelism.TP, max(p.TP, 1))
	check("engine", resultEngine(r), pageEngine(ans.Machine.Engine.Profile().Name))
	keys := []string{}
	for _, g := range r.Machine.GPUs {
		keys = append(keys, g.Key)
	}
	slices.Sort(keys)
	for _, k := range slices.Compact(keys) {
		check("GPU", k, ans.gpu.Key)
	}
	if len(keys) == 0 {
		why = append(why, "GPU: the measurement used none, or names none")
	}
	return why
}

// resultEngine is what ran, with its mode where estimates tell modes apart.
func resultEngine(r *record.Result) string {
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

// beside sets another estimate's headline figures next to this page's.
func (e *otherEstimate) beside(ans *answer) render.Table {
	t := render.Table{Title: "Headline figures of both", Columns: []render.Column{
		{Title: "", Left: true}, {Title: "this page"}, {Title: "the other"}, {Title: "the other over this", Unit: " ", Fixed: true, Places: 2},
	}}
	add := func(name string, ours unit.Seconds, span *spanJSON) {
		if span == nil || ours == 0 {
			return
		}
		theirs := unit.Seconds(span.Expected)
		t.Rows = append(t.Rows, render.Row{Cells: []any{name, ours, theirs, float64(theirs / ours)}})
	}
	add("TTFT", ans.TTFT.Expected, e.TTFT)
	add("TPOT", ans.TPOT.Expected, e.TPOT)
	add("TTLT", ans.TTLT.Expected, e.TTLT)
	return t
}
