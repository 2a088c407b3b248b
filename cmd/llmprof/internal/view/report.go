//go:build !js

package view

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"

	"llmprof/analytic"
	"llmprof/analytic/engine"
	"llmprof/internal/concurrent"
	"llmprof/measure/result"
	"llmprof/models"
	"llmprof/plots"
	"llmprof/plots/render"
	"llmprof/plots/report"
	"llmprof/serving"
	"llmprof/unit"
)

// ReportPage is the page of an estimate. The sections beside it come between those of
// the estimate and the assumptions; with files, its pictures are files beside it.
func (e *Estimate) ReportPage(beside []report.Section, files bool) (*report.Page, error) {
	pictures, err := e.pictures(files)
	if err != nil {
		return nil, err
	}
	operators := []report.Part{{Block: e.prefillTable(), Sortable: true}}
	if e.Tokens > 0 {
		operators = append(operators, report.Part{Block: e.decodeTable(), Sortable: true})
	}
	page := &report.Page{Title: e.title(), Lead: plots.Caption(&e.Case), Cards: e.cards(), Warnings: Texts(e.Warnings)}
	page.Sections = []report.Section{
		{ID: "times", Title: "Times, energy and cost", Parts: []report.Part{{Block: e.times()}, {Block: e.rates()}, pictures["roofline"]}},
		{ID: "operators", Title: "Operators", Parts: append(operators, pictures["breakdown"], pictures["graph"])},
		{ID: "memory", Title: "Memory", Parts: []report.Part{{Block: e.memoryTable()}, {Block: e.limits()}, pictures["memory-batch"],
			pictures["memory-context"]}},
		{ID: "sweeps", Title: "Batch, context and split", Parts: []report.Part{
			pictures["sweep-batch"], pictures["sweep-context"], pictures["sweep-tp"]}},
	}
	if e.Load != nil {
		page.Sections = slices.Insert(page.Sections, 0, report.Section{ID: "load", Title: "Under load",
			Parts: []report.Part{{Block: (&Load{e.Load}).block()}}})
	}
	page.Sections = append(page.Sections, beside...)
	page.Sections = append(page.Sections,
		report.Section{ID: "assumptions", Title: "Assumptions",
			Parts: []report.Part{{Block: e.setup()}, {Block: render.Notes{Title: "How the figures come about", Items: e.method()}}}},
		report.Section{ID: "sources", Title: "Sources", Parts: []report.Part{{Block: e.sources()}}})
	page.Drop()
	return page, nil
}

// cardNames are those of headline figures on cards, where there is room for words.
var cardNames = map[string]string{
	"ttft": "Time to first token (TTFT)", "tpot": "Time per token (TPOT)", "ttlt": "Time to last token (TTLT)",
}

// cards are the headline figures, under the load where one is given, and the memory.
func (e *Estimate) cards() (all []report.Card) {
	if e.Load != nil {
		return append((&Load{e.Load}).cards(), e.memoryCard())
	}
	for _, h := range e.headlines() {
		detail := []string{h.Note}
		if h.Interval != "" {
			detail = []string{"90 %: " + h.Interval, h.Note}
		}
		all = append(all, report.Card{Name: cmp.Or(cardNames[h.Key], h.Name), Value: h.Value, Detail: detail})
	}
	return append(all, e.memoryCard())
}

// cards are the headline figures under the load, over all GPUs.
func (l *Load) cards() []report.Card {
	s := l.Steady
	mean := func(name string, of func(*serving.Steady) unit.Seconds) report.Card {
		c := report.Card{Name: name, Value: of(s).String(), Detail: []string{"mean under load"}}
		if l.High != nil {
			c.Detail = append(c.Detail, fmt.Sprintf("90 %%: up to %v", of(l.High)))
		}
		return c
	}
	cards := []report.Card{mean("Time to first token (TTFT)", func(s *serving.Steady) unit.Seconds { return s.TTFT })}
	if s.TPOT > 0 {
		cards = append(cards, mean("Time per token (TPOT)", func(s *serving.Steady) unit.Seconds { return s.TPOT }))
	}
	cards = append(cards, mean("Time of a request (E2E)", func(s *serving.Steady) unit.Seconds { return s.E2E }),
		report.Card{Name: "Throughput", Value: three(s.Throughput) + " tok/s", Detail: []string{fmt.Sprintf("%s requests/s, at most %s",
			three(s.Rate), three(s.Capacity.Rate))}},
		report.Card{Name: "Energy", Value: s.Energy.String(), Detail: []string{"per request"}})
	if hour := l.hour(); hour > 0 {
		cards = append(cards, report.Card{Name: "Cost", Value: fmt.Sprintf("$%.2f/h", float64(hour)), Detail: []string{
			fmt.Sprintf("$%s per thousand requests", three(1000*float64(s.Cost)))}})
	}
	return cards
}

func (e *Estimate) memoryCard() report.Card {
	m := &e.Memory
	c := report.Card{Name: "Memory of one GPU", Value: m.Total.String(), Bad: !m.Fits(),
		Detail: []string{fmt.Sprintf("of %v that %s may take", m.Usable, e.Machine.Engine.Profile().Name),
			fmt.Sprintf("max batch %d", m.MaxBatch)}}
	if why := m.Refusal(); why != "" {
		c.Detail = append(c.Detail, why)
	}
	return c
}

// sources are where every table's figure was read.
func (e *Estimate) sources() render.Fields {
	c, profile := &e.Machine.Cal, e.Machine.Engine.Profile()
	f := render.Fields{Rows: []render.Field{
		{Name: "Model", Lines: []string{e.Model.Name + ": " + e.Model.Source}},
		{Name: "GPU", Lines: append([]string{e.Machine.GPU.Name + ": " + e.Machine.GPU.Source}, e.Machine.GPU.Traps...)},
		{Name: "Calibration", Lines: []string{c.Name + ": " + c.Source}},
		{Name: "Engine", Lines: []string{profile.Name + ": " + profile.Source}},
		{Name: "Formats", Lines: []string{e.Scheme.Name + ": " + e.SchemeReason}},
	}}
	if e.Price > 0 {
		f.Add("Price", e.priceSource())
	}
	return f
}

// pictures draws all pictures side by side. One that has nothing to show (TP of
// a GPU without a link) is not in the map; with files, each has its PNG.
func (e *Estimate) pictures(files bool) (map[string]report.Part, error) {
	draw := map[string]func() (*plots.Figure, error){
		"roofline":       func() (*plots.Figure, error) { return plots.Roofline(&e.Case, &e.Report, nil) },
		"breakdown":      func() (*plots.Figure, error) { return plots.Breakdown(&e.Case, &e.Report) },
		"graph":          func() (*plots.Figure, error) { return plots.Graph(&e.Case, &e.Report, plots.BothPhases) },
		"memory-batch":   func() (*plots.Figure, error) { return e.drawMemory(plots.ByBatch) },
		"memory-context": func() (*plots.Figure, error) { return e.drawMemory(plots.ByContext) },
		"sweep-batch":    func() (*plots.Figure, error) { return e.drawSweep(plots.ByBatch) },
		"sweep-context":  func() (*plots.Figure, error) { return e.drawSweep(plots.ByContext) },
	}
	if e.Machine.GPU.GPUsPerNode > 1 && e.Machine.GPU.LinkAmong(2) > 0 {
		if curve := e.swept(plots.ByTP); len(curve.Points) > 0 {
			draw["sweep-tp"] = func() (*plots.Figure, error) { return e.drawCurve(plots.ByTP, curve) }
		}
	}
	names := slices.Sorted(maps.Keys(draw))
	pictures, parts := make([]*report.Picture, len(names)), map[string]report.Part{}
	err := concurrent.Do(len(names), len(names), func(i int) (err error) {
		if pictures[i], err = e.picture(names[i], draw[names[i]], files); err != nil {
			return fmt.Errorf("picture %s: %w", names[i], err)
		}
		return nil
	})
	for i, name := range names {
		parts[name] = report.Part{Picture: pictures[i]}
	}
	return parts, err
}

// picture draws one picture of the estimate; the graph as a file is DOT too.
func (e *Estimate) picture(name string, draw func() (*plots.Figure, error), files bool) (*report.Picture, error) {
	picture, err := Picture(name, draw, files)
	if err != nil || !files || name != "graph" {
		return picture, err
	}
	text, err := plots.GraphDOT(&e.Case, &e.Report, plots.BothPhases)
	if err != nil {
		return nil, err
	}
	picture.Files["dot"] = []byte(text)
	return picture, nil
}

// Picture draws a figure in the form that a page needs: PNG for one whose
// pictures are files, else SVG.
func Picture(name string, draw func() (*plots.Figure, error), files bool) (*report.Picture, error) {
	f, err := draw()
	if err != nil {
		return nil, err
	}
	picture := &report.Picture{Name: name, Title: f.Title, Caption: f.Caption, Files: map[string][]byte{}}
	if !files {
		picture.SVG, err = f.Adaptive()
		return picture, err
	}
	var b bytes.Buffer
	if err := f.Write(&b, "png"); err != nil {
		return nil, err
	}
	picture.Files["png"] = b.Bytes()
	return picture, nil
}

func (e *Estimate) drawMemory(v plots.Variable) (*plots.Figure, error) {
	curve, err := plots.MemorySweep(&e.Case, v)
	if err != nil {
		return nil, err
	}
	return plots.Memory(&e.Case, v, curve)
}

// drawSweep sweeps the doublings of a variable, less those that the model cannot
// be split into.
func (e *Estimate) drawSweep(v plots.Variable) (*plots.Figure, error) {
	return e.drawCurve(v, e.swept(v))
}

func (e *Estimate) drawCurve(v plots.Variable, curve plots.Curve) (*plots.Figure, error) {
	return plots.Latency(plots.SweepCaption(v, &e.Case), v, []plots.Curve{curve})
}

func (e *Estimate) swept(v plots.Variable) plots.Curve {
	curve, _ := Swept(v, &e.Case, e.Request.GPU, SweepValues(v, &e.Case))
	return curve
}

// Swept is the curve over the values of a variable that can be, and why the others cannot.
func Swept(v plots.Variable, c *analytic.Case, name string, values []int) (curve plots.Curve, refused []error) {
	curve.Name = name
	for _, x := range values {
		one, err := plots.Sweep(c, v, []int{x}, name)
		if err != nil {
			refused = append(refused, err)
		}
		curve.Points = append(curve.Points, one.Points...)
	}
	return curve, refused
}

// mostContext is the longest context that a sweep goes to by default.
const mostContext = 1 << 17

// SweepValues are the values of a variable that a sweep tries by default:
// doublings up to what the model, or a node, allows.
func SweepValues(v plots.Variable, c *analytic.Case) []int {
	switch v {
	case plots.ByContext:
		most := c.Model.MaxContext
		if most <= 0 || most > mostContext {
			most = mostContext
		}
		return plots.Doublings(min(max(128, c.Workload.CachedPrefix+1), most), most)
	case plots.ByTP:
		return plots.Doublings(1, max(c.Machine.GPU.GPUsPerNode, 1))
	}
	least := max(c.Parallel.MicroBatches, 1)
	return plots.Doublings(least, 512*least)
}

// BesideEstimate is a section that sets another estimate next to this one.
func (e *Estimate) BesideEstimate(id string, o *EstimateDocument) report.Section {
	return report.Section{ID: id, Title: "Beside: " + o.Model.Name + " on " + o.GPU.Name, Parts: []report.Part{{Block: e.beside(o)}}}
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
	check("engine", resultEngine(r), engine.WithMode(e.Machine.Engine.Profile().Name))
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
	mode := r.Engine.Options["graph"]
	e, err := engine.ParseMode(r.Engine.Name, map[string]string{"true": "graph"}[mode])
	if err != nil || mode == "" {
		return r.Engine.Name
	}
	return engine.WithMode(e.Profile().Name)
}

// beside sets another estimate's times next to this one's.
func (e *Estimate) beside(o *EstimateDocument) render.Table {
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
