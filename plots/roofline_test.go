package plots

import (
	"fmt"
	"image/color"
	"math"
	"slices"
	"strconv"
	"testing"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/recorder"

	"llmprof/analytic"
	"llmprof/internal/testkit"
	"llmprof/plots/colors"
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

// marksOf are the areas of a figure in the colour of a bound.
func marksOf(f *Figure) (marks []painted) {
	for _, p := range paintings(f) {
		for b := range roofline.NumBounds {
			if p.ink == colors.Bound(b) {
				marks = append(marks, p)
			}
		}
	}
	return marks
}

// isNumber reports whether a text is the number of a mark.
func isNumber(text string) bool {
	n, err := strconv.Atoi(text)
	return err == nil && n > 0 && n <= mostListed && len(text) <= 2
}

// TestRooflineLabelsTouchNothing finds no text on another one or on a mark, but the
// numbers in theirs.
func TestRooflineLabelsTouchNothing(t *testing.T) {
	for name, c := range looked(t) {
		t.Run(name, func(t *testing.T) {
			f, err := Roofline(c, explain(t, c), nil)
			testkit.Must(t, err)
			checkLayout(t, f)
			marks := marksOf(f)
			if len(marks) < 8 {
				t.Fatalf("%d marks were found, want 8 or more", len(marks))
			}
			for _, w := range texts(t, f) {
				for _, m := range marks {
					if !isNumber(w.text) && overlap(w.box, m.box) {
						t.Errorf("%q at %v lies on the mark at %v", w.text, w.box, m.box)
					}
				}
			}
		})
	}
}

// TestNumbersAreApart finds the numbers of a roofline spread so that none covers
// another, and each of a phase once in the axes and once in the table.
func TestNumbersAreApart(t *testing.T) {
	for name, c := range looked(t) {
		f, err := Roofline(c, explain(t, c), nil)
		testkit.Must(t, err)
		var badges []vg.Rectangle
		count, marks := map[string]int{}, marksOf(f)
		for _, w := range texts(t, f) {
			if !isNumber(w.text) || w.box.Max.X < 50 && w.box.Min.Y > f.Height/2 { // the labels of axes
				continue
			}
			at := middle(w.box)
			for _, m := range marks {
				if inside(m.box, at) && m.box.Max.X-m.box.Min.X > 8 {
					badges = append(badges, m.box)
					count[w.text]++
				}
			}
		}
		for i := range badges {
			for j := range i {
				if overlap(badges[i], badges[j]) {
					t.Errorf("%s: the numbers at %v and %v cover each other", name, badges[i], badges[j])
				}
			}
		}
		for text, n := range count {
			if n > 4 {
				t.Errorf("%s: number %s is drawn %d times, want at most twice a phase", name, text, n)
			}
		}
		if len(badges) < 8 {
			t.Errorf("%s: %d numbers, want 8 or more", name, len(badges))
		}
	}
}

// TestNoMarkAboveItsRoof draws a mark that reaches all of its roof, on the slope, on
// the level and at the ridge, and finds none of its ink above the line.
func TestNoMarkAboveItsRoof(t *testing.T) {
	roof := []vg.Point{{X: 0, Y: 0}, {X: 100, Y: 60}, {X: 200, Y: 60}}
	for _, m := range []Marker{prefillMark, decodeMark} {
		for _, at := range []vg.Point{{X: 50, Y: 30}, {X: 150, Y: 60}, {X: 100, Y: 60}, {X: 50, Y: 28}} {
			c := &blank{w: 200, h: 100}
			canvas := draw.New(c)
			new(rooflineView).dot(&canvas, &dot{mark: m}, at, roof)
			drawn := 0
			for _, a := range c.Actions {
				if p, ok := a.(*recorder.Fill); ok {
					for _, s := range p.Path {
						if s.Type != vg.CloseComp && !under(roof, s.Pos, -1e-6) {
							t.Errorf("%s at %v: %v is above the roof", m.phase(), at, s.Pos)
						}
						drawn++
					}
				}
			}
			if drawn < 3 {
				t.Errorf("%s at %v: nothing is drawn", m.phase(), at)
			}
		}
	}
}

// TestTimeBesideTheRoof finds what has no FLOPs in the table, where all of each
// phase's time adds up: all-reduces, norms and the host.
func TestTimeBesideTheRoof(t *testing.T) {
	c := testCase(t, "llama2-70b", "a100", 32, 8)
	r := explain(t, c)
	ds, err := dots(r.PrefillOps, prefillMark)
	testkit.Must(t, err)
	table := newPhaseTable(ds, prefillMark)
	sum, found := 0.0, false
	for _, row := range table.rows {
		sum += row.time
		found = found || row.name == "all_reduce" && row.number == 0 && row.ofRoof() > 0.1 && row.ofRoof() < 1
	}
	if want := float64(r.Prefill.Expected); math.Abs(sum/want-1) > 1e-9 || math.Abs(table.time/want-1) > 1e-9 {
		t.Errorf("the table adds up to %v and says %v, the phase takes %v", sum, table.time, want)
	}
	if !found {
		t.Errorf("no all_reduce in %d rows", len(table.rows))
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
		f, err := Roofline(c, explain(t, c), nil)
		testkit.Must(t, err)
		at := map[string]vg.Point{}
		marks := marksOf(f)
		for _, w := range texts(t, f) {
			if !slices.ContainsFunc(marks, func(m painted) bool { return inside(m.box, middle(w.box)) }) {
				at[w.text] = middle(w.box)
			}
		}
		// The scale has a tick for each decade, on all three axes.
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
				found = found || near && p.ink == colors.Paper() && p.box.Max.X-p.box.Min.X < 5
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
		testkit.Must(t, err)
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
