package plots

import (
	"fmt"
	"image/color"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/recorder"

	"llmprof/analytic"
	"llmprof/internal/testkit"
	"llmprof/plots/colors"
)

// six are sweeps of six GPUs, and of six models, some of which do not fit.
func six(t testing.TB) map[string]*Figure {
	t.Helper()
	figures := map[string]*Figure{}
	for name, pairs := range map[string][][2]string{
		"GPUs": {
			{"llama3.1-8b", "a100"}, {"llama3.1-8b", "h100"}, {"llama3.1-8b", "h200"},
			{"llama3.1-8b", "b200"}, {"llama3.1-8b", "l4"}, {"llama3.1-8b", "rtx-4090"},
		},
		"models": {
			{"llama3.1-8b", "h200"}, {"qwen3-30b-a3b", "h200"}, {"nemotron-h-8b", "h200"},
			{"llama3.2-1b", "h200"}, {"llama2-70b", "h200"}, {"llama2-7b", "h200"},
		},
	} {
		var curves []Curve
		var cases []*analytic.Case
		for _, p := range pairs {
			c := testCase(t, p[0], p[1], 1, 1)
			curve, err := Sweep(c, ByBatch, Doublings(1, 512), p[0])
			if name == "GPUs" {
				curve.Name = p[1]
			}
			testkit.Must(t, err)
			curves, cases = append(curves, curve), append(cases, c)
		}
		f, err := Latency(SweepCaption(ByBatch, cases...), ByBatch, curves)
		testkit.Must(t, err)
		figures[name] = f
	}
	return figures
}

// outlines counts the paths of a figure that are filled in a colour, by the shape
// that they have when moved to the origin.
func outlines(f *Figure, ink color.Color) map[string]int {
	c := nowhere(f)
	f.Draw(c)
	n := map[string]int{}
	var now color.Color
	for _, a := range c.Actions {
		switch a := a.(type) {
		case *recorder.SetColor:
			now = a.Color
		case *recorder.Fill:
			if !cmp.Equal(now, ink) {
				continue
			}
			var shape strings.Builder
			from := middle(bounds(a.Path))
			for _, p := range a.Path {
				if p.Type == vg.CloseComp {
					continue
				}
				round := func(x vg.Length) int { return int(math.Round(float64(x) * 100)) }
				fmt.Fprintf(&shape, "%d %d %d %d;", p.Type, round(p.Pos.X-from.X), round(p.Pos.Y-from.Y), round(p.Radius))
			}
			n[shape.String()]++
		}
	}
	return n
}

// TestSixSeries finds six lines on each panel, each with its own marker and its
// name in its colour once, that overlap nothing.
func TestSixSeries(t *testing.T) {
	for name, f := range six(t) {
		checkLayout(t, f)
		seen := map[string]bool{}
		for i := range NumSeries {
			ink, _, _ := Series(i)
			for shape, n := range outlines(f, ink) {
				if n < 4 {
					continue // a polygon of a band
				}
				if seen[shape] {
					t.Errorf("%s: series %d has the marker of another", name, i)
				}
				seen[shape] = true
			}
		}
		if len(seen) != NumSeries {
			t.Errorf("%s: %d markers, want %d", name, len(seen), NumSeries)
		}
	}
}

// TestLongNamesOfCurves finds names that have no room beside the lines, whole, in
// the legend.
func TestLongNamesOfCurves(t *testing.T) {
	c := testCase(t, "llama3.2-1b", "h100", 1, 1)
	for _, long := range []string{strings.Repeat("a very long name ", 20), strings.Repeat("abc", 200)} {
		var curves []Curve
		for i := range NumSeries {
			curve, err := Sweep(c, ByBatch, []int{1, 2, 4}, fmt.Sprintf("%d%s", i, long))
			testkit.Must(t, err)
			curves = append(curves, curve)
		}
		f, err := Latency(Caption(c), ByBatch, curves)
		testkit.Must(t, err)
		checkLayout(t, f)
		var all strings.Builder
		for _, w := range texts(t, f) {
			all.WriteString(w.text)
		}
		squeeze := func(s string) string { return strings.ReplaceAll(s, " ", "") }
		for _, curve := range curves {
			if !strings.Contains(squeeze(all.String()), squeeze(curve.Name)) {
				t.Errorf("the name %.20q… is not whole", curve.Name)
			}
		}
	}
}

// strokes are the straight lines of a figure in a colour.
func strokes(f *Figure, ink color.Color) (all [][2]vg.Point) {
	c := nowhere(f)
	f.Draw(c)
	var now color.Color
	for _, a := range c.Actions {
		switch a := a.(type) {
		case *recorder.SetColor:
			now = a.Color
		case *recorder.Stroke:
			if cmp.Equal(now, ink) && len(a.Path) == 2 {
				all = append(all, [2]vg.Point{a.Path[0].Pos, a.Path[1].Pos})
			}
		}
	}
	return all
}

// TestUnfitIsHatched hatches where no curve fits, at either end, and nowhere else.
func TestUnfitIsHatched(t *testing.T) {
	for _, q := range []struct {
		model, gpu string
		v          Variable
		values     []int
		want       []limits // values
	}{
		{"llama3.1-8b", "h200", ByBatch, []int{1, 2, 4}, nil},
		{"llama3.1-8b", "a40", ByBatch, []int{1, 16, 256, 512}, []limits{{256, 512}}},
		{"deepseek-v3", "h200", ByTP, []int{1, 2, 4, 8}, []limits{{1, 4}}},
		{"llama2-70b", "l4", ByTP, []int{1, 2}, []limits{{1, 2}}},
	} {
		curve, err := Sweep(testCase(t, q.model, q.gpu, 1, 1), q.v, q.values, "")
		testkit.Must(t, err)
		f, err := Latency("", q.v, []Curve{curve})
		testkit.Must(t, err)
		ticks := map[string]vg.Length{}
		for _, w := range slices.Backward(texts(t, f)) { // the left panel is drawn first
			ticks[w.text] = middle(w.box).X
		}
		lo, hi := vg.Length(math.Inf(1)), vg.Length(math.Inf(-1))
		for _, s := range strokes(f, colors.Alarm().Faded(110)) {
			if x := max(s[0].X, s[1].X); x < Width/2 {
				lo, hi = min(lo, s[0].X, s[1].X), max(hi, x)
			}
		}
		if (len(q.want) > 0) != (lo < hi) {
			t.Errorf("%s on %s: hatched from %v to %v, want %v", q.model, q.gpu, lo, hi, q.want)
			continue
		}
		for _, w := range q.want {
			from, to := ticks[fmt.Sprint(w.lo)], ticks[fmt.Sprint(w.hi)]
			if math.Abs(float64(lo-from)) > 8 || math.Abs(float64(hi-to)) > 8 {
				t.Errorf("%s on %s: hatched from %v to %v, want from %v to %v", q.model, q.gpu, lo, hi, from, to)
			}
		}
	}
}

// TestBandsOfWhatDoesNotFit hatches the band of a curve that does not fit where
// another one does.
func TestBandsOfWhatDoesNotFit(t *testing.T) {
	f := six(t)["models"]
	for i, unfit := range []bool{false, false, false, false, true, true} {
		ink, _, _ := Series(i)
		n := 0
		for _, s := range strokes(f, ink) {
			if math.Abs(float64(s[0].X-s[1].X)) < 2.6 {
				n++
			}
		}
		if (n > 10) != unfit {
			t.Errorf("series %d has %d short strokes; that it does not fit at several values is %v", i, n, unfit)
		}
	}
}

// TestTicksAreEven checks that labels are at every n-th value and do not overlap.
func TestTicksAreEven(t *testing.T) {
	for wide := vg.Length(5); wide < 400; wide += 7 {
		at := []float64{1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 100000}
		ticks := values{at: at, label: counted, wide: wide, log: true}.Ticks(1, 2e5)
		var named []int
		for i, k := range ticks {
			if k.Label != "" {
				named = append(named, i)
			}
		}
		if len(named) == 0 || named[0] != 0 {
			t.Fatalf("%v: the first value has no label: %v", wide, named)
		}
		for i := 2; i < len(named); i++ {
			if named[i]-named[i-1] != named[1]-named[0] {
				t.Errorf("%v: labels are uneven: %v", wide, named)
			}
		}
	}
}

// Experts that lie on the ranks of TP lie on fewer of them where TP is smaller. A sweep of TP with EP 16 had no point below 16 GPUs.
func TestSweepOfTPTakesExpertsAlong(t *testing.T) {
	c := testCase(t, "deepseek-v3", "h200", 1, 16)
	c.Parallel.EP = 16
	curve, err := Sweep(c, ByTP, []int{4, 8}, "")
	testkit.Must(t, err)
	c.Parallel.TP, c.Parallel.EP = 8, 8
	want, err := Sweep(c, ByBatch, []int{1}, "")
	testkit.Must(t, err)
	if got := curve.Points[1]; got.TTFT != want.Points[0].TTFT || got.TPOT != want.Points[0].TPOT {
		t.Errorf("TP 8 of EP 16: TTFT %v, TPOT %v, want %v, %v", got.TTFT, got.TPOT, want.Points[0].TTFT, want.Points[0].TPOT)
	}
	if got := SweepCaption(ByTP, c); !strings.Contains(got, "TP varied · EP varied") {
		t.Errorf("caption %q does not say that EP varies", got)
	}
}
