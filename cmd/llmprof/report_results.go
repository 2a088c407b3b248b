package main

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"

	"llmprof/cmd/llmprof/internal/render"
	"llmprof/cmd/llmprof/internal/report"
	record "llmprof/measure/result"
	"llmprof/unit"
)

// A stored is a result file that becomes a section of the report: of a
// measurement or of another estimate.
type stored struct {
	file     string
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
const mostResult = 256 << 20

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
	info, err := os.Stat(file)
	switch {
	case err != nil:
		return s, fmt.Errorf("--results %s: %w", file, reason(err))
	case !info.Mode().IsRegular() || info.Size() > mostResult:
		return s, fmt.Errorf("--results %s: want a file of at most %d MB", file, mostResult>>20)
	}
	data, err := os.ReadFile(file)
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
		s.measured, err = record.Read(file)
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
	out.Parts = append(out.Parts, report.Part{Block: measuredBeside(r, ans)})
	for _, b := range rawBlocks(r) {
		out.Parts = append(out.Parts, report.Part{Block: b})
	}
	return out
}

// measuredBeside sets what was measured against the estimate, if both are of the
// same workload; else it says in what they differ.
func measuredBeside(r *record.Result, ans *answer) render.Block {
	if why := differences(r, ans); len(why) > 0 {
		return render.Notes{Title: "Not set against this page's estimate", Items: why}
	}
	t := render.Table{Title: "Predicted and observed", Columns: []render.Column{
		{Title: "", Left: true}, {Title: "floor"}, {Title: "expected"}, {Title: "observed (median)"}, {Title: "error", Unit: "%", Fixed: true}, {Title: "", Left: true},
	}}
	for _, row := range []struct {
		name  string
		span  [4]unit.Seconds
		times *record.Times
	}{
		{"TTFT", [4]unit.Seconds{ans.TTFT.Floor, ans.TTFT.Expected, ans.TTFT.Low, ans.TTFT.High}, r.TTFT},
		{"TPOT", [4]unit.Seconds{ans.TPOT.Floor, ans.TPOT.Expected, ans.TPOT.Low, ans.TPOT.High}, r.TPOT},
		{"TTLT", [4]unit.Seconds{ans.TTLT.Floor, ans.TTLT.Expected, ans.TTLT.Low, ans.TTLT.High}, r.TTLT},
	} {
		if row.times == nil || row.span[1] == 0 {
			continue
		}
		seen := unit.Seconds(row.times.Median)
		verdict := render.Painted{Value: "inside the interval", Color: render.Good}
		switch {
		case seen < row.span[0]:
			verdict = render.Painted{Value: "faster than the floor: one of the two is wrong", Color: render.Bad}
		case seen < row.span[2] || seen > row.span[3]:
			verdict = render.Painted{Value: "outside the interval", Color: render.Bad}
		}
		t.Rows = append(t.Rows, render.Row{Cells: []any{row.name, row.span[0], row.span[1], seen, 100 * (float64(row.span[1]/seen) - 1), verdict}})
	}
	return t
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
	check("weights", r.Workload.Weights, ans.Scheme.Weights.String())
	check("TP", r.Parallelism.TP, max(p.TP, 1))
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
