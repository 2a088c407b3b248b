package native

import (
	"fmt"
	"strings"
	"testing"

	"llmprof/analytic/operator"
	"llmprof/measure/native/cuda"
	"llmprof/measure/native/internal/emulate"
)

// The test lists the models and batches that have wgmma GEMMs. A ring has at least two stages for
// any size, and a block that adds to the stream fits beside any other on a multiprocessor.
func TestWgmmaGEMMs(t *testing.T) {
	llama := shape{ranks: 1, heads: 32, kvHeads: 8, headDim: 128, hidden: 4096, inner: 14336, tokens: 128256}
	got := wgmmaGEMMs(&llama, 32, 132)[0].wgmma
	want := wgmmaRings{ // those that were fastest on an H200
		norm:     wgmmaRing{units: 6, stages: 3, span: 2, cluster: 2, norms: true},
		head:     wgmmaRing{units: 14, stages: 3, span: 1, cluster: 1, norms: true},
		swiglu:   wgmmaRing{units: 14, stages: 6, span: 1, cluster: 1, exclusive: true},
		residual: wgmmaRing{units: 4, stages: 4, span: 2, cluster: 2, exclusive: true},
	}
	if got != want {
		t.Errorf("llama3.1-8b: %+v, want %+v", got, want)
	}
	half := shape{ranks: 2, heads: 16, kvHeads: 4, headDim: 128, hidden: 4096, inner: 7168, tokens: 64128}
	want = wgmmaRings{
		norm:     wgmmaRing{units: 4, stages: 4, span: 2, cluster: 2, norms: true},
		head:     wgmmaRing{units: 12, stages: 3, span: 1, cluster: 1, norms: true},
		swiglu:   wgmmaRing{units: 8, stages: 5, span: 1, cluster: 1},
		residual: wgmmaRing{units: 4, stages: 4, span: 2, cluster: 2, exclusive: true},
	}
	if got := wgmmaGEMMs(&half, 32, 132)[0].wgmma; got != want {
		t.Errorf("half of llama3.1-8b: %+v, want %+v", got, want)
	}
	for what, change := range map[string]func(*shape){
		"output norm": func(s *shape) { s.outputNorm = true }, "experts": func(s *shape) { s.experts = 8 },
		"quantized": func(s *shape) { s.quant = FP8 }, "width": func(s *shape) { s.inner += 32 },
	} {
		s := llama
		if change(&s); wgmmaGEMMs(&s, 32, 132) != nil {
			t.Errorf("%s: it has wgmma GEMMs", what)
		}
	}
	if wgmmaGEMMs(&llama, 16, 132) != nil || wgmmaGEMMs(&llama, 65, 132) != nil {
		t.Error("there are wgmma GEMMs of 16 or 65 sequences")
	}
	for _, sms := range []int{6, 78, 114, 132, 1 << 10} { // the last have fewer rows than there are blocks
		for _, heads := range []int{1, 8, 32, 64} {
			for _, batch := range []int{17, 64} {
				s := shape{ranks: 1, heads: heads, kvHeads: heads, headDim: 128, hidden: 128 * heads, inner: 448 * heads, tokens: 32000}
				l := wgmmaGEMMs(&s, batch, sms)[0]
				most := func(r *wgmmaRing) int { return r.launch(l.rows, sms).Shared - 1024 + r.staticShared(l.rows) }
				for _, r := range []*wgmmaRing{&l.wgmma.norm, &l.wgmma.head, &l.wgmma.swiglu} {
					if r.units < 2 || r.units%2 != 0 || r.stages < 2 || l.wgmma.residual.stages < 2 ||
						most(r)+most(&l.wgmma.residual) > 228<<10 && (!r.exclusive || most(r) > 228<<10) {
						t.Errorf("%d heads, batch %d on %d: %+v beside %+v", heads, batch, sms, r, l.wgmma.residual)
					}
				}
			}
		}
	}
}

// wgmmaBench returns a bench with the GEMMs of gemm_wgmma.cu on a Hopper GPU, or on the emulated
// one as if it were Hopper's.
func wgmmaBench(t *testing.T, s *shape, shapes []gemmKernels) (*bench, []gemmKernels) {
	t.Helper()
	var more []string
	for i := range shapes {
		more = append(more, shapes[i].wgmmaDefines()...)
	}
	emulated := emulate.RealGPU() != nil
	if emulated {
		more = append(more, "__CUDA_ARCH_FEAT_SM90_ALL=1")
	}
	b := newBench(t, s, more...)
	if !emulated && b.dev.Major != 9 {
		t.Skipf("%s is not of Hopper's generation", b.dev.Name)
	}
	for i := range shapes {
		names := map[string]**cuda.Kernel{}
		shapes[i].names(s, names)
		for name, k := range names {
			var err error
			*k, err = b.p.module.Kernel(name)
			b.noError(err)
		}
		b.noError(shapes[i].countClusters())
		t.Logf("%+v", shapes[i].wgmma)
	}
	return b, shapes
}

// The test runs the wgmma GEMMs of batches of 17 to 64, as TestKernelSkinnyGEMM runs those of
// smaller batches.
func TestKernelWgmmaGEMM(t *testing.T) {
	sizes := []struct{ batch, n, k int }{{17, 16, 64}, {32, 208, 704}, {33, 80, 192}, {64, 1008, 320}}
	if !slow() {
		sizes = append(sizes, []struct{ batch, n, k int }{{32, 4096, 1024}, {64, 6144, 512}, {64, 512, 14336}, {48, 14336, 256}, {
			20, 32064, 128}}...)
	}
	for _, fp16 := range []bool{false, true} {
		t.Run(map[bool]string{false: "bf16", true: "fp16"}[fp16], func(t *testing.T) {
			t.Parallel()
			emulate.Long(t)
			b, shapes := wgmmaBench(t, &shape{heads: 4, kvHeads: 1, headDim: 64, fp16: fp16}, testedWgmma())
			for i := range shapes {
				l := &shapes[i]
				for _, c := range sizes {
					if c.batch > l.rows || c.batch <= l.rows/2 {
						continue
					}
					if !underTool() {
						b.wgmma(l, c.batch, c.n, c.k, b.dev.SMs)
					}
					if c.n <= 1008 {
						b.wgmma(l, c.batch, c.n, c.k, 8)
					}
				}
			}
		})
	}
}

// TestKernelWgmmaGEMMRanks runs the wgmma GEMMs of two ranks, which send their sums or leave
// them to an all-reduce.
func TestKernelWgmmaGEMMRanks(t *testing.T) {
	emulate.Long(t)
	t.Parallel()
	sh := shape{ranks: 2, heads: 4, kvHeads: 1, headDim: 64}
	half := shape{ranks: 2, heads: 16, kvHeads: 4, headDim: 128, hidden: 4096, inner: 7168, tokens: 64128}
	b, shapes := wgmmaBench(t, &sh, append(wgmmaGEMMs(&half, 17, 132), wgmmaGEMMs(&half, 64, 132)...))
	for i := range shapes {
		l := &shapes[i]
		for turn, c := range []struct{ batch, n, k, sms int }{{17, 16, 64, 8}, {32, 208, 704, b.dev.SMs}, {33, 80, 192, 8}, {64, 1008, 320, 8},
			{50, 512, 128, b.dev.SMs}} {
			if underTool() {
				c.sms = 8
			}
			if c.batch <= l.rows && c.batch > l.rows/2 {
				b.allReduce(l, c.batch, c.n, c.k, c.sms, uint32(turn), true)
				b.wgmma(l, c.batch, c.n, c.k, c.sms)
			}
		}
	}
}

// testedWgmma are the rings of llama3.1-8b for batches up to 32 and up to 64.
func testedWgmma() []gemmKernels {
	sh := shape{ranks: 1, heads: 32, kvHeads: 8, headDim: 128, hidden: 4096, inner: 14336, tokens: 128256}
	return append(wgmmaGEMMs(&sh, 17, 132), wgmmaGEMMs(&sh, 64, 132)...)
}

// parseWGMMA reads units/stages/cluster/span for the rings of the norm, head, SwiGLU and residual
// GEMMs, separated by "_". An empty entry leaves a ring as it is, and a "!" says that no two blocks
// fit on a multiprocessor.
func parseWGMMA(t *testing.T, w *wgmmaRings, text string) {
	t.Helper()
	if text == "" {
		return
	}
	for i, part := range strings.Split(text, "_") {
		r := []*wgmmaRing{&w.norm, &w.head, &w.swiglu, &w.residual}[i]
		if part == "" {
			continue
		}
		part, oneBlockPerSM := strings.CutSuffix(part, "!")
		f := strings.Split(part, "/")
		*r = wgmmaRing{units: number(t, f[0]), stages: number(t, f[1]), cluster: number(t, f[2]), span: number(t, f[3]), norms: r.norms,
			exclusive: oneBlockPerSM}
	}
}

// wgmmaError bounds the error of the sums relative to the largest sum. The tensor cores add all
// columns of a result to one float32, where gemm_skinny.cu has several warps for them. With 14336
// columns an H200 had an error of 1.2e-5.
const wgmmaError = 3e-5

// wgmma runs GEMMs of one size with every epilogue.
func (b *bench) wgmma(l *gemmKernels, batch, n, k, sms int) {
	b.t.Helper()
	run := func(kernel *cuda.Kernel, u epilogue, head bool, w, x cuda.Ptr, n int, more ...any) {
		b.t.Helper()
		r := l.wgmma.of(u, head)
		args, err := wgmmaTensorMaps(b.dev, r, l.rows, u, &gemmOperands{w: w, x: x, out: n, in: k}, batch)
		b.noError(err)
		args = append(args, int32(n), int32(k), int32(batch), float32(1e-5))
		b.run(kernel, r.launch(l.rows, sms), append(args, more...)...)
	}
	w, ws := b.normal(2*n*k, 0.05)
	x, xs := b.normal(batch*k, 2)
	sq, scale := b.squares(xs, k)
	dw, dx, dsq := put(b, w), put(b, x), put(b, sq)
	sums := make([]float64, batch*2*n)
	for s := range batch {
		for o := range 2 * n {
			sums[s*2*n+o] = dot(ws, xs, o, s, k)
		}
	}
	what := fmt.Sprintf("%d of %dx%dx%d on %d", l.rows, batch, n, k, sms)
	for head, kernel := range map[bool]*cuda.Kernel{false: l.normGEMM, true: l.headGEMM} {
		y := room[float32](b, batch*(n-3))
		run(kernel, storeEpilogue, head, dw, dx, n-3, dsq, y, cuda.Ptr(0), cuda.Ptr(0), cuda.Ptr(0))
		want := make([]float64, batch*(n-3))
		for i := range want {
			want[i] = sums[i/(n-3)*2*n+i%(n-3)] * scale[i/(n-3)]
		}
		near(b.t, fmt.Sprint("scores ", what, head), get[float32](b, y, len(want)), want, wgmmaError)
	}
	h := room[uint16](b, batch*n)
	run(l.swigluGEMM, swigluEpilogue, false, dw, dx, n, dsq, cuda.Ptr(0), h, cuda.Ptr(0), cuda.Ptr(0))
	want := make([]float64, batch*n)
	for i := range want {
		s, o := i/n, i%n
		want[i] = silu(sums[s*2*n+o]*scale[s]) * sums[s*2*n+n+o] * scale[s]
	}
	near(b.t, "swiglu "+what, b.toFloat(get[uint16](b, h, batch*n)), want, b.rounding())

	if l.plainGEMM != nil {
		y := room[float32](b, batch*n)
		run(l.plainGEMM, residualEpilogue, false, dw, dx, n, cuda.Ptr(0), y, cuda.Ptr(0), cuda.Ptr(0), cuda.Ptr(0))
		want := make([]float64, batch*n)
		for i := range want {
			want[i] = sums[i/n*2*n+i%n]
		}
		near(b.t, "plain "+what, get[float32](b, y, len(want)), want, wgmmaError)
		return
	}
	stream, old := b.floats(batch*n, 1)
	norm, g := b.normal(n, 1)
	y, squares := put(b, stream), room[float32](b, batch*n/16)
	h = room[uint16](b, batch*n)
	run(l.residualGEMM, residualEpilogue, false, dw, dx, n, cuda.Ptr(0), y, h, squares, put(b, norm))
	normed, totals := make([]float64, batch*n), make([]float64, batch*n/16)
	for i := range want {
		s, o := i/n, i%n
		v := old[i] + sums[s*2*n+o]
		want[i], normed[i] = v, v*g[o]
		totals[i/16] += v * v
	}
	near(b.t, "residual "+what, get[float32](b, y, len(want)), want, wgmmaError)
	near(b.t, "residual "+what+", normed", b.toFloat(get[uint16](b, h, len(want))), normed, b.rounding())
	near(b.t, "residual "+what+", squares", get[float32](b, squares, len(totals)), totals, 1e-4)
}

// asHopper treats the emulated GPU as one of Hopper's generation.
func asHopper(opt Options) Options {
	if emulate.RealGPU() != nil {
		opt.like = func(p *cuda.Properties) { p.Major, p.Minor = 9, 0 }
		opt.defines = []string{"__CUDA_ARCH_FEAT_SM90_ALL=1"}
	}
	return opt
}

// A decode step by wgmma GEMMs of a model that GPUs share agrees with the reference. Its GEMMs
// exchange their sums, or leave them to an all-reduce in one shot or in two.
func TestSharedWgmmaAgainstReference(t *testing.T) {
	emulate.Long(t)
	const never, always = 1, 1 << 30
	for name, config := range shareable() {
		for _, c := range []struct {
			tp, batch, oneShot int
			emulated           bool // the processor takes its time
		}{{2, 17, always, true}, {2, 64, always, false}, {2, 40, never, true}, {4, 33, always, true}, {4, 20, never, false}} {
			if name != "llama" && (name != "qwen3" || c.tp == 4) || emulate.RealGPU() != nil && (name != "llama" || !c.emulated) {
				continue // a quarter of the feed-forward of qwen3 is 160 wide
			}
			t.Run(fmt.Sprintf("%s/tp%d/%d/%d", name, c.tp, c.batch, c.oneShot), func(t *testing.T) {
				opt := asHopper(Options{TP: c.tp, Seed: 7, Workload: operator.Workload{Batch: c.batch, PromptLen: 3, GenLen: 4}, oneShot: c.oneShot})
				team := openShared(t, config, opt)
				e := team.Lead()
				if gemm := e.stepGEMM(); gemm == nil || !gemm.isWgmma() || e.opt.fusesAllReduce(&e.shape) != (c.oneShot == always) {
					t.Fatal("the engine has other products")
				}
				compareRun(t, team, opt, newReference(t, config, 7), opt.GenLen, func() error {
					return team.Each(func(_ int, e *Engine) error { return poison(e) })
				})
			})
		}
	}
}

// A decode step by wgmma GEMMs agrees with the reference.
func TestWgmmaAgainstReference(t *testing.T) {
	emulate.Device(t)
	opt := asHopper(Options{Seed: 7, Workload: operator.Workload{PromptLen: 5, GenLen: 3}})
	type variant struct {
		batch int
		fp16  bool
	}
	for name, config := range tiny() {
		if name != "llama" && name != "qwen2" && name != "qwen3" || name != "llama" && slow() {
			continue
		}
		for _, c := range []variant{{17, false}, {33, false}, {64, false}, {32, true}} {
			t.Run(fmt.Sprintf("%s/%d/%v", name, c.batch, c.fp16), func(t *testing.T) {
				t.Parallel()
				if c.batch != 17 {
					emulate.Long(t)
				}
				o := opt
				o.Batch, o.FP16 = c.batch, c.fp16
				e := open(t, config, o)
				if gemm := e.stepGEMM(); gemm == nil || !gemm.isWgmma() {
					t.Fatal("the engine has no wgmma GEMMs")
				}
				compare(t, e, referenceOf(t, config, o), 3)
			})
		}
	}
}
