//go:build !js

package view

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"llmprof/analytic"
	"llmprof/analytic/operator"
	"llmprof/measure/result"
	"llmprof/plots/render"
	"llmprof/serving"
	"llmprof/unit"
	"llmprof/validate"
)

// CompareSchema names the form of a comparison's JSON, which "llmprof schema compare" shows.
const CompareSchema = "llmprof.compare/v1"

// A Side is one deployment of a comparison, predicted or measured.
type Side struct {
	Name string `json:"name" jsonschema:"minLength=1"`                  // the name as it was given
	Kind string `json:"kind" jsonschema:"enum=predicted,enum=measured"` // "predicted" or "measured"
	// The side was measured, or its constants were on a GPU of the kind.
	Measured bool   `json:"measured"`
	Evidence string `json:"basis"` // source of the figures
	operator.Workload
	Figures  []SideFigure   `json:"figures"`
	Ops      []SideOperator `json:"ops"`
	Warnings []string       `json:"warnings"`

	load string // what it answers; "" without a load
}

// A SideFigure is a headline figure with its interval; nil where it has none.
type SideFigure struct {
	Metric string   `json:"metric" jsonschema:"pattern=^[a-z0-9_]+$"` // key of a metric, as in an estimate's list
	Value  *float64 `json:"value" jsonschema:"exclusiveMinimum=0"`
	Low    *float64 `json:"low"` // of the 90 % interval of a prediction, or of the 95 % interval of a median
	High   *float64 `json:"high"`
}

// A SideOperator is what an operator takes in a phase.
type SideOperator struct {
	Phase string  `json:"phase" jsonschema:"enum=prefill,enum=decode"` // "prefill" or "decode"
	Name  string  `json:"name"`
	Time  float64 `json:"expected_s" jsonschema:"minimum=0"`
}

// A summaryMetric is a metric that sides have, under a load or of a batch that has the GPUs for itself.
type summaryMetric struct {
	unit.Metric
	load bool
}

// summaryMetrics are the metrics of sides, those under a load first.
func summaryMetrics() (all []summaryMetric) {
	for _, m := range new(serving.Steady).Metrics(nil) {
		all = append(all, summaryMetric{m, true})
	}
	for _, m := range new(analytic.Estimate).Metrics(nil, "") {
		if m.Title != "" {
			all = append(all, summaryMetric{m, false})
		}
	}
	return all
}

func (s *Side) figure(metric string) *SideFigure {
	for i := range s.Figures {
		if s.Figures[i].Metric == metric {
			return &s.Figures[i]
		}
	}
	return &SideFigure{Metric: metric}
}

// PredictedSide is the side of an estimate.
func PredictedSide(name string, e *Estimate) Side {
	s := side(name, e.Figures())
	s.Measured = e.Machine.Cal.Measured
	return s
}

// DocumentSide is the side of an estimate that was written as JSON.
func DocumentSide(name string, d *EstimateDocument) (s Side, err error) {
	if d.Metrics == nil || d.Prefill == nil {
		return s, fmt.Errorf("%s: an estimate without metrics: it is of an older version, write it again", name)
	}
	s = side(name, d)
	s.Measured = !strings.HasPrefix(d.Calibration.Name, "default for ")
	return s, nil
}

// side has the figures of an estimate, without throughput and cost where it cannot run.
func side(name string, d *EstimateDocument) Side {
	s := Side{Name: name, Kind: "predicted", Evidence: d.Calibration.Name + ": " + d.Calibration.Source, Ops: []SideOperator{},
		Warnings: append([]string{}, d.Warnings...)}
	s.Workload = d.Workload.Workload
	figures := d.Metrics
	if d.Load != nil {
		figures = slices.Concat(figures, d.Load.Metrics)
		s.load = fmt.Sprintf("%s, prompts of %s and answers of %s tokens", loadWords(d.Load.Rate, d.Load.Concurrency),
			writtenLengths(d.Load.PromptLens), writtenLengths(d.Load.GenLens))
	}
	for _, m := range figures {
		s.Figures = append(s.Figures, SideFigure{m.Key, m.Value, m.Low, m.High})
	}
	for _, o := range d.Prefill.Ops {
		s.operator("prefill", o.Name, float64(o.Expected))
	}
	if d.Decode != nil {
		for _, o := range d.Decode.Ops {
			s.operator("decode", o.Name, float64(o.Expected))
		}
	}
	return s
}

// writtenLengths are the lengths of a document in the words of an estimate.
func writtenLengths(text string) string {
	if l, err := serving.ParseLengths(text); err == nil {
		return LengthWords(&l)
	}
	return text // a trace, which is not read again
}

func (s *Side) operator(phase, name string, time float64) {
	for i := range s.Ops {
		if o := &s.Ops[i]; o.Phase == phase && o.Name == name {
			o.Time += time
			return
		}
	}
	s.Ops = append(s.Ops, SideOperator{phase, name, time})
}

// MeasuredSide is the side of a result.
func MeasuredSide(name string, r *result.Result) Side {
	s := Side{Name: name, Kind: "measured", Measured: true, Evidence: r.Engine.Name + " " + r.Engine.Version, Ops: []SideOperator{},
		Warnings: append([]string{}, r.Warnings...)}
	s.Workload = r.Workload.Workload
	for _, x := range []named[*result.Times]{{"ttft_s", r.TTFT}, {"tpot_s", r.TPOT}, {"ttlt_s", r.TTLT}} {
		f := SideFigure{Metric: x.name}
		if x.of != nil {
			f.Value, f.Low, f.High = &x.of.Median, x.of.MedianLow, x.of.MedianHigh
		}
		s.Figures = append(s.Figures, f)
	}
	if r.Throughput != nil {
		s.Figures = append(s.Figures, SideFigure{Metric: "tok_s", Value: r.Throughput.Generated})
	}
	if r.Energy != nil {
		s.Figures = append(s.Figures, SideFigure{Metric: "j_token", Value: r.Energy.PerToken},
			SideFigure{Metric: "j_request", Value: r.Energy.PerRequest})
	}
	if r.Operators != nil {
		for phase, p := range map[string]*result.OperatorPhase{"prefill": r.Operators.Prefill, "decode": r.Operators.Decode} {
			if p == nil {
				continue
			}
			for i := range p.Ops {
				s.operator(phase, p.Ops[i].Name, p.Ops[i].Time.Median)
			}
		}
	}
	return s
}

// A Comparison is two or more sides, of which the first is what the others are compared
// with.
type Comparison struct {
	Sides []Side
	Top   int // operators that are shown of each phase
}

// A Difference is a figure of one side over that of the first.
type Difference struct {
	Metric  string   `json:"metric"`
	Side    int      `json:"side" jsonschema:"minimum=1"` // index among the sides
	Ratio   *float64 `json:"ratio"`                       // null where either has none
	Overlap *bool    `json:"overlap"`                     // The intervals overlap; null where either has none.
}

// Differences compares every figure of the further sides with the first.
func (c *Comparison) Differences() (all []Difference) {
	for _, m := range summaryMetrics() {
		for i := 1; i < len(c.Sides); i++ {
			all = append(all, c.difference(m.Key, i))
		}
	}
	return all
}

// difference compares a figure of a side with the first side's.
func (c *Comparison) difference(metric string, side int) Difference {
	a, b, d := c.Sides[0].figure(metric), c.Sides[side].figure(metric), Difference{Metric: metric, Side: side}
	if a.Value != nil && b.Value != nil && *a.Value != 0 {
		d.Ratio = new(*b.Value / *a.Value)
	}
	if a.Low != nil && b.Low != nil && a.High != nil && b.High != nil {
		d.Overlap = new(*a.Low <= *b.High && *b.Low <= *a.High)
	}
	return d
}

// An OperatorDifference is by how much longer an operator takes on one side than on the first.
type OperatorDifference struct {
	Phase string    `json:"phase" jsonschema:"enum=prefill,enum=decode"`
	Name  string    `json:"name"`
	Times []float64 `json:"expected_s" jsonschema:"minimum=0"` // time on each side; 0 where the side has no such operator
	More  float64   `json:"more_s"`                            // the largest difference from the first side
	// share of the phase's difference between the two sides; 0 where they take the same time
	Share float64 `json:"share"`
}

// rounding is more than sums in another order differ by, as a share of them.
const rounding = 1e-9

// Operators are the operators that make the difference, the greatest first.
func (c *Comparison) Operators() (all []OperatorDifference) {
	for _, phase := range []string{"prefill", "decode"} {
		if slices.ContainsFunc(c.Sides, func(s Side) bool { return s.time(phase, "") == 0 }) {
			continue // a side of which nothing is known by operator
		}
		var ops []SideOperator
		for i := range c.Sides {
			ops = append(ops, c.Sides[i].Ops...)
		}
		ops = slices.DeleteFunc(ops, func(o SideOperator) bool { return o.Phase != phase })
		var some []OperatorDifference
		for _, name := range distinct(ops, func(o *SideOperator) string { return o.Name }) {
			d := OperatorDifference{Phase: phase, Name: name}
			for i := range c.Sides {
				d.Times = append(d.Times, c.Sides[i].time(phase, name))
			}
			far := slices.MaxFunc(d.Times, func(a, b float64) int { return cmp.Compare(math.Abs(a-d.Times[0]), math.Abs(b-d.Times[0])) })
			d.More = far - d.Times[0]
			first := c.Sides[0].time(phase, "")
			if whole := c.Sides[slices.Index(d.Times, far)].time(phase, "") - first; math.Abs(whole) > rounding*first {
				d.Share = d.More / whole
			}
			some = append(some, d)
		}
		slices.SortStableFunc(some, func(a, b OperatorDifference) int { return cmp.Compare(math.Abs(b.More), math.Abs(a.More)) })
		all = append(all, some...)
	}
	return all
}

// Reasons say what the further sides take of the first, and which operators make most of the difference.
func (c *Comparison) Reasons() render.Fields {
	f := render.Fields{Title: "Other formats of weights on the GPU of the first row"}
	for i := 1; i < len(c.Sides); i++ {
		two := Comparison{Sides: []Side{c.Sides[0], c.Sides[i]}}
		var lines []string
		for _, of := range []named[string]{{"TTFT", "prefill"}, {"TPOT", "decode"}} {
			operators := two.Operators()
			k := slices.IndexFunc(operators, func(o OperatorDifference) bool { return o.Phase == of.of })
			if k < 0 {
				continue
			}
			o := &operators[k]
			lines = append(lines, fmt.Sprintf("%s × %.2f: %s takes %v for %v", of.name, two.Sides[1].time(of.of, "")/two.Sides[0].time(of.of, ""),
				o.Name, unit.Seconds(o.Times[1]), unit.Seconds(o.Times[0])))
		}
		f.Add(c.Sides[i].Name, lines...)
	}
	return f
}

// time is what an operator takes in a phase, or the whole phase where name is empty.
func (s *Side) time(phase, name string) (sum float64) {
	for _, o := range s.Ops {
		if o.Phase == phase && (name == "" || o.Name == name) {
			sum += o.Time
		}
	}
	return sum
}

// Warnings say what makes the sides hard to compare.
func (c *Comparison) Warnings() (all []string) {
	first := &c.Sides[0]
	for i := 1; i < len(c.Sides); i++ {
		s := &c.Sides[i]
		if s.PromptLen != first.PromptLen || s.GenLen != first.GenLen {
			all = append(all, fmt.Sprintf("%q is of %d + %d tokens, %q of %d + %d: these are different workloads", first.Name, first.PromptLen,
				first.GenLen, s.Name, s.PromptLen, s.GenLen))
		}
		if s.Kind == "predicted" && first.Kind == "predicted" && s.Measured != first.Measured {
			known, unknown := s, first
			if first.Measured {
				known, unknown = first, s
			}
			all = append(all, fmt.Sprintf("the constants of %q were measured, those of %q were not (%s): the difference between them is as "+
				"uncertain as the latter", known.Name, unknown.Name, unknown.Evidence))
		}
	}
	for i := range c.Sides {
		for _, w := range c.Sides[i].Warnings {
			all = append(all, c.Sides[i].Name+": "+w)
		}
	}
	return all
}

// CompareDocument is a comparison for programs.
type CompareDocument struct {
	Schema      string               `json:"schema"`
	Sides       []Side               `json:"sides" jsonschema:"minItems=2"`
	Differences []Difference         `json:"differences"` // settings that differ from the first side
	Operators   []OperatorDifference `json:"operators"`   // those that make the difference, the greatest of each phase first
	Warnings    []string             `json:"warnings"`
}

// Document is the comparison for programs.
func (c *Comparison) Document() *CompareDocument {
	return &CompareDocument{CompareSchema, c.Sides, c.Differences(), append([]OperatorDifference{}, c.Operators()...),
		append([]string{}, c.Warnings()...)}
}

// Page is the comparison for people.
func (c *Comparison) Page() *render.Document {
	var names []string
	for i := range c.Sides {
		names = append(names, c.named(i))
	}
	basis := render.Fields{Title: "Rests on"}
	for i := range c.Sides {
		basis.Add(c.heading(i), c.Sides[i].Evidence)
	}
	return &render.Document{Title: strings.Join(names, " · "), Blocks: append(c.figures(), c.operatorTable(), basis,
		render.Notes{Title: "Warnings", Items: c.Warnings()})}
}

// figures are the tables of headline figures: those under a load, where a side has one, and those of a batch.
func (c *Comparison) figures() (all []render.Block) {
	if loads := c.loads(); len(loads) > 0 {
		t := c.figureTable(true)
		if t.Title = "Under load"; len(loads) == 1 {
			t.Title += ": " + loads[0]
		}
		all = append(all, t)
	}
	t := c.figureTable(false)
	if len(all) > 0 {
		t.Title = "Without other requests"
	}
	return append(all, t)
}

// Loaded reports whether a side has figures under a load.
func (c *Comparison) Loaded() bool { return len(c.loads()) > 0 }

// loads are the different loads that sides answer.
func (c *Comparison) loads() []string {
	return distinct(c.Sides, func(s *Side) string { return s.load })
}

// figureTable has each side's figures, with their ratio to the first side's, and a mark where the intervals overlap.
func (c *Comparison) figureTable(load bool) render.Table {
	t := render.Table{Columns: []render.Column{{Title: "", Key: "metric", Left: true}, {Title: c.heading(0), Key: "side_0", Left: true}}}
	for i := 1; i < len(c.Sides); i++ {
		t.Columns = append(t.Columns, render.Column{Title: c.heading(i), Key: fmt.Sprintf("side_%d", i), Left: true},
			render.Column{Title: "ratio", Key: fmt.Sprintf("ratio_%d", i), Left: true})
	}
	for _, m := range summaryMetrics() {
		cells, some := []any{m.Title}, false
		for i := range c.Sides {
			f := c.Sides[i].figure(m.Key)
			some = some || f.Value != nil
			cells = append(cells, shown(f, m.Unit))
			if i > 0 {
				cells = append(cells, ratio(c.difference(m.Key, i)))
			}
		}
		if some && m.load == load {
			t.Add(cells...)
		}
	}
	return t
}

func shown(f *SideFigure, of string) any {
	switch {
	case f.Value == nil:
		return nil
	case f.Low == nil && f.High != nil && of == "s": // a mean under a load, and the slow end of its interval
		return fmt.Sprintf("%v to %v", unit.Seconds(*f.Value), unit.Seconds(*f.High))
	case f.Low == nil || f.High == nil:
		return fmt.Sprint(quantity(&unit.Metric{Unit: of, Value: *f.Value}))
	case of == "s": // the rounding of "llmprof estimate"
		return around(unit.Around(unit.Seconds(*f.Value), unit.Seconds(*f.Low), unit.Seconds(*f.High)))
	}
	value, interval := rounded(*f.Value, *f.Low, *f.High)
	return fmt.Sprintf("%s (%s)", value, interval)
}

func ratio(d Difference) any {
	if d.Ratio == nil {
		return nil
	}
	s := fmt.Sprintf("×%.3g", *d.Ratio)
	switch {
	case d.Overlap == nil:
		return s
	case *d.Overlap:
		return s + " overlap"
	}
	return s + " apart"
}

// longHeading is more letters than a column has room for.
const longHeading = 28

// heading is what a side is called above a column: its name, or a letter where that is longer than its figures.
func (c *Comparison) heading(i int) string {
	if name := c.Sides[i].Name; len(name) <= longHeading || i >= 26 {
		return name
	}
	return string(rune('A' + i))
}

// named is a side with the letter that columns have for it.
func (c *Comparison) named(i int) string {
	if name, heading := c.Sides[i].Name, c.heading(i); heading != name {
		return heading + ": " + name
	}
	return c.Sides[i].Name
}

func (c *Comparison) operatorTable() render.Table {
	t := render.Table{Title: "What makes the difference", Columns: []render.Column{
		{Title: "phase", Key: "phase", Left: true}, {Title: "operator", Key: "operator", Left: true}}}
	for i := range c.Sides {
		t.Columns = append(t.Columns, render.Column{Title: c.heading(i), Key: fmt.Sprintf("side_%d_s", i)})
	}
	t.Columns = append(t.Columns, render.Column{Title: "difference", Key: "more_s", Left: true}, render.Column{Title: "% of it", Key: "share"})
	of := map[string]int{}
	for _, d := range c.Operators() {
		if of[d.Phase]++; c.Top > 0 && of[d.Phase] > c.Top {
			continue
		}
		cells := []any{d.Phase, d.Name}
		for _, x := range d.Times {
			cells = append(cells, Some(unit.Seconds(x)))
		}
		sign := "+"
		if d.More < 0 {
			sign = "-"
		}
		t.Rows = append(t.Rows, render.Row{Cells: append(cells, sign+unit.Seconds(max(d.More, -d.More)).String(), render.Percent(d.Share))})
	}
	return t
}

// Table is the figures for programs, one a row.
func (c *Comparison) Table() *render.Table {
	t := render.Keyed("metric", "side", "value", "low", "high", "ratio", "overlap")
	for i := range c.Sides {
		for _, m := range summaryMetrics() {
			f, d := c.Sides[i].figure(m.Key), Difference{}
			if i > 0 {
				d = c.difference(m.Key, i)
			}
			t.Add(m.Key, c.Sides[i].Name, Cell(f.Value), Cell(f.Low), Cell(f.High), Cell(d.Ratio), Cell(d.Overlap))
		}
	}
	return t
}

// RegressionSchema names the form of a comparison of repeated results.
const RegressionSchema = "llmprof.compare-repeated/v1"

// A Regression is results of processes before and after.
type Regression struct {
	Over    float64 // rise that is allowed, as a share
	Changes []validate.Change
	Alone   []string // figures with too few processes
	Sides   [2]Side  // operators before and after, where results have them
	Top     int
}

// A RegressionDocument is a comparison of repeated results for programs.
type RegressionDocument struct {
	Schema    string               `json:"schema"`
	Over      float64              `json:"fail_over"`    // rise that is allowed, as a share
	Alarms    float64              `json:"false_alarms"` // share of comparisons of one release that raise an alarm, at most
	Changes   []ChangeJSON         `json:"changes"`      // figures with two processes or more before and after, the greatest rise first
	Alone     []string             `json:"alone"`        // figures with less
	Operators []OperatorDifference `json:"operators"`    // operators of results that have them, the greatest difference first
}

// A ChangeJSON is a figure of a workload before and after.
type ChangeJSON struct {
	Metric string    `json:"metric"`
	Phase  string    `json:"phase"` // "prefill", "decode" or "both"
	Model  string    `json:"model"`
	Batch  int       `json:"batch"`
	Prompt int       `json:"prompt_len"`
	Gen    int       `json:"gen_len"`
	Base   []float64 `json:"base"`  // value of each process before
	New    []float64 `json:"new"`   // value of each process after
	Ratio  float64   `json:"ratio"` // geometric mean after over that before
	Low    float64   `json:"low"`   // ends of the interval of the ratio
	High   float64   `json:"high"`
	Slower bool      `json:"slower"` // an alarm
}

// Document is the comparison for programs.
func (r *Regression) Document() *RegressionDocument {
	d := &RegressionDocument{Schema: RegressionSchema, Over: r.Over, Alarms: validate.FalseAlarms, Changes: []ChangeJSON{},
		Alone: append([]string{}, r.Alone...), Operators: append([]OperatorDifference{}, r.operators().Operators()...)}
	for _, c := range r.Changes {
		d.Changes = append(d.Changes, ChangeJSON{string(c.Metric), c.Metric.Phase(), c.Model, c.Batch, c.Prompt, c.Gen, c.Base, c.New,
			c.Ratio, c.Low,
			c.High, c.Slower})
	}
	return d
}

func (r *Regression) operators() *Comparison { return &Comparison{Sides: r.Sides[:], Top: r.Top} }

// Page is the comparison for people.
func (r *Regression) Page() *render.Document {
	t := render.Table{Title: "After over before", Columns: []render.Column{{Title: "figure", Left: true}, {Title: "phase", Left: true},
		{Title: "workload", Left: true}, {Title: "processes"}, {Title: "ratio"}, {Title: "low"}, {Title: "high"}, {Title: "", Left: true}}}
	for _, c := range r.Changes {
		kind, verdict := render.Plain, ""
		if c.Slower {
			kind, verdict = render.Total, "slower"
		}
		t.Rows = append(t.Rows, render.Row{Kind: kind, Cells: []any{string(c.Metric), c.Metric.Phase(), c.String(),
			fmt.Sprintf("%d, %d", len(c.Base), len(c.New)), fmt.Sprintf("%.3f", c.Ratio), fmt.Sprintf("%.3f", c.Low),
			fmt.Sprintf("%.3f", c.High), verdict}})
	}
	notes := []string{fmt.Sprintf("A figure is slower where its ratio is above %.3g and its interval above 1. Intervals are of processes: of "+
		"comparisons of one release with itself, %g %% at most raise an alarm.", 1+r.Over, 100*validate.FalseAlarms)}
	return &render.Document{Title: "Repeated results before and after", Blocks: []render.Block{t, r.operators().operatorTable(),
		render.Notes{Title: "Notes", Items: append(notes, r.Alone...)}}}
}

// Table is the comparison for programs, a figure a row.
func (r *Regression) Table() *render.Table {
	t := render.Keyed("metric", "phase", "model", "batch", "prompt_len", "gen_len", "processes_base", "processes_new", "ratio",
		"low", "high", "slower")
	for _, c := range r.Changes {
		t.Add(string(c.Metric), c.Metric.Phase(), c.Model, c.Batch, c.Prompt, c.Gen, len(c.Base), len(c.New), c.Ratio, c.Low, c.High, c.Slower)
	}
	return t
}
