package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"llmprof/analytic"
	"llmprof/cmd/llmprof/internal/settings"
	"llmprof/plan/sweep"
	"llmprof/plots"
	"llmprof/unit"
)

// A gridPicture draws TTFT and TPOT over one list of numbers, with a curve for each value of
// another list.
type gridPicture struct {
	file, kind string
	variable   plots.Variable
	over       string // flag
	by         *sweep.Axis
	names      []string
	curves     []plots.Curve
	rows       []sweep.Row
}

// drawn are the flags that a picture can be drawn over.
var drawn = map[string]plots.Variable{
	"batch": plots.ByBatch, "prompt-len": plots.ByContext, "tp": plots.ByTP, "power-limit": plots.ByPower,
	"clock": plots.ByClock,
}

// mostDrawn is more points than a picture shows.
const mostDrawn = 5000

// newGridPicture finds out what is drawn over what.
func newGridPicture(file string, g *sweep.Grid) (*gridPicture, error) {
	p := &gridPicture{file: file, kind: ending(file)}
	if !slices.Contains(plots.Formats(), p.kind) {
		return nil, usage("--plot %.40q: want a name that ends in .svg, .png or .pdf", file)
	}
	if g.Loaded() {
		return nil, usage("--plot draws requests alone: leave out --rate and --concurrency; \"llmprof simulate --chart\" draws servers under " +
			"loads")
	}
	if points, _, err := g.Points(); err != nil || points > mostDrawn {
		return nil, usage("--plot: a picture has at most %d points", mostDrawn)
	}
	lists := slices.Clone(g.Axes)
	for n, name := range []string{"batch", "prompt-len", "cached-prefix", "chunk", "gen-len"} {
		a := sweep.Axis{Name: name}
		for _, v := range g.Workload[n] {
			a.Values = append(a.Values, sweep.Value{Text: strconv.Itoa(v)})
		}
		lists = append(lists, a)
	}
	lists = slices.DeleteFunc(lists, func(a sweep.Axis) bool { return len(a.Values) < 2 })
	x := axisOver(lists)
	if x < 0 || len(lists) > 2 {
		return nil, usage("--plot: want a list of --batch, --prompt-len, --tp, --power-limit or --clock, and at most one more list; these have "+
			"several values: %s",
			axisNames(lists))
	}
	p.over, p.variable = lists[x].Name, drawn[lists[x].Name]
	if lists = slices.Delete(lists, x, x+1); len(lists) == 1 {
		p.by = &lists[0]
		if len(p.by.Values) > plots.NumSeries {
			return nil, usage("--plot: --%s has %d values, of which at most %d can be distinguished as curves: give fewer, as 1..32x2 has six",
				p.by.Name, len(p.by.Values), plots.NumSeries)
		}
	}
	return p, nil
}

// axisOver is the list that a picture is drawn over: one that leaves no more values of the other than curves can be distinguished,
// where there is any; -1 where nothing can be drawn over the lists.
func axisOver(lists []sweep.Axis) int {
	over := func(i int) bool { _, ok := drawn[lists[i].Name]; return ok }
	first := -1
	for i := range lists {
		switch {
		case !over(i):
		case len(lists) == 2 && len(lists[1-i].Values) <= plots.NumSeries:
			return i
		case first < 0:
			first = i
		}
	}
	return first
}

func axisNames(lists []sweep.Axis) string {
	var names []string
	for _, a := range lists {
		names = append(names, "--"+a.Name)
	}
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

// see takes a row, and keeps it if the point is possible.
func (p *gridPicture) see(rows []sweep.Row) {
	for i := range rows {
		if rows[i].Reason == "" {
			p.rows = append(p.rows, rows[i])
		}
	}
}

func (p *gridPicture) draw() error {
	for i := range p.rows {
		p.add(&p.rows[i])
	}
	for i := range p.curves {
		slices.SortFunc(p.curves[i].Points, func(a, b plots.Point) int { return int(a.X - b.X) })
	}
	f, err := plots.Latency(p.caption(), p.variable, p.curves)
	if err != nil {
		return err
	}
	return writeFigure(f, p.file, p.kind)
}

// caption names the setting of the rows, as far as they share it.
func (p *gridPicture) caption() string {
	if len(p.rows) == 0 {
		return ""
	}
	r := &p.rows[0]
	var parts []string
	for _, flag := range []string{"model", "gpu", "engine", "tp", "weights", "kv", "batch", "prompt-len", "gen-len"} {
		if flag != p.over && (p.by == nil || flag != p.by.Name) {
			parts = append(parts, settingOf(r, flag))
		}
	}
	return strings.Join(parts, " · ")
}

func (p *gridPicture) add(r *sweep.Row) {
	name := p.name(r)
	i := slices.Index(p.names, name)
	if i < 0 {
		i = len(p.names)
		p.names, p.curves = append(p.names, name), append(p.curves, plots.Curve{Name: name})
	}
	x := map[string]float64{"batch": float64(r.Batch), "prompt-len": float64(r.Prompt), "tp": float64(r.TP)}[p.over]
	if text, ok := other(r, p.over); ok {
		x = settings.Limit(p.over, text)
	}
	span := func(floor, expected, low, high float64) analytic.Span {
		return analytic.Span{Floor: unit.Seconds(floor), Expected: unit.Seconds(expected), Low: unit.Seconds(low), High: unit.Seconds(high)}
	}
	point := plots.Point{X: x, TTFT: span(r.TTFTFloor, r.TTFT, r.TTFTLow, r.TTFTHigh), TPOT: span(r.TPOTFloor, r.TPOT, r.TPOTLow, r.TPOTHigh)}
	if point.Memory.Total = unit.Bytes(r.Total); r.Fits {
		point.Memory.Usable = point.Memory.Total
	}
	p.curves[i].Points = append(p.curves[i].Points, point)
}

// other is the value of a flag that has no column of its own.
func other(r *sweep.Row, flag string) (text string, ok bool) {
	for _, word := range strings.Fields(r.Other) {
		if text, ok = strings.CutPrefix(word, flag+"="); ok {
			return text, true
		}
	}
	return "", false
}

// name is what a row's curve differs in from the others.
func (p *gridPicture) name(r *sweep.Row) string {
	if p.by == nil {
		return r.GPU
	}
	return settingOf(r, p.by.Name)
}

// settingOf is what a row has of a flag, as a picture says it.
func settingOf(r *sweep.Row, flag string) string {
	text := map[string]string{
		"model": r.Model, "gpu": r.GPU, "engine": r.Engine, "weights": r.Weights, "act": "act " + r.Act, "kv": "KV " + r.KV,
		"tp": fmt.Sprintf("TP %d", r.TP),
		"pp": fmt.Sprintf("PP %d", r.PP), "ep": fmt.Sprintf("EP %d", r.EP), "moe-tp": fmt.Sprintf("MoE TP %d", r.MoETP),
		"dp": fmt.Sprintf("DP %d", r.DP), "batch": fmt.Sprintf("batch %d", r.Batch),
		"prompt-len": fmt.Sprintf("%d prompt tokens", r.Prompt), "gen-len": fmt.Sprintf("%d generated", r.Gen),
		"chunk":         fmt.Sprintf("chunk %d", r.Chunk),
		"cached-prefix": fmt.Sprintf("%d cached", r.CachedPrefix), "micro-batches": fmt.Sprintf("%d micro-batches", r.MicroBatches),
		"sp": fmt.Sprintf("SP %v", r.SP), "all-logits": fmt.Sprintf("all logits %v", r.AllLogits),
	}[flag]
	if text == "" {
		text, _ = other(r, flag)
		return flag + " " + text
	}
	return text
}
