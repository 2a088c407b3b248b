package plots

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"gonum.org/v1/plot/vg"

	"llmprof/analytic"
	"llmprof/internal/testkit"
	"llmprof/internal/testkit/casetest"
	"llmprof/plots/colors"
)

// TestMostThatFitsIsMarked finds a line at the largest batch and the longest prompt
// that fit, where the ticks of the axis say that it is, its name, and hatching from
// there on. Where nothing fits, the picture says so and is hatched from its border.
func TestMostThatFitsIsMarked(t *testing.T) {
	for name, c := range looked(t) {
		for _, v := range []Variable{ByBatch, ByContext} {
			curve, err := MemorySweep(c, v)
			testkit.Must(t, err)
			f, err := Memory(c, v, curve)
			testkit.Must(t, err)
			checkLayout(t, f)
			m := explain(t, c).Memory
			noun, most := "batch", float64(m.MaxBatch)
			if v == ByContext {
				noun, most = "prompt", longest(t, c)
			}
			checkMost(t, name, f, noun, most)
		}
	}
}

// Activations lie beside the share of SGLang, up to what is left of the memory: the line of the capacity rises with them.
func TestCapacityRisesWithActivations(t *testing.T) {
	c := testCase(t, "llama3.1-8b", "h200", 1, 1)
	for engine, rises := range map[string]bool{"vllm": false, "sglang": true} {
		c.Machine = casetest.Machine(t, "h200", engine)
		curve, err := MemorySweep(c, ByContext)
		testkit.Must(t, err)
		f, err := Memory(c, ByContext, curve)
		testkit.Must(t, err)
		checkLayout(t, f)
		first, last := &curve.Points[0].Memory, &curve.Points[len(curve.Points)-1].Memory
		if (last.Usable > first.Usable) != rises {
			t.Fatalf("%s: %v usable at first, then %v", engine, first.Usable, last.Usable)
		}
		all, next := strokes(f, colors.Alarm()), map[vg.Point]vg.Point{}
		left := all[0][0]
		for _, s := range all {
			if s[1].X > s[0].X && s[0].Y > 60 { // not the legend's
				if next[s[0]] = s[1]; s[0].X < left.X {
					left = s[0]
				}
			}
		}
		right := left
		for to, on := next[right]; on; to, on = next[right] {
			right = to
		}
		if (right.Y > left.Y+0.1) != rises {
			t.Errorf("%s: the line of the capacity goes from %v to %v", engine, left, right)
		}
	}
}

// longest is the longest prompt that fits, by halving.
func longest(t *testing.T, c *analytic.Case) float64 {
	t.Helper()
	lo, hi := 0, 1<<24
	for hi-lo > 1 {
		one := *c
		one.Workload.PromptLen = (lo + hi) / 2
		e, err := analytic.Predict(&one)
		testkit.Must(t, err)
		if e.Memory.Fits() {
			lo = one.Workload.PromptLen
		} else {
			hi = one.Workload.PromptLen
		}
	}
	return float64(lo)
}

// checkMost checks that the mark in f is at most, which is 0 if nothing fits.
func checkMost(t *testing.T, name string, f *Figure, noun string, most float64) {
	t.Helper()
	var hatched []vg.Length // where lines begin at the left
	var upright []vg.Length
	for _, s := range strokes(f, colors.Alarm()) {
		switch dx := math.Abs(float64(s[0].X - s[1].X)); {
		case dx < 1e-9:
			upright = append(upright, s[0].X)
		case math.Abs(float64(s[0].Y-s[1].Y)) > 1e-9 && min(s[0].Y, s[1].Y) > 60: // not the legend's
			hatched = append(hatched, min(s[0].X, s[1].X))
		}
	}
	var said []string
	var xs []vg.Point // value of a tick and its place
	for _, w := range texts(t, f) {
		if strings.HasPrefix(w.text, "max ") || w.text == "nothing fits" {
			said = append(said, w.text)
		}
		var n float64
		var k string
		if read, _ := fmt.Sscanf(w.text, "%f%s", &n, &k); read == 1 || k == "k" {
			if k == "k" {
				n *= 1000
			}
			xs = append(xs, vg.Point{X: vg.Length(n), Y: middle(w.box).X})
		}
	}
	want := "nothing fits"
	if most > 0 {
		want = fmt.Sprintf("max %s %.0f", noun, most)
	}
	if len(said) != 1 || said[0] != want {
		t.Errorf("%s: got %q, want %q", name, said, want)
		return
	}
	if most == 0 {
		return
	}
	a, b := xs[0], xs[len(xs)-1]
	at := a.Y + (b.Y-a.Y)*(vg.Length(most)-a.X)/(b.X-a.X)
	if len(upright) != 1 || math.Abs(float64(upright[0]-at)) > 1.5 {
		t.Errorf("%s: %s is marked at %v, want %v", name, want, upright, at)
	}
	for _, x := range hatched {
		if x < at-1.5 {
			t.Errorf("%s: hatched from %v on, though all fits up to %v", name, x, at)
		}
	}
	if len(hatched) < 5 {
		t.Errorf("%s: what does not fit has %d lines", name, len(hatched))
	}
}
