package plots

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"

	"llmprof/analytic"
	"llmprof/analytic/breakdown"
	"llmprof/analytic/operator"
	"llmprof/internal/testkit"
	"llmprof/roofline"
	"llmprof/unit"
)

// TestOddOperators draws what no model has, or says what is wrong with it.
func TestOddOperators(t *testing.T) {
	c := testCase(t, "llama3.2-1b", "orin-nano", 1, 1)
	one := breakdown.Operator{Name: "only", Kind: operator.GEMM, Format: unit.BF16, Work: roofline.Work{FLOPs: 1e9, Weights: 1e6},
		Expected: 1e-3, Share: 1, Energy: 1}
	with := func(f func(*breakdown.Operator)) breakdown.Operator { l := one; f(&l); return l }
	many := make([]breakdown.Operator, 1000)
	for i := range many {
		many[i] = one
		many[i].Name, many[i].Share = fmt.Sprintf("op_%d", i), 0.001*float64(i%40)
		many[i].FLOPs = unit.FLOPs(1e6 * math.Pow(1.01, float64(i)))
	}
	for _, q := range []struct {
		name                string
		lines               []breakdown.Operator
		roofline, breakdown string // what the errors say, "" if it can be drawn
	}{
		{"none", nil, "nothing to draw", ""},
		{"one", []breakdown.Operator{one}, "", ""},
		{"a thousand", many, "", ""},
		{"zero", []breakdown.Operator{{Name: "zero"}}, "nothing to draw", ""},
		{"NaN", []breakdown.Operator{with(func(l *breakdown.Operator) { l.FLOPs = unit.FLOPs(math.NaN()) })}, `"only" has FLOPs NaN`,
			`operator "only" is NaN`},
		{"infinite", []breakdown.Operator{with(func(l *breakdown.Operator) { l.Expected = unit.Seconds(math.Inf(1)) })}, "must be finite",
			"must be finite"},
		{"negative", []breakdown.Operator{with(func(l *breakdown.Operator) { l.Weights = -1 })}, "not negative", "not negative"},
		{"vast", []breakdown.Operator{with(func(l *breakdown.Operator) { l.FLOPs = 1e300; l.Weights = 1e-300 })}, "nothing to draw", ""},
		{"long name", []breakdown.Operator{with(func(l *breakdown.Operator) { l.Name = strings.Repeat("proj_", 60) })}, "", ""},
	} {
		t.Run(q.name, func(t *testing.T) {
			r := &breakdown.Report{PrefillOps: q.lines}
			f, err := Roofline(c, r, nil)
			drawn(t, f, err, q.roofline)
			f, err = Breakdown(c, r)
			drawn(t, f, err, q.breakdown)
		})
	}
}

// TestOddGPUs says what is wrong with a GPU that has no roof.
func TestOddGPUs(t *testing.T) {
	for _, bandwidth := range []float64{0, -1, math.NaN(), math.Inf(1)} {
		c := testCase(t, "llama3.2-1b", "orin-nano", 1, 1)
		r := explain(t, c)
		gpu, machine := *c.Machine.GPU, *c.Machine
		gpu.Bandwidth, machine.GPU = unit.BytesPerSec(bandwidth), &gpu
		c.Machine = &machine
		f, err := Roofline(c, r, nil)
		drawn(t, f, err, "a bandwidth of "+fmt.Sprint(bandwidth))
	}
}

// TestThousandLayers draws every picture of a model with a thousand layers, all of
// them of one kind or each of its own.
func TestThousandLayers(t *testing.T) {
	for _, kinds := range []int{1, 1000}[:testkit.Cases(1, 2)] {
		c := testCase(t, "llama3.2-1b", "h200", 1, 1)
		m := *c.Model
		first := m.Layers[0]
		m.Layers, m.Order = nil, nil
		for i := range 1000 {
			if i < kinds {
				l := first
				l.Count = 1000 / kinds
				if kinds > 1 {
					l.Name = fmt.Sprintf("%s %d", first.Name, i)
				}
				m.Layers = append(m.Layers, l)
			}
			m.Order = append(m.Order, i%kinds)
		}
		c.Model = &m
		for _, p := range pictures(t, c) {
			f, err := p.make()
			drawn(t, f, err, "")
		}
	}
}

// drawn fails unless f can be drawn, or unless err says want.
func drawn(t *testing.T, f *Figure, err error, want string) {
	t.Helper()
	switch {
	case want == "" && err != nil:
		t.Errorf("got error %v", err)
	case want == "":
		checkLayout(t, f)
		for _, format := range Formats() {
			if err := f.Write(io.Discard, format); err != nil {
				t.Errorf("%s: %v", format, err)
			}
		}
	case err == nil || !strings.Contains(err.Error(), want):
		t.Errorf("got error %v, want one with %q", err, want)
	}
}

func TestOddCurves(t *testing.T) {
	c := testCase(t, "llama3.2-1b", "orin-nano", 1, 1)
	point := func(x float64, s unit.Seconds, total unit.Bytes) Point {
		p := Point{X: x}
		p.TTFT = analytic.Span{Floor: s, Expected: s, Low: s, High: s}
		p.Memory = analytic.Memory{Weights: total, Total: total, Capacity: 8e9, Usable: 8e9}
		return p
	}
	for _, q := range []struct {
		name            string
		points          []Point
		latency, memory string
	}{
		{"none", nil, "nothing to draw", "at least two"},
		{"one", []Point{point(1, 1, 1)}, "", "at least two"},
		{"alike", []Point{point(1, 1, 0), point(2, 1, 0)}, "", ""},
		{"nothing fits", []Point{point(1, 1, 1e12), point(2, 1, 1e12)}, "", ""},
		{"falling", []Point{point(2, 1, 1), point(1, 1, 1)}, "must be above 0 and rise", "must rise"},
		{"NaN", []Point{point(1, 1, 1), point(2, unit.Seconds(math.NaN()), unit.Bytes(math.NaN()))}, "must be finite", "must be finite"},
		{"wide", []Point{point(1, 1e-90, 1), point(1e9, 1e90, 1e20)}, "", ""},
	} {
		t.Run(q.name, func(t *testing.T) {
			f, err := Latency("caption", ByBatch, []Curve{{"a", q.points}})
			drawn(t, f, err, q.latency)
			f, err = Memory(c, ByBatch, Curve{"a", q.points})
			drawn(t, f, err, q.memory)
		})
	}
}

func TestFormats(t *testing.T) {
	c := testCase(t, "llama2-70b", "a100", 32, 8)
	f, err := Roofline(c, explain(t, c), nil)
	testkit.Must(t, err)
	for format, magic := range map[string]string{"svg": "<?xml", "png": "\x89PNG", "pdf": "%PDF"} {
		var b bytes.Buffer
		if err := f.Write(&b, format); err != nil || !strings.HasPrefix(b.String(), magic) {
			t.Errorf("%s: error %v, begins with %.8q", format, err, b.String())
		}
	}
	var b bytes.Buffer
	if err := f.Write(&b, "jpeg"); err == nil || !strings.Contains(err.Error(), "known: svg, png, pdf") || b.Len() > 0 {
		t.Errorf("jpeg: got error %v and %d bytes", err, b.Len())
	}
	if err := new(Figure).Write(&b, "svg"); err == nil {
		t.Error("an empty figure was written")
	}
}

// FuzzRoofline places marks and labels for any two operators.
func FuzzRoofline(f *testing.F) {
	c := testCase(f, "llama3.2-1b", "orin-nano", 1, 1)
	f.Add(1e9, 1e6, 1e-3, 0.5, 1e9, 1e6, 1e-3, 0.5)
	f.Add(1e300, 1e-300, 1e300, 1.0, 5e-324, 1e300, 1e-300, 1e300)
	f.Fuzz(func(t *testing.T, a, b, s, share, a2, b2, s2, share2 float64) {
		line := func(a, b, s, share float64) breakdown.Operator {
			return breakdown.Operator{Name: "op", Format: unit.BF16, Work: roofline.Work{FLOPs: unit.FLOPs(a), Acts: unit.Bytes(b)},
				Expected: unit.Seconds(s), Share: share}
		}
		r := &breakdown.Report{PrefillOps: []breakdown.Operator{line(a, b, s, share)}, DecodeOps: []breakdown.Operator{line(a2, b2, s2, share2)}}
		if fig, err := Roofline(c, r, nil); err == nil {
			checkLayout(t, fig)
		}
		if fig, err := Breakdown(c, r); err == nil {
			checkLayout(t, fig)
		}
	})
}

// FuzzLatency places ticks and names for any two points.
func FuzzLatency(f *testing.F) {
	f.Add(1.0, 2.0, 1e-3, 2e-3)
	f.Add(1e-90, 1e90, 5e-324, 1e308)
	f.Fuzz(func(t *testing.T, x, x2, s, s2 float64) {
		points := []Point{{X: x}, {X: x2}}
		for i, v := range []float64{s, s2} {
			points[i].TTFT = analytic.Span{Expected: unit.Seconds(v), Low: unit.Seconds(v / 2), High: unit.Seconds(v * 2)}
		}
		if fig, err := Latency("caption", ByBatch, []Curve{{"one", points}, {"two", points[:1]}}); err == nil {
			checkLayout(t, fig)
		}
	})
}

// BenchmarkFigure draws each kind of picture as SVG and PNG.
func BenchmarkFigure(b *testing.B) {
	for _, p := range pictures(b, testCase(b, "deepseek-v3", "h200", 32, 8)) {
		for _, format := range []string{"svg", "png"} {
			b.Run(p.name+"/"+format, func(b *testing.B) {
				for b.Loop() {
					f, err := p.make()
					if err == nil {
						err = f.Write(io.Discard, format)
					}
					testkit.Must(b, err)
				}
			})
		}
	}
}
