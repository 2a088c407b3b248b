package plots

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"llmprof/analytic"
	"llmprof/internal/testkit"
)

// A picture is a figure of a subject.
type picture struct {
	name string
	make func() (*Figure, error)
}

// pictures are all figures of a case.
func pictures(t testing.TB, c *analytic.Case) []picture {
	t.Helper()
	r := explain(t, c)
	memory := func(v Variable) func() (*Figure, error) {
		return func() (*Figure, error) {
			curve, err := MemorySweep(c, v)
			if err != nil {
				return nil, err
			}
			return Memory(c, v, curve)
		}
	}
	return []picture{
		{"roofline", func() (*Figure, error) { return Roofline(c, r, nil) }},
		{"breakdown", func() (*Figure, error) { return Breakdown(c, r) }},
		{"memory", memory(ByBatch)},
		{"memory-context", memory(ByContext)},
		{"sweep", func() (*Figure, error) {
			curve, err := Sweep(c, ByBatch, Doublings(1, 512), c.Model.Name)
			if err != nil {
				return nil, err
			}
			return Latency(SweepCaption(ByBatch, c), ByBatch, []Curve{curve})
		}},
	}
}

// compare is a sweep of one model on several GPUs.
func compare(t testing.TB) (*Figure, error) {
	var curves []Curve
	var cases []*analytic.Case
	for _, g := range []string{"a100", "h100", "h200"} {
		c := testCase(t, "llama3.1-8b", g, 1, 1)
		cases = append(cases, c)
		curve, err := Sweep(c, ByBatch, Doublings(1, 512), g)
		if err != nil {
			return nil, err
		}
		curves = append(curves, curve)
	}
	return Latency(SweepCaption(ByBatch, cases...), ByBatch, curves)
}

func allPictures(t testing.TB, of []subject) (all []picture) {
	t.Helper()
	for _, s := range of {
		for _, p := range pictures(t, testCase(t, s.model, s.gpu, s.batch, s.tp)) {
			all = append(all, picture{s.model + "-" + p.name, p.make})
		}
	}
	return append(all, picture{"gpus-sweep", func() (*Figure, error) { return compare(t) }})
}

// TestGolden holds every picture of a reviewed subject to the SVG in testdata; UPDATE_GOLDEN=1 writes
// them anew, and LOOK_AT=DIR writes PNGs to look at.
func TestGolden(t *testing.T) {
	for _, p := range allPictures(t, subjects()[:reviewed]) {
		t.Run(p.name, func(t *testing.T) {
			f, err := p.make()
			testkit.Must(t, err)
			got, err := f.SVG()
			testkit.Must(t, err)
			if again, _ := f.SVG(); again != got {
				t.Error("a second drawing differs from the first")
			}
			if dir := os.Getenv("LOOK_AT"); dir != "" {
				look(t, f, filepath.Join(dir, p.name+".png"))
			}
			golden(t, p.name+".svg", []byte(got))
		})
	}
}

func look(t *testing.T, f *Figure, path string) {
	var b bytes.Buffer
	testkit.Must(t, f.Write(&b, "png"))
	testkit.Must(t, os.WriteFile(path, b.Bytes(), 0o644))
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if os.Getenv("UPDATE_GOLDEN") != "" {
		testkit.Must(t, os.WriteFile(path, got, 0o644))
		return
	}
	want, err := os.ReadFile(path)
	testkit.Must(t, err)
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs from the picture that was looked at; if it is meant to, make golden and look again", path)
	}
}
