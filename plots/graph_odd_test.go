package plots

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"

	"llmprof/analytic/breakdown"
	"llmprof/analytic/operator"
	"llmprof/internal/testkit"
	"llmprof/roofline"
	"llmprof/unit"
)

// TestOddGraphs draws graphs of what no model has, or says what is wrong with it.
func TestOddGraphs(t *testing.T) {
	c := testCase(t, "deepseek-v3", "h200", 1, 8)
	one := breakdown.Operator{Name: "only", Kind: operator.GEMM, Format: unit.BF16, Work: roofline.Work{FLOPs: 1e9, Weights: 1e6},
		Expected: 1e-3, Share: 1}
	with := func(f func(*breakdown.Operator)) breakdown.Operator { l := one; f(&l); return l }
	many := make([]breakdown.Operator, 1000)
	for i := range many {
		many[i] = with(func(l *breakdown.Operator) { l.Name, l.Layer, l.Share = "op", fmt.Sprintf("layer %d", i), 0.001 })
	}
	long := *c.Model
	long.Order = make([]int, 1000)
	for i := range long.Order {
		long.Order[i] = i % 3 % 2
	}
	c.Model = &long
	for _, q := range []struct {
		name  string
		lines []breakdown.Operator
		want  string // what the error says, "" if it can be drawn
	}{
		{"none", nil, "nothing to draw"},
		{"zero", []breakdown.Operator{{Name: "zero"}}, "nothing to draw"},
		{"one", []breakdown.Operator{one}, ""},
		{"one of a layer", []breakdown.Operator{with(func(l *breakdown.Operator) { l.Layer = "attention + moe" })}, ""},
		{"many kinds", many[:testkit.Cases(20, 50)], ""},
		{"a thousand kinds", many, "no page is higher than 14400"},
		{"a thousand layers", []breakdown.Operator{
			with(func(l *breakdown.Operator) { l.Layer, l.Share = "attention + mlp", 0.5 }),
			with(func(l *breakdown.Operator) { l.Layer, l.Share = "attention + moe", 0.5 }),
		}, ""},
		{"odd name", []breakdown.Operator{with(func(l *breakdown.Operator) { l.Name, l.Layer = "<&>\"\\\n\x00\xff", "]]>{|}" })}, ""},
		{"no name", []breakdown.Operator{with(func(l *breakdown.Operator) { l.Name = "" })}, ""},
		{"long name", []breakdown.Operator{with(func(l *breakdown.Operator) {
			l.Name, l.Layer = strings.Repeat("proj_", 60), strings.Repeat("layer", 60)
		})}, ""},
		{"vast", []breakdown.Operator{with(func(l *breakdown.Operator) { l.FLOPs, l.Weights, l.Expected = 1e300, 1e-300, 1e300 })}, ""},
		{"NaN", []breakdown.Operator{with(func(l *breakdown.Operator) { l.FLOPs = unit.FLOPs(math.NaN()) })}, `operator "only" is not a number`},
		{"infinite", []breakdown.Operator{with(func(l *breakdown.Operator) { l.Expected = unit.Seconds(math.Inf(1)) })},
			`operator "only" is not a number`},
		{"negative", []breakdown.Operator{with(func(l *breakdown.Operator) { l.Share = -1 })}, `operator "only" is not a number of at least 0`},
		{"more than all", []breakdown.Operator{with(func(l *breakdown.Operator) { l.Share = 2 })}, `operator "only" has a share of 2`},
		{"no bound", []breakdown.Operator{with(func(l *breakdown.Operator) { l.Bound = 99 })}, `operator "only"`},
	} {
		t.Run(q.name, func(t *testing.T) {
			reports := []*breakdown.Report{{PrefillOps: q.lines, DecodeOps: q.lines}, {PrefillOps: q.lines}, {DecodeOps: q.lines}}
			for _, r := range reports[:testkit.Cases(1, 3)] {
				f, err := Graph(c, r, BothPhases)
				drawn(t, f, err, q.want)
				if err == nil {
					checkGraph(t, c, r)
					wellFormed(t, f)
				}
				if _, dotErr := GraphDOT(c, r, BothPhases); (dotErr == nil) != (err == nil) && len(q.lines) < len(many) {
					t.Errorf("as a picture: %v; as DOT: %v", err, dotErr)
				}
			}
		})
	}
	if _, err := Graph(c, &breakdown.Report{PrefillOps: many}, DecodeOnly); err == nil ||
		!strings.Contains(err.Error(), "there is no decode") {
		t.Errorf("got error %v", err)
	}
}

// wellFormed reads an SVG as XML.
func wellFormed(t testing.TB, f *Figure) {
	t.Helper()
	text, err := f.SVG()
	testkit.Must(t, err)
	d := xml.NewDecoder(strings.NewReader(text))
	for {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatalf("the SVG is no XML: %v", err)
		}
	}
}

// FuzzGraph draws any operator of any layer.
func FuzzGraph(f *testing.F) {
	c := testCase(f, "deepseek-v3", "h200", 1, 8)
	f.Add("q_b_proj", "attention + moe", 1e9, 1e6, 1e-3, 0.5)
	f.Add("kv_a_proj", "attention + mlp", 1e300, 1e-300, 1e300, 1.0)
	f.Add("experts.gate_up_proj", "attention + moe", 0.0, 5e-324, 5e-324, 5e-324)
	f.Add("all_reduce", "", 1.0, 1.0, 1.0, 1e300)
	f.Fuzz(func(t *testing.T, name, layer string, flops, weights, time, share float64) {
		l := breakdown.Operator{Name: name, Layer: layer, Work: roofline.Work{FLOPs: unit.FLOPs(flops), Weights: unit.Bytes(weights)},
			Expected: unit.Seconds(time), Share: share}
		other := l
		other.Name, other.Share = "input_layernorm", 0.5
		r := &breakdown.Report{PrefillOps: []breakdown.Operator{other, l}, DecodeOps: []breakdown.Operator{l}}
		if fig, err := Graph(c, r, BothPhases); err == nil {
			checkGraph(t, c, r)
			wellFormed(t, fig)
		}
	})
}

// BenchmarkGraph makes the largest of the graphs in each form.
func BenchmarkGraph(b *testing.B) {
	c := testCase(b, "deepseek-v3", "h200", 32, 8)
	r := explain(b, c)
	for _, format := range Formats() {
		b.Run(format, func(b *testing.B) {
			for b.Loop() {
				f, err := Graph(c, r, BothPhases)
				if err == nil {
					err = f.Write(io.Discard, format)
				}
				testkit.Must(b, err)
			}
		})
	}
}
