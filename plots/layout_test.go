package plots

import (
	"math"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/recorder"

	"llmprof/analytic/breakdown"
	"llmprof/internal/testkit"
	"llmprof/plots/colors"
)

// A written text is one with the box that its letters fill.
type written struct {
	text string
	box  vg.Rectangle
}

// texts are all that a figure writes; it fails where something is turned or moved,
// which the boxes would not show.
func texts(t testing.TB, f *Figure) (all []written) {
	t.Helper()
	c := nowhere(f)
	f.Draw(c)
	for _, a := range c.Actions {
		switch a := a.(type) {
		case *recorder.Rotate, *recorder.Scale, *recorder.Translate:
			t.Fatalf("%s is drawn on a canvas that was turned or moved: %s", f.Title, a.Call())
		case *recorder.FillString:
			s := draw.TextStyle{Font: a.Font, Handler: plot.DefaultTextHandler}
			if a.String != "" {
				all = append(all, written{a.String, textBox(s, a.Point, a.String)})
			}
			least(t, a.Font, a.String)
		}
	}
	return all
}

func least(t testing.TB, f font.Font, text string) {
	t.Helper()
	if f.Size < 6.9 {
		t.Errorf("%q is set in %.1f points: too small to read in print", text, f.Size.Points())
	}
}

// checkLayout fails if any text is clipped or lies on another.
func checkLayout(t testing.TB, f *Figure) {
	t.Helper()
	all := texts(t, f)
	canvas := vg.Rectangle{Max: vg.Point{X: Width, Y: f.Height}}
	for i, a := range all {
		if a.box.Min.X < canvas.Min.X || a.box.Min.Y < canvas.Min.Y || a.box.Max.X > canvas.Max.X || a.box.Max.Y > canvas.Max.Y {
			t.Errorf("%s: %q at %v reaches beyond the canvas of %v", f.Title, a.text, a.box, canvas.Max)
		}
		for _, b := range all[:i] {
			if overlap(a.box, b.box) {
				t.Errorf("%s: %q at %v lies on %q at %v", f.Title, a.text, a.box, b.text, b.box)
			}
		}
	}
}

func TestTextIsInsideAndApart(t *testing.T) {
	for _, p := range allPictures(t, subjects()) {
		t.Run(p.name, func(t *testing.T) {
			f, err := p.make()
			testkit.Must(t, err)
			checkLayout(t, f)
		})
	}
}

// TestCapacityLine finds the capacity where the axis says that it is: the 85.9 GB
// of the A100 between the ticks of 80 and 100 GB, and the batch that fits where
// the estimate says that it is.
func TestCapacityLine(t *testing.T) {
	c := testCase(t, "llama2-70b", "a100", 32, 8)
	curve, err := MemorySweep(c, ByBatch)
	testkit.Must(t, err)
	f, err := Memory(c, ByBatch, curve)
	testkit.Must(t, err)
	usable := explain(t, c).Memory.Usable
	var none, tick, label vg.Rectangle
	for _, w := range texts(t, f) {
		switch w.text {
		case "0 B":
			none = w.box
		case "80 GB":
			tick = w.box
		case "capacity " + usable.String():
			label = w.box
		}
	}
	middle := func(r vg.Rectangle) float64 { return float64(r.Min.Y+r.Max.Y) / 2 }
	if label.Max.X == 0 || tick.Max.X == 0 || math.Abs(middle(none)+(middle(tick)-middle(none))*float64(usable)/80e9-middle(label)) > 12 {
		t.Errorf("the label of %v is at %v, the tick of 80 GB at %v", usable, label, tick)
	}
	if got, want := mostThatFits(curve.Points), float64(explain(t, c).Memory.MaxBatch); got != want {
		t.Errorf("the areas cross the capacity at batch %v, the estimate at %v", got, want)
	}
}

// TestParamsByGroup finds the model's parameters a second time.
func TestParamsByGroup(t *testing.T) {
	for _, s := range subjects() {
		c := testCase(t, s.model, s.gpu, s.batch, s.tp)
		var sum float64
		for g, n := range paramsByGroup(c.Model) {
			if n < 0 {
				t.Errorf("%s: %v parameters of %v", s.model, n, group(g))
			}
			sum += n
		}
		if sum != float64(c.Model.Params()) {
			t.Errorf("%s: groups have %.0f parameters, the model %d", s.model, sum, c.Model.Params())
		}
		r := explain(t, c)
		for i := range r.PrefillOps {
			if l := &r.PrefillOps[i]; groupOf(c.Model, l) == other {
				t.Errorf("%s: operator %q of layer %q is in no group", s.model, l.Name, l.Layer)
			}
		}
	}
}

// TestGroupsOfLinearAttention finds the products of a linear attention among those of scans, as its parameters are, and those
// around experts in a narrower stream among the feed-forward's.
func TestGroupsOfLinearAttention(t *testing.T) {
	for _, x := range []struct {
		model, name string
		want        group
	}{{"minimax-m1", "qkv_proj", scanProjections}, {"nemotron-3-super-120b-a12b", "latent_out_proj", feedForward}} {
		c := testCase(t, x.model, "h200", 1, 8)
		found := slices.ContainsFunc(explain(t, c).PrefillOps, func(l breakdown.Operator) bool {
			return l.Name == x.name && groupOf(c.Model, &l) == x.want
		})
		if !found {
			t.Errorf("%s: no operator %s is in the group %v", x.model, x.name, x.want)
		}
	}
}

// TestLongOperatorsAreNamed finds a row for each operator that takes a
// twentieth of its phase or more.
func TestLongOperatorsAreNamed(t *testing.T) {
	for _, s := range subjects() {
		c := testCase(t, s.model, s.gpu, s.batch, s.tp)
		r := explain(t, c)
		f, err := Roofline(c, r, nil)
		testkit.Must(t, err)
		var written []string
		for _, w := range texts(t, f) {
			written = append(written, w.text)
		}
		for _, lines := range [][]breakdown.Operator{r.PrefillOps, r.DecodeOps} {
			ds, err := dots(lines, prefillMark)
			testkit.Must(t, err)
			for _, d := range ds {
				if d.share >= 0.05 && !slices.Contains(written, strings.Replace(d.name, "layernorm", "norm", 1)) {
					t.Errorf("%s: no row %q", s.model, d.name)
				}
			}
		}
	}
}

// TestDecadesApart checks that the labels of a horizontal logarithmic axis do not
// touch, whatever it spans, and that it has some.
func TestDecadesApart(t *testing.T) {
	const wide = Width/2 - 60
	d := decades{label: seconds, wide: wide}
	for lo := 1e-6; lo < 1; lo *= 1.7 {
		for span := 10.0; span < 1e5; span *= 1.5 {
			hi := lo * span
			free, labels := vg.Length(math.Inf(-1)), 0
			for _, k := range d.Ticks(lo, hi) {
				if k.Label == "" {
					continue
				}
				x, w := wide*vg.Length(math.Log(k.Value/lo)/math.Log(hi/lo)), Sans(TickSize, colors.Ink()).Width(k.Label)
				if x-w/2 < free {
					t.Errorf("%g to %g: %q touches the label before it", lo, hi, k.Label)
				}
				free, labels = x+w/2, labels+1
			}
			if labels == 0 {
				t.Errorf("%g to %g: no label", lo, hi)
			}
		}
	}
}
