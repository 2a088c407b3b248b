package plots

import (
	"fmt"
	"image/color"
	"math"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/recorder"

	"llmprof/analytic"
	"llmprof/roofline"
)

// looked are the cases that pictures were looked at of.
func looked(t testing.TB) map[string]*analytic.Case {
	t.Helper()
	all := map[string]*analytic.Case{}
	for _, gpu := range []string{"h200", "a100", "agx-orin-64gb"} {
		for _, s := range []subject{
			{"llama3.1-8b", gpu, 1, 1}, {"qwen3-30b-a3b", gpu, 16, 1}, {"nemotron-h-8b", gpu, 8, 1},
			{"deepseek-v3", gpu, 32, 8}, {"llama2-70b", gpu, 8, 4},
		} {
			if gpu == "agx-orin-64gb" && s.tp > 1 {
				continue // it has no link
			}
			all[s.model+" on "+gpu] = testCase(t, s.model, gpu, s.batch, s.tp)
		}
	}
	return all
}

// A painted area is the box of a path that was filled.
type painted struct {
	ink color.Color
	box vg.Rectangle
}

// paintings are all areas of a figure with a curved or straight outline.
func paintings(f *Figure) (all []painted) {
	c := nowhere(f)
	f.Draw(c)
	var ink color.Color
	for _, a := range c.Actions {
		switch a := a.(type) {
		case *recorder.SetColor:
			ink = a.Color
		case *recorder.Fill:
			all = append(all, painted{ink, bounds(a.Path)})
		}
	}
	return all
}

// bounds is the box of a path of lines and whole circles.
func bounds(p vg.Path) vg.Rectangle {
	far := vg.Length(math.Inf(1))
	b := vg.Rectangle{Min: vg.Point{X: far, Y: far}, Max: vg.Point{X: -far, Y: -far}}
	for _, s := range p {
		if s.Type == vg.CloseComp {
			continue
		}
		r := s.Radius // 0 but for arcs
		b.Min = vg.Point{X: min(b.Min.X, s.Pos.X-r), Y: min(b.Min.Y, s.Pos.Y-r)}
		b.Max = vg.Point{X: max(b.Max.X, s.Pos.X+r), Y: max(b.Max.Y, s.Pos.Y+r)}
	}
	return b
}

// TestRooflineLabelsTouchNothing finds no label on another one or on a mark.
func TestRooflineLabelsTouchNothing(t *testing.T) {
	for name, c := range looked(t) {
		t.Run(name, func(t *testing.T) {
			f, err := Roofline(c, explain(t, c))
			if err != nil {
				t.Fatal(err)
			}
			checkLayout(t, f)
			var marks []vg.Rectangle
			for _, p := range paintings(f) {
				for b := roofline.ByCompute; b <= roofline.ByLaunch; b++ {
					if p.ink == BoundColor(b) {
						marks = append(marks, p.box)
					}
				}
			}
			if len(marks) < 8 {
				t.Fatalf("%d marks were found, want 8 or more", len(marks))
			}
			for _, w := range texts(t, f) {
				for _, m := range marks {
					if overlap(w.box, m) {
						t.Errorf("%q at %v lies on the mark at %v", w.text, w.box, m)
					}
				}
			}
		})
	}
}

// TestCalloutsNameEveryMarkOnce finds each operator of a hundredth of its phase in
// one callout, after the larger marks that it lies in.
func TestCalloutsNameEveryMarkOnce(t *testing.T) {
	v := &rooflineView{}
	at := []vg.Point{{X: 100, Y: 100}, {X: 101, Y: 100}, {X: 101, Y: 101}, {X: 300, Y: 100}, {X: 102, Y: 100}}
	for i, m := range []PhaseMark{DecodeMark(), DecodeMark(), PrefillMark(), DecodeMark(), DecodeMark()} {
		v.dots = append(v.dots, dot{name: fmt.Sprint(i), mark: m, share: []float64{0.5, 0.2, 0.1, 0.05, 0.001}[i]})
	}
	var got []string
	for _, l := range v.callouts(at) {
		got = append(got, strings.Join(l.lines, " "))
	}
	if text, want := strings.Join(got, ", "), "0 50 % 1 20 %, 2 10 %, 3 5 %"; text != want {
		t.Errorf("got callouts %s, want %s", text, want)
	}
}

// TestRidges reads where the ridges are from the ticks of the axes, and holds them
// to the data sheets: dense peak by bandwidth.
func TestRidges(t *testing.T) {
	for _, q := range []struct {
		model, gpu string
		tp         int
		ridges     map[float64]float64 // FLOP/s by FLOP/byte
	}{
		{"deepseek-v3", "h200", 8, map[float64]float64{1978.9e12 / 4.8e12: 1978.9e12, 989.4e12 / 4.8e12: 989.4e12}},
		{"llama3.1-8b", "a100", 1, map[float64]float64{312e12 / 2.039e12: 312e12}},
		{"llama3.1-8b", "agx-orin-64gb", 1, map[float64]float64{42.5e12 / 204.8e9: 42.5e12}},
	} {
		c := testCase(t, q.model, q.gpu, 32, q.tp)
		f, err := Roofline(c, explain(t, c))
		if err != nil {
			t.Fatal(err)
		}
		at := map[string]vg.Point{}
		for _, w := range texts(t, f) {
			at[w.text] = middle(w.box)
		}
		// Ticks a decade apart are the scale; on all three axes there are these.
		x := decade(at["10"].X, at["100"].X, 10)
		y := decade(at["10 T"].Y, at["100 T"].Y, 10e12)
		for ridge, peak := range q.ridges {
			if text := fmt.Sprintf("ridge %.0f FLOP/byte", ridge); at[text].X == 0 {
				t.Errorf("%s: no label %q", q.gpu, text)
			}
			found := false
			for _, p := range paintings(f) {
				m := middle(p.box)
				near := math.Abs(math.Log(x(m.X)/ridge)) < 0.03 && math.Abs(math.Log(y(m.Y)/peak)) < 0.06
				found = found || near && p.ink == Paper() && p.box.Max.X-p.box.Min.X < 5
			}
			if !found {
				t.Errorf("%s: no ring at %.4g FLOP/byte and %.4g FLOP/s", q.gpu, ridge, peak)
			}
		}
	}
}

// decade is the value at a place of a logarithmic axis that shows v at one and
// ten times v at the other.
func decade(one, other vg.Length, v float64) func(vg.Length) float64 {
	return func(at vg.Length) float64 { return v * math.Pow(10, float64((at-one)/(other-one))) }
}

// TestNothingIsAboveItsRoof holds each mark to the data sheet, pipelines with
// overlapping micro-batches included.
func TestNothingIsAboveItsRoof(t *testing.T) {
	all := looked(t)
	split := testCase(t, "deepseek-v3", "b200", 64, 8)
	split.Parallel.PP, split.Parallel.EP, split.Parallel.SP, split.Parallel.MicroBatches = 2, 8, true, 4
	all["a pipeline"] = split
	for name, c := range all {
		r, err := oneByOne(c, explain(t, c))
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range slices.Concat(r.PrefillOps, r.DecodeOps) {
			if l.FLOPs == 0 {
				continue
			}
			_, peak := c.Machine.Runs(l.Format)
			roof := min(float64(peak), float64(c.Machine.GPU.Bandwidth)*l.Intensity())
			if rate := float64(l.FLOPs) / float64(l.Expected); rate > roof*(1+1e-9) {
				t.Errorf("%s: %s runs at %.4g FLOP/s, above the %.4g of the data sheet at %.4g FLOP/byte", name, l.Name, rate, roof, l.Intensity())
			}
		}
	}
}
