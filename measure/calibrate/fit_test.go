package calibrate

import (
	"math"
	"math/rand/v2"
	"testing"
)

// products are samples of the shapes of Plan at known constants.
func products(truth []float64, noise float64, outliers int, random *rand.Rand) []sample {
	e := kernel("gemm.compute", "gemm.memory", "gemm.fixed")
	parts := make([]float64, 3)
	var all []sample
	for _, nk := range [][2]float64{{6144, 4096}, {4096, 4096}, {28672, 4096}, {4096, 14336}, {128256, 4096}, {2048, 2048}, {16384, 2048}} {
		for _, m := range []float64{1, 2, 8, 32, 128, 512, 1024, 2048, 8192} {
			n, k := nk[0], nk[1]
			s := sample{compute: 2 * m * n * k / 989.4e12, memory: 2 * (n*k + m*k + m*n) / 4.8e12}
			s.time = e.parts(truth, &s, parts) * math.Exp(noise*random.NormFloat64())
			all = append(all, s)
		}
	}
	for range outliers {
		all[random.IntN(len(all))].time *= 3 // something else ran
	}
	return all
}

// Known constants are found again: exactly without noise, and with noise and
// outliers as often within the stated interval as an interval of 95 % should.
func TestFitRecovers(t *testing.T) {
	truth := []float64{0.73, 0.86, 4.4e-6}
	start := []float64{0.8, 0.8, 3e-6}
	e := kernel("gemm.compute", "gemm.memory", "gemm.fixed")
	for _, c := range []struct {
		name     string
		noise    float64
		outliers int
		within   float64
	}{{"exact", 0, 0, 1e-4}, {"noisy", 0.03, 0, 0.04}, {"disturbed", 0.03, 5, 0.05}} {
		inside, all := 0, 0
		for run := range 8 {
			f, err := solve(e, products(truth, c.noise, c.outliers, rand.New(rand.NewPCG(uint64(run), 1))), start)
			if err != nil {
				t.Fatal(err)
			}
			for k, want := range truth {
				off := math.Abs(f.value[k] - want)
				if f.held[k] || f.n[k] < least || off > c.within*want {
					t.Errorf("%s, run %d: %s is %v (%d samples), want %v", c.name, run, e.keys[k], f.value[k], f.n[k], want)
				}
				if all++; off <= max(f.half[k], c.within*want/10) {
					inside++
				}
			}
		}
		if share := float64(inside) / float64(all); share < 0.85 {
			t.Errorf("%s: %.0f %% of the constants are inside of their intervals", c.name, 100*share)
		} else {
			t.Logf("%s: %.0f %% of the constants are inside of their intervals", c.name, 100*share)
		}
	}
}

// The same rows give the same constants and intervals.
func TestFitIsDeterministic(t *testing.T) {
	e := kernel("gemm.compute", "gemm.memory", "gemm.fixed")
	samples := products([]float64{0.7, 0.8, 4e-6}, 0.05, 3, rand.New(rand.NewPCG(4, 4)))
	a, err := solve(e, samples, []float64{0.8, 0.8, 3e-6})
	if err != nil {
		t.Fatal(err)
	}
	b, err := solve(e, samples, []float64{0.8, 0.8, 3e-6})
	if err != nil {
		t.Fatal(err)
	}
	for k := range a.keys {
		if a.value[k] != b.value[k] || a.half[k] != b.half[k] {
			t.Errorf("%s: %v ± %v and %v ± %v", a.keys[k], a.value[k], a.half[k], b.value[k], b.half[k])
		}
	}
}

// A constant that no sample tells anything of stays where it was.
func TestFitHolds(t *testing.T) {
	var memoryBound []sample
	for _, s := range products([]float64{0.7, 0.8, 4e-6}, 0.02, 0, rand.New(rand.NewPCG(7, 7))) {
		if s.compute < s.memory/4 {
			memoryBound = append(memoryBound, s)
		}
	}
	f, err := solve(kernel("gemm.compute", "gemm.memory", "gemm.fixed"), memoryBound, []float64{0.61, 0.9, 3e-6})
	if err != nil {
		t.Fatal(err)
	}
	if !f.held[0] || f.value[0] != 0.61 || f.half[0] != 0 || f.held[1] || f.held[2] {
		t.Errorf("%+v", f)
	}
	f, err = solve(kernel("gemm.compute", "gemm.memory", "gemm.fixed"), memoryBound[:2], []float64{0.61, 0.9, 3e-6})
	if err != nil || !f.held[0] || !f.held[1] || !f.held[2] {
		t.Errorf("two samples: %+v, %v", f, err)
	}
}

// What a row adds is told apart from what the weights take.
func TestFitOfOwnProducts(t *testing.T) {
	truth := []float64{0.92, 0.012, 3e-6}
	e := streamed("own.memory", "own.row", "own.fixed")
	parts := make([]float64, 3)
	random := rand.New(rand.NewPCG(6, 6))
	var samples []sample
	for _, nk := range [][2]float64{{768, 4096}, {2048, 2048}, {4096, 4096}, {6144, 4096}, {28672, 4096}, {4096, 14336}, {128256, 4096}} {
		for _, m := range []float64{1, 4, 8, 16} {
			s := sample{memory: 2 * nk[0] * nk[1] / 4.8e12, rows: m}
			s.time = e.parts(truth, &s, parts) * math.Exp(0.01*random.NormFloat64())
			samples = append(samples, s)
		}
	}
	f, err := solve(e, samples, []float64{0.835, ownRow, 3.8e-6})
	if err != nil {
		t.Fatal(err)
	}
	for k, want := range truth {
		if off := math.Abs(f.value[k]/want - 1); f.held[k] || off > 0.1 {
			t.Errorf("%s is %v of %d samples, want %v", f.keys[k], f.value[k], f.n[k], want)
		}
	}
	few, err := solve(e, samples[:1], []float64{0.835, ownRow, 3.8e-6})
	if err != nil || !few.held[0] || !few.held[1] || !few.held[2] {
		t.Errorf("one sample: %+v, %v", few, err)
	}
}

func TestFitOfAttentionAndLink(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 3))
	noise := func() float64 { return math.Exp(0.02 * random.NormFloat64()) }
	near := func(f *fit, truth []float64, within float64) {
		t.Helper()
		for k, want := range truth {
			if math.Abs(f.value[k]-want) > within*want {
				t.Errorf("%s is %v, want %v", f.keys[k], f.value[k], want)
			}
		}
	}
	e := kernel("attention.compute", "attention.memory", "attention.fixed", "attention.ramp")
	truth := []float64{0.6, 0.9, 7e-6, 600}
	parts := make([]float64, 4)
	var all []sample
	for _, n := range []float64{128, 256, 512, 1024, 2048, 4096, 8192, 16384} {
		s := sample{compute: 8192 * n * (n + 1) / 989.4e12, perKey: 16384 * n / 989.4e12, memory: 20480 * n / 4.8e12}
		s.time = e.parts(truth, &s, parts) * noise()
		all = append(all, s)
		for _, b := range []float64{1, 8, 32} {
			d := sample{compute: 16384 * n * b / 989.4e12, memory: 4096 * n * b / 4.8e12}
			d.time = e.parts(truth, &d, parts) * noise()
			all = append(all, d)
		}
	}
	f, err := solve(e, all, []float64{0.5, 0.8, 12e-6, 768})
	if err != nil {
		t.Fatal(err)
	}
	near(f, truth, 0.1)

	e = allReduce("link.share", "link.base", "link.per_gpu")
	truth = []float64{0.62, 5e-6, 1.5e-6}
	all = nil
	for _, n := range []float64{2, 4, 8} {
		for size := 1e3; size < 2e9; size *= 4 {
			s := sample{wire: 2 * (n - 1) / n * size / 450e9, ranks: n}
			s.time = e.parts(truth, &s, parts) * noise()
			all = append(all, s)
		}
	}
	if f, err = solve(e, all, []float64{0.5, 3e-6, 2e-6}); err != nil {
		t.Fatal(err)
	}
	near(f, truth, 0.1)
}

// A constant that bounds no sample any more has the errors of all.
func TestHeldOutOfNone(t *testing.T) {
	f := &fit{
		equation: kernel("gemm.compute", "gemm.memory", "gemm.fixed"), value: []float64{1, 0.5, 1e-9},
		samples: []sample{{time: 2, compute: 0.1, memory: 1}, {time: 1, compute: 0.1, memory: 1}},
	}
	if got := f.heldOut(0); len(got) != 2 || math.Abs(got[1]-1) > 1e-6 {
		t.Errorf("%v", got)
	}
	if got := f.heldOut(1); len(got) != 2 {
		t.Errorf("%v", got)
	}
}
