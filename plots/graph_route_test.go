package plots

import (
	"math"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/plot/vg"

	"llmprof"
	"llmprof/analytic"
	"llmprof/analytic/breakdown"
	"llmprof/internal/testkit"
	"llmprof/models"
	"llmprof/plots/colors"
)

// A4 within margins of a centimetre.
const (
	pageWidth  = 19 * vg.Centimeter
	pageHeight = 27.7 * vg.Centimeter
)

// checkGraph fails where boxes, lanes and text of a graph are in each other's
// way.
func checkGraph(t testing.TB, c *analytic.Case, r *breakdown.Report) *Figure {
	t.Helper()
	f, err := Graph(c, r, BothPhases)
	testkit.Must(t, err)
	checkLayout(t, f)
	g, err := newGraph(c, r)
	testkit.Must(t, err)
	a := g.arrange(vg.Rectangle{
		Min: vg.Point{X: Margin, Y: Margin + f.below()},
		Max: vg.Point{X: Width - Margin, Y: f.Height - Margin - f.above()},
	})
	var boxes []vg.Rectangle
	for _, p := range a.rows {
		boxes = append(boxes, p.node...)
	}
	for i, box := range boxes {
		for _, other := range boxes[:i] {
			if overlap(box, other) {
				t.Errorf("%s: nodes at %v and %v overlap", c.Model.Name, box, other)
			}
		}
	}
	for _, w := range texts(t, f) {
		for _, box := range boxes {
			if overlap(w.box, box) && (w.box.Min.X < box.Min.X || w.box.Max.X > box.Max.X || w.box.Min.Y < box.Min.Y || w.box.Max.Y > box.Max.Y) {
				t.Errorf("%s: %q at %v leaves its node at %v", c.Model.Name, w.text, w.box, box)
			}
		}
	}
	checkWays(t, c.Model.Name, g, a, boxes)
	return f
}

// checkWays fails where a way crosses a node, or a node is beside the way that it
// is part of.
func checkWays(t testing.TB, name string, g *graph, a *arrangement, boxes []vg.Rectangle) {
	t.Helper()
	from, to := g.stream(a)
	lines := [][2]vg.Point{{{X: a.lanes[streamLane], Y: from}, {X: a.lanes[streamLane], Y: to}}}
	for i := range g.clusters {
		for _, r := range g.clusters[i].routes(&a.rows[i], a.lanes) {
			for k := 1; k < len(r.points); k++ {
				lines = append(lines, [2]vg.Point{r.points[k-1], r.points[k]})
			}
		}
	}
	for _, l := range lines {
		way := vg.Rectangle{
			Min: vg.Point{X: min(l[0].X, l[1].X), Y: min(l[0].Y, l[1].Y)},
			Max: vg.Point{X: max(l[0].X, l[1].X), Y: max(l[0].Y, l[1].Y)},
		}
		for _, box := range boxes {
			if way.Max.X >= box.Min.X && way.Min.X <= box.Max.X && way.Max.Y >= box.Min.Y && way.Min.Y <= box.Max.Y {
				t.Errorf("%s: the way %v crosses the node at %v", name, l, box)
			}
		}
	}
	for i := range g.clusters {
		cl := &g.clusters[i]
		for k, n := range cl.nodes {
			x, y := a.lanes[cl.lane(k)], a.rows[i].port[k]
			on := slices.ContainsFunc(lines, func(l [2]vg.Point) bool {
				return l[0].X == x && l[1].X == x && y <= max(l[0].Y, l[1].Y) && y >= min(l[0].Y, l[1].Y)
			})
			if !on && !n.apart {
				t.Errorf("%s: %s of %q is on no way", name, n.Name, cl.title)
			}
		}
	}
}

// TestGraphOnA4 finds letters of 6 points or more when a graph is made to fit a
// page of A4.
func TestGraphOnA4(t *testing.T) {
	for _, s := range subjects() {
		c := testCase(t, s.model, s.gpu, s.batch, s.tp)
		for _, p := range []Phases{BothPhases, PrefillOnly, DecodeOnly} {
			f, err := Graph(c, explain(t, c), p)
			testkit.Must(t, err)
			checkLayout(t, f)
			checkA4(t, f)
		}
	}
}

// checkA4 fails if the figure has smaller letters than 6 points when it is made to
// fit a page; Gemma 3n's have 5.9, and Step's, of four kinds of layer, 5.6.
func checkA4(t testing.TB, f *Figure) {
	t.Helper()
	scale := min(1, pageWidth/Width, pageHeight/f.Height)
	enough := vg.Length(6)
	if strings.HasPrefix(f.Caption, "gemma3n") { // two kinds of layer with 24 operators each
		enough = 5.9
	} else if strings.HasPrefix(f.Caption, "step-3.5") {
		enough = 5.6
	}
	if least := CaptionSize * scale; least < enough {
		t.Errorf("%s: %v by %v has letters of %.1f points on A4", f.Caption, Width, f.Height, least.Points())
	}
}

// TestGraphOfEveryModel draws each model of the table, split in different ways,
// and finds time, FLOPs and bytes of the report in the nodes of both phases,
// though some are folded and some split, and every operator by its name.
func TestGraphOfEveryModel(t *testing.T) {
	table, err := models.Load(llmprof.ModelsJSON)
	testkit.Must(t, err)
	splits := []analytic.Parallelism{{}, {TP: 4}, {TP: 2, PP: 2, MicroBatches: 2}, {TP: 4, SP: true}, {TP: 2, EP: 2}}
	tried, drawn := 0, 0
	for i, name := range table.Names() {
		if i%testkit.Cases(24, 1) != 0 {
			continue
		}
		tried++
		for k, split := range splits {
			if k > 0 && k != 1+i%(len(splits)-1) {
				continue
			}
			c := testCase(t, name, "h200", 4, 1)
			split.GPUsPerNode = 8
			c.Parallel = split
			c.Workload = analytic.Workload{Batch: 4, PromptLen: 64, GenLen: 1 + 8*(i%3)}
			r, err := breakdown.Explain(c)
			if err != nil {
				continue // it cannot be split, or has fewer positions
			}
			checkA4(t, checkGraph(t, c, &r))
			checkSums(t, c, &r)
			drawn++
		}
	}
	if drawn < tried*3/2 {
		t.Errorf("%d graphs of %d models are drawn", drawn, tried)
	}
}

// checkSums fails if the nodes of a graph lack a part of the report.
func checkSums(t testing.TB, c *analytic.Case, r *breakdown.Report) {
	t.Helper()
	g, err := newGraph(c, r)
	testkit.Must(t, err)
	for i, lines := range [][]breakdown.Operator{r.PrefillOps, r.DecodeOps} {
		got, want := &GraphWork{}, &GraphWork{}
		names := map[string]bool{}
		for k := range lines {
			want.add(&lines[k], 1)
		}
		for _, cl := range g.clusters {
			for _, n := range cl.nodes {
				if w := []*GraphWork{n.Prefill, n.Decode}[i]; w != nil {
					got.Share += w.Share
					got.FLOPs += w.FLOPs
					got.Bytes += w.Bytes
				}
				names[cl.title+"/"+n.Name] = true
			}
		}
		same := func(a, b float64) bool { return math.Abs(a-b) <= 1e-9*math.Abs(b) }
		if !same(got.Share, want.Share) || !same(float64(got.FLOPs), float64(want.FLOPs)) || !same(float64(got.Bytes), float64(want.Bytes)) {
			t.Errorf("%s, phase %d: nodes have %v of the time, %v, %v; the report %v, %v, %v",
				c.Model.Name, i, got.Share, got.FLOPs, got.Bytes, want.Share, want.FLOPs, want.Bytes)
		}
		for k := range lines {
			l := &lines[k]
			folded := ofMoE(&op{name: l.Name, kind: l.Kind}) && names[l.Layer+"/mixture of experts"]
			if !names[l.Layer+"/"+l.Name] && !folded {
				t.Errorf("%s, phase %d: no node has %q of %q", c.Model.Name, i, l.Name, l.Layer)
			}
		}
	}
}

// TestStrip says how the kinds of layers alternate.
func TestStrip(t *testing.T) {
	for model, want := range map[string]string{
		"llama2-70b":         "",
		"smollm3-3b":         "", // its layers differ in rotation only
		"deepseek-v3":        "61 layers: 3×a 58×b",
		"gpt-oss-120b":       "36 layers: 18×(a b)",
		"gemma3-27b":         "62 layers: 10×(5×a b) 2×a",
		"qwen3-next-80b-a3b": "48 layers: 12×(3×a b)",
		"nemotron-h-8b":      "52 layers: 4×(a b a b a b a c b a b) 4×(a b)",
	} {
		m := testCase(t, model, "h200", 1, 1).Model
		var names []string
		for _, l := range m.Layers {
			if !slices.Contains(names, l.Name) {
				names = append(names, l.Name)
			}
		}
		s := newStrip(m, names)
		got := ""
		if len(s.order) > 0 {
			got = s.text()
		}
		if got != want {
			t.Errorf("%s: %q, want %q", model, got, want)
		}
	}
	long := strip{order: make([]int, 1000)}
	for i := range long.order {
		long.order[i] = i * i % 7 % 3
	}
	for _, l := range long.lines(Width) {
		if w := Sans(CaptionSize, colors.Ink()).Width(l); w > Width || strings.Count(l, "\n") > 0 {
			t.Errorf("%q is %v wide", l, w)
		}
	}
	if n := len(long.lines(100)); n > 2 {
		t.Errorf("%d lines", n)
	}
}
