package calibrate

import (
	"math"
	"math/rand/v2"
	"testing"

	"llmprof/analytic/engine"
	"llmprof/hardware"
	"llmprof/internal/testkit"
	"llmprof/roofline"
	"llmprof/unit"
)

// Rates of an H200 in bytes and FLOPs a second, for the times that are computed by hand.
const (
	h200Peak      = 989.4e12 // bf16
	h200Bandwidth = 4.8e12
	h200Link      = 450e9
)

// ofH200 is the law of kernels on an H200 whose other constants are its generation's.
func ofH200(t *testing.T, keys ...roofline.Constant) equation {
	t.Helper()
	g := board(t, "h200")
	peaks, err := g.Peaks()
	if err != nil {
		t.Fatal(err)
	}
	return byLaw(peaks, hardware.DefaultCalibration(g).Constants, keys...)
}

// timed is a sample of a point that takes so many seconds.
func timed(t *testing.T, p *Point, skinny int, seconds float64) sample {
	t.Helper()
	p.DType = unit.BF16
	p.Ranks = max(p.Ranks, 1)
	return sample{time: seconds, kernel: p.kernel(board(t, "h200"), skinny)}
}

// gemmOfH200 is the law of products, and its constants.
func gemmOfH200(t *testing.T) equation {
	t.Helper()
	return ofH200(t, roofline.GEMMCompute, roofline.GEMMMemory, roofline.GEMMFixed)
}

// products are samples of the shapes of Plan at known constants: share of the peak,
// share of the bandwidth, fixed time.
func products(t *testing.T, truth []float64, noise float64, outliers int, random *rand.Rand) []sample {
	t.Helper()
	var all []sample
	for _, nk := range [][2]int{{6144, 4096}, {4096, 4096}, {28672, 4096}, {4096, 14336}, {128256, 4096}, {2048, 2048}, {16384, 2048}} {
		for _, m := range []int{1, 2, 8, 32, 128, 512, 1024, 2048, 8192} {
			x, n, k := float64(m), float64(nk[0]), float64(nk[1])
			seconds := truth[2] + max(2*x*n*k/(truth[0]*h200Peak), 2*(n*k+x*k+x*n)/(truth[1]*h200Bandwidth))
			all = append(all, timed(t, &Point{Kind: GEMM, Shape: Shape{M: m, N: nk[0], K: nk[1]}}, 0, seconds*math.Exp(noise*random.NormFloat64())))
		}
	}
	for range outliers {
		all[random.IntN(len(all))].time *= 3 // something else ran
	}
	return all
}

// TestFitRecovers checks that known constants are found again: exactly without noise, and with noise and
// outliers as often within the stated interval as an interval of 95 % should.
func TestFitRecovers(t *testing.T) {
	truth := []float64{0.73, 0.86, 4.4e-6}
	start := []float64{0.8, 0.8, 3e-6}
	e := gemmOfH200(t)
	runs := testkit.Cases(1, 8)
	for _, c := range []struct {
		name     string
		noise    float64
		outliers int
		within   float64
	}{{"exact", 0, 0, 1e-4}, {"noisy", 0.03, 0, 0.04}, {"disturbed", 0.03, 5, 0.05}} {
		inside, all := 0, 0
		for run := range runs {
			f := solve(e, products(t, truth, c.noise, c.outliers, rand.New(rand.NewPCG(uint64(run), 1))), start)
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
		if share := float64(inside) / float64(all); share < 0.85 && runs == 8 { // few runs say little of a share
			t.Errorf("%s: %.0f %% of the constants are inside of their intervals", c.name, 100*share)
		} else {
			t.Logf("%s: %.0f %% of the constants are inside of their intervals", c.name, 100*share)
		}
	}
}

// TestFitIsDeterministic checks that the same rows give the same constants and intervals.
func TestFitIsDeterministic(t *testing.T) {
	e := gemmOfH200(t)
	samples := products(t, []float64{0.7, 0.8, 4e-6}, 0.05, 3, rand.New(rand.NewPCG(4, 4)))
	a := solve(e, samples, []float64{0.8, 0.8, 3e-6})
	b := solve(e, samples, []float64{0.8, 0.8, 3e-6})
	for k := range a.keys {
		if a.value[k] != b.value[k] || a.half[k] != b.half[k] {
			t.Errorf("%s: %v ± %v and %v ± %v", a.keys[k], a.value[k], a.half[k], b.value[k], b.half[k])
		}
	}
}

// TestFitHolds checks that a constant on which no sample depends keeps its start value.
func TestFitHolds(t *testing.T) {
	var memoryBound []sample
	for _, s := range products(t, []float64{0.7, 0.8, 4e-6}, 0.02, 0, rand.New(rand.NewPCG(7, 7))) {
		if w := &s.kernel.Work; float64(w.FLOPs)/h200Peak < float64(w.Traffic())/h200Bandwidth/4 {
			memoryBound = append(memoryBound, s)
		}
	}
	f := solve(gemmOfH200(t), memoryBound, []float64{0.61, 0.9, 3e-6})
	if !f.held[0] || f.value[0] != 0.61 || f.half[0] != 0 || f.held[1] || f.held[2] {
		t.Errorf("%+v", f)
	}
	f = solve(gemmOfH200(t), memoryBound[:2], []float64{0.61, 0.9, 3e-6})
	if !f.held[0] || !f.held[1] || !f.held[2] {
		t.Errorf("two samples: %+v", f)
	}
}

// TestFitOfSkinnyGEMM checks that the fit separates the time of a row from the time of the weights.
func TestFitOfSkinnyGEMM(t *testing.T) {
	truth := []float64{0.92, 0.012, 3e-6}
	start := []float64{0.835, skinnyRow, 3.8e-6}
	e := ofH200(t, roofline.SkinnyGEMMMemory, roofline.SkinnyGEMMRow, roofline.SkinnyGEMMFixed)
	random := rand.New(rand.NewPCG(6, 6))
	var samples []sample
	for _, nk := range [][2]int{{768, 4096}, {2048, 2048}, {4096, 4096}, {6144, 4096}, {28672, 4096}, {4096, 14336}, {128256, 4096}} {
		for _, m := range []int{1, 4, 8, 16} {
			x, n, k := float64(m), float64(nk[0]), float64(nk[1])
			weights := 2 * n * k / h200Bandwidth
			seconds := truth[2] + (weights+2*x*(n+k)/h200Bandwidth)/truth[0] + x*truth[1]*weights
			samples = append(samples, timed(t, &Point{Kind: GEMM, Shape: Shape{M: m, N: nk[0], K: nk[1]}}, engine.SkinnyRows, seconds*math.Exp(
				0.01*random.NormFloat64())))
		}
	}
	f := solve(e, samples, start)
	for k, want := range truth {
		if off := math.Abs(f.value[k]/want - 1); f.held[k] || off > 0.1 {
			t.Errorf("%s is %v of %d samples, want %v", f.keys[k], f.value[k], f.n[k], want)
		}
	}
	few := solve(e, samples[:1], start)
	if !few.held[0] || !few.held[1] || !few.held[2] {
		t.Errorf("one sample: %+v", few)
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
	e := ofH200(t, roofline.AttentionCompute, roofline.AttentionMemory, roofline.AttentionFixed, roofline.AttentionRamp)
	truth := []float64{0.6, 0.9, 7e-6, 600}
	attention := func(flops, bytes float64) float64 {
		return (truth[2] + max(flops/(truth[0]*h200Peak), bytes/(truth[1]*h200Bandwidth))) * noise()
	}
	var all []sample
	for _, tokens := range []int{128, 256, 512, 1024, 2048, 4096, 8192, 16384} {
		n := float64(tokens)
		p := Point{Kind: AttentionPrefill, Shape: Shape{Tokens: tokens, Heads: 32, KVHeads: 8, HeadDim: 128}}
		all = append(all, timed(t, &p, 0, attention(8192*n*(n+1)+16384*n*truth[3]/2, 20480*n)))
		for _, batch := range []int{1, 8, 32} {
			b := float64(batch)
			p := Point{Kind: AttentionDecode, Shape: Shape{Batch: batch, Context: tokens, Heads: 32, KVHeads: 8, HeadDim: 128}}
			all = append(all, timed(t, &p, 0, attention(16384*n*b, 4096*n*b+16384*b)))
		}
	}
	f := solve(e, all, []float64{0.5, 0.8, 12e-6, 768})
	near(f, truth, 0.1)

	e = ofH200(t, roofline.LinkShare, roofline.LinkBase, roofline.LinkPerGPU)
	truth = []float64{0.62, 5e-6, 1.5e-6}
	all = nil
	for _, ranks := range []int{2, 4, 8} {
		for size := 1024; size < 2e9; size *= 4 {
			n := float64(ranks)
			seconds := truth[1] + n*truth[2] + 2*(n-1)/n*float64(size)/(truth[0]*h200Link)
			all = append(all, timed(t, &Point{Kind: AllReduce, Shape: Shape{Bytes: size}, Ranks: ranks}, 0, seconds*noise()))
		}
	}
	f = solve(e, all, []float64{0.5, 3e-6, 2e-6})
	near(f, truth, 0.1)
}

// TestHeldOutOfNone checks that a constant that bounds no sample any more has the
// errors of all.
func TestHeldOutOfNone(t *testing.T) {
	// 0.1 s and 1 s at the peaks.
	k := roofline.Kernel{Format: unit.BF16, Launches: 1, Count: 1, Work: roofline.Work{FLOPs: 0.1 * h200Peak, Acts: h200Bandwidth}}
	f := &fit{equation: gemmOfH200(t), value: []float64{1, 0.5, 1e-9}, samples: []sample{{time: 2, kernel: k}, {time: 1, kernel: k}}}
	f.leaveOut()
	if got := f.boundBy(0, bearing); len(got) != 2 || math.Abs(got[1]-1) > 1e-6 {
		t.Errorf("%v", got)
	}
	if got := f.boundBy(1, bearing); len(got) != 2 {
		t.Errorf("%v", got)
	}
}
