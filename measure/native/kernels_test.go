package native

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"sync"
	"testing"

	"gonum.org/v1/gonum/floats"

	"llmprof/measure/native/cuda"
	"llmprof/measure/native/internal/emulate"
	"llmprof/models/safetensors"
)

// A bench has the kernels of one shape on a device, to run them one by one.
type bench struct {
	t   testing.TB
	dev *cuda.Device
	s   *cuda.Stream
	p   *program
	r   *rand.Rand
	f   safetensors.Format // of 16-bit values
}

// newBench compiles the kernels of a shape; more are further defines.
func newBench(t testing.TB, s *shape, more ...string) *bench {
	t.Helper()
	return newBenchLike(t, s, func(*cuda.Properties) {}, more...)
}

// newBenchLike does what newBench does on a GPU whose properties `like` has changed.
func newBenchLike(t testing.TB, s *shape, like func(*cuda.Properties), more ...string) *bench {
	t.Helper()
	folder := emulate.Device(t)
	b := &bench{t: t, f: s.float(), r: rand.New(rand.NewPCG(uint64(s.headDim), uint64(s.heads)))}
	var err error
	b.dev, err = cuda.Open(0, folder)
	b.noError(err)
	like(&b.dev.Properties)
	t.Cleanup(func() { b.noError(b.dev.Close()) })
	b.s, err = b.dev.NewStream()
	b.noError(err)
	c, err := cuda.OpenCompiler(folder)
	b.noError(err)
	rings := append(skinnyGEMMs(), quantizedGEMMs(s.quant)...)
	one, _ := opening.LoadOrStore(fmt.Sprint(defines(s, rings), more), &sync.Mutex{})
	one.(*sync.Mutex).Lock()
	defer one.(*sync.Mutex).Unlock()
	b.p, err = compile(b.dev, c, cuda.Cache{Folder: os.TempDir() + "/llmprof-test-kernels"}, s, rings, more...)
	b.noError(err)
	return b
}

func (b *bench) noError(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

// put copies v to the device.
func put[T cuda.Number](b *bench, v []T) cuda.Ptr {
	b.t.Helper()
	p := room[T](b, len(v))
	b.noError(cuda.Upload(b.dev, p, v))
	return p
}

// room allocates n values, which are NaN.
func room[T cuda.Number](b *bench, n int) cuda.Ptr {
	b.t.Helper()
	var zero T
	bytes := n * int(sizeOf(zero))
	p, err := b.dev.Alloc("a test", bytes)
	b.noError(err)
	b.noError(b.dev.Fill(p, 0xff, bytes))
	return p
}

func sizeOf[T cuda.Number](v T) uintptr {
	switch any(v).(type) {
	case uint8:
		return 1
	case uint16:
		return 2
	case uint64, int64, float64:
		return 8
	}
	return 4
}

// get copies n values from the device.
func get[T cuda.Number](b *bench, p cuda.Ptr, n int) []T {
	b.t.Helper()
	b.noError(b.s.Sync())
	out := make([]T, n)
	b.noError(cuda.Download(b.dev, out, p))
	return out
}

func (b *bench) run(k *cuda.Kernel, l cuda.Launch, args ...any) {
	b.t.Helper()
	b.noError(k.Queue(b.s, l, args...))
}

// normal returns n values of a normal distribution, rounded to the kernels' format, on the device
// and on the host.
func (b *bench) normal(n int, deviation float64) ([]uint16, []float64) {
	raw, v := make([]uint16, n), make([]float64, n)
	for i := range raw {
		raw[i] = b.f.Round(float32(b.r.NormFloat64() * deviation))
		v[i] = float64(b.f.Value(raw[i]))
	}
	return raw, v
}

func (b *bench) floats(n int, deviation float64) ([]float32, []float64) {
	raw, v := make([]float32, n), make([]float64, n)
	for i := range raw {
		raw[i] = float32(b.r.NormFloat64() * deviation)
		v[i] = float64(raw[i])
	}
	return raw, v
}

func (b *bench) toFloat(raw []uint16) []float64 {
	v := make([]float64, len(raw))
	for i := range raw {
		v[i] = float64(b.f.Value(raw[i]))
	}
	return v
}

// rounding is twice the greatest relative distance of two neighbouring values of the kernels'
// format, which bounds what rounding may do.
func (b *bench) rounding() float64 {
	if b.f == safetensors.Float16 {
		return 1.0 / 2048
	}
	return 1.0 / 256
}

// both runs a test of kernels in bf16 and in fp16, in parallel with other tests.
func both(t *testing.T, s shape, test func(b *bench)) {
	for name, fp16 := range map[string]bool{"bf16": false, "fp16": true} {
		s := s
		s.fp16 = fp16
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if fp16 {
				emulate.Long(t)
			}
			test(newBench(t, &s))
		})
	}
}

// near checks that each value of got is within limit of want, relative to the largest value.
func near[T float32 | float64](t testing.TB, what string, got []T, want []float64, limit float64) {
	t.Helper()
	top := 0.0
	for _, v := range want {
		top = max(top, math.Abs(v))
	}
	if len(got) != len(want) {
		t.Fatalf("%s: %d values, want %d", what, len(got), len(want))
	}
	for i := range want {
		if d := math.Abs(float64(got[i]) - want[i]); !(d <= limit*top) {
			t.Fatalf("%s: value %d is %v, want %v (the largest is %v)", what, i, got[i], want[i], top)
		}
	}
}

func silu(v float64) float64 { return v / (1 + math.Exp(-v)) }

// dot is the product of a row of w [][k] and a row of x [][k].
func dot(w, x []float64, i, j, k int) float64 { return floats.Dot(w[i*k:(i+1)*k], x[j*k:(j+1)*k]) }

var plain = shape{heads: 4, kvHeads: 1, headDim: 64}

// The test runs the GEMMs of decoding for each ring, at batches that fill it and that do not, with
// rows that end within a tile and inputs that end within a stage.
func TestKernelSkinnyGEMM(t *testing.T) {
	t.Parallel()
	both(t, plain, (*bench).skinny)
}

// cuts has numbers of parts of split-K; 0 stands for one part on few blocks.
func cuts() []int {
	if underTool() {
		return []int{3, 0}
	}
	return []int{1, 3, 0}
}

func (b *bench) skinny() {
	for i := range b.p.gemms {
		l := &b.p.gemms[i]
		least := 1
		if i > 0 {
			least = b.p.gemms[i-1].rows + 1
		}
		for _, c := range []struct{ batch, n, k int }{
			{l.rows, 16, 64}, {least, 80, 192}, {(l.rows + least) / 2, 208, 704}, {l.rows, 48, 1088}, {least, 1000, 128},
		} {
			for _, parts := range cuts() {
				b.scores(l, c.batch, c.n-3, c.k, parts) // a vocabulary may have any size
				b.residual(l, c.batch, c.n/16*16, c.k, parts)
				b.swiglu(l, c.batch, c.n, c.k, parts)
			}
		}
	}
}

// squares returns the sums of squares that the previous kernel leaves for the norm: rows·k values,
// of which only the sum of each 16 matters.
func (b *bench) squares(x []float64, k int) (raw []float32, scale []float64) {
	for i := 0; i < len(x); i += k {
		total := 0.0
		for at := i; at < i+k; at += 16 {
			ss := 0.0
			for _, v := range x[at : at+16] {
				ss += v * v
			}
			raw, total = append(raw, float32(ss)), total+ss
		}
		scale = append(scale, 1/math.Sqrt(total/float64(k)+1e-5))
	}
	return raw, scale
}

// gemm runs a GEMM with n rows of results, whose tiles are split along k into so many parts, or
// into as many as there are stages.
func (b *bench) gemm(l *gemmKernels, kernel *cuda.Kernel, u epilogue, n, k, parts int, args ...any) {
	b.t.Helper()
	c := l.splitKFor(n, k, u, 1)
	c.parts = max(1, min(parts, (k+l.depth-1)/l.depth))
	args = append(args, int32(c.parts), room[uint8](b, c.tiles*c.parts*l.sums()), put(b, make([]uint32, c.tiles)))
	sms := b.dev.SMs
	if parts != 1 { // each block has several tiles
		sms = 3
	}
	b.run(kernel, l.launch(c, sms, l.of(u)), args...)
}

func (b *bench) scores(l *gemmKernels, batch, n, k, parts int) {
	w, ws := b.normal(n*k, 0.05)
	x, xs := b.normal(batch*k, 2)
	sq, scale := b.squares(xs, k)
	y := room[float32](b, batch*n)
	b.gemm(l, l.normGEMM, storeEpilogue, n, k, parts, put(b, w), put(b, x), int32(n), int32(k), int32(batch), float32(1e-5),
		put(b, sq), y, cuda.Ptr(0), cuda.Ptr(0), cuda.Ptr(0))
	want := make([]float64, batch*n)
	for s := range batch {
		for o := range n {
			want[s*n+o] = dot(ws, xs, o, s, k) * scale[s]
		}
	}
	near(b.t, fmt.Sprintf("scores %d of %dx%dx%d", l.rows, batch, n, k), get[float32](b, y, batch*n), want, 1e-5)
}

func (b *bench) residual(l *gemmKernels, batch, n, k, parts int) {
	w, ws := b.normal(n*k, 0.05)
	x, xs := b.normal(batch*k, 2)
	stream, old := b.floats(batch*n, 1)
	norm, g := b.normal(n, 1)
	y, h, sums := put(b, stream), room[uint16](b, batch*n), room[float32](b, batch*n/16)
	b.gemm(l, l.residualGEMM, residualEpilogue, n, k, parts, put(b, w), put(b, x), int32(n), int32(k), int32(batch), float32(1e-5),
		cuda.Ptr(0), y, h, sums, put(b, norm))
	want, normed, squares := make([]float64, batch*n), make([]float64, batch*n), make([]float64, batch*n/16)
	for s := range batch {
		for o := range n {
			v := old[s*n+o] + dot(ws, xs, o, s, k)
			want[s*n+o], normed[s*n+o] = v, v*g[o]
			squares[(s*n+o)/16] += v * v
		}
	}
	what := fmt.Sprintf("residual %d of %dx%dx%d", l.rows, batch, n, k)
	near(b.t, what, get[float32](b, y, batch*n), want, 1e-5)
	near(b.t, what+", normed", b.toFloat(get[uint16](b, h, batch*n)), normed, b.rounding())
	near(b.t, what+", squares", get[float32](b, sums, batch*n/16), squares, 1e-5)
}

func (b *bench) swiglu(l *gemmKernels, batch, n, k, parts int) {
	w, ws := b.normal(2*n*k, 0.05)
	x, xs := b.normal(batch*k, 2)
	sq, scale := b.squares(xs, k)
	h := room[uint16](b, batch*n)
	b.gemm(l, l.swigluGEMM, swigluEpilogue, n, k, parts, put(b, w), put(b, x), int32(n), int32(k), int32(batch), float32(1e-5),
		put(b, sq), cuda.Ptr(0), h, cuda.Ptr(0), cuda.Ptr(0))
	want := make([]float64, batch*n)
	for s := range batch {
		for o := range n {
			want[s*n+o] = silu(dot(ws, xs, o, s, k)*scale[s]) * dot(ws, xs, n+o, s, k) * scale[s]
		}
	}
	near(b.t, fmt.Sprintf("swiglu %d of %dx%dx%d", l.rows, batch, n, k), b.toFloat(get[uint16](b, h, batch*n)), want, b.rounding())
}

// The test runs the elementwise kernels.
func TestKernelElementwise(t *testing.T) {
	t.Parallel()
	both(t, plain, (*bench).elementwise)
}

func (b *bench) elementwise() {
	t := b.t
	const rows, hidden, vocab = 5, 192, 11
	table, tv := b.normal(vocab*hidden, 1)
	norm, g := b.normal(hidden, 1)
	tokens := []int32{0, 10, 3, 3, 7}
	for _, threads := range []int{256, 1024} {
		x, xn, sq := room[float32](b, rows*hidden), room[uint16](b, rows*hidden), room[float32](b, rows*hidden/16)
		if threads == 256 {
			b.run(b.p.embedding, cuda.Launch{Grid: cuda.Dim{X: rows}, Block: cuda.Dim{X: threads}}, put(b, tokens), put(b, table), x, int32(hidden),
				cuda.Ptr(0), cuda.Ptr(0), cuda.Ptr(0))
		} else {
			b.run(b.p.embedding, cuda.Launch{Grid: cuda.Dim{X: rows}, Block: cuda.Dim{X: threads}}, put(b, tokens), put(b, table), x, int32(hidden),
				xn, sq, put(b, norm))
		}
		want, normed, squares := make([]float64, rows*hidden), make([]float64, rows*hidden), make([]float64, rows*hidden/16)
		for i := range want {
			v := tv[int(tokens[i/hidden])*hidden+i%hidden]
			want[i], normed[i] = v, v*g[i%hidden]
			squares[i/16] += v * v
		}
		near(t, "embedding", get[float32](b, x, rows*hidden), want, 0)
		if threads == 1024 {
			near(t, "embedding, normed", b.toFloat(get[uint16](b, xn, rows*hidden)), normed, b.rounding())
			near(t, "embedding, squares", get[float32](b, sq, rows*hidden/16), squares, 1e-6)
		}
	}

	const stride, first = 3, 2 // the last of each three rows
	x, xs := b.floats(rows*stride*hidden, 3)
	y := room[uint16](b, rows*hidden)
	b.run(b.p.rmsNorm, cuda.Launch{Grid: cuda.Dim{X: rows}, Block: cuda.Dim{X: 256}}, put(b, x), put(b, norm), y, int32(hidden), float32(1e-5),
		uint64(stride), uint64(first))
	var want []float64
	for r := range rows {
		row := xs[(first+r*stride)*hidden:][:hidden]
		_, scale := b.squares(row, hidden)
		for i, v := range row {
			want = append(want, v*scale[0]*g[i])
		}
	}
	near(t, "norm", b.toFloat(get[uint16](b, y, rows*hidden)), want, b.rounding())

	const width = 1088
	in, ins := b.normal(rows*2*width, 3)
	out := room[uint16](b, rows*width)
	b.run(b.p.activation, cuda.Launch{Grid: cuda.Dim{X: (width/8 + 127) / 128, Y: rows}, Block: cuda.Dim{X: 128}}, put(b, in), out,
		int32(width))
	want = make([]float64, rows*width)
	for i := range want {
		r, c := i/width, i%width
		want[i] = silu(ins[r*2*width+c]) * ins[r*2*width+width+c]
	}
	near(t, "activation", b.toFloat(get[uint16](b, out, rows*width)), want, b.rounding())
}

// The greedy choice takes the lowest index among equal scores of any sign, at sizes that no block
// divides. It leaves its counters as it found them.
func TestKernelSampling(t *testing.T) {
	b := newBench(t, &plain)
	for _, vocab := range []int{1, 31, 1001, 16385, 70000} {
		const batch = 4
		logits, _ := b.floats(batch*vocab, 1)
		want := make([]int32, batch)
		for s := range batch {
			row := logits[s*vocab:][:vocab]
			at := b.r.IntN(vocab)
			switch s {
			case 0: // a tie: the first has to win
				row[at], row[vocab-1], row[at/2] = 9, 9, 9
			case 1: // all below zero
				for i := range row {
					row[i] = -1 - row[i]*row[i]
				}
			case 2: // all but one impossible
				for i := range row {
					row[i] = float32(math.Inf(-1))
				}
				row[at] = -1e30
			}
			want[s] = argmax(row)
		}
		best, arrived := put(b, make([]uint64, batch)), put(b, make([]uint32, batch))
		next, nextHost, positions := room[int32](b, batch), room[int32](b, batch), put(b, []int32{5, 0, 7, 9})
		b.run(b.p.sampling, cuda.Launch{Grid: cuda.Dim{X: 64, Y: batch}, Block: cuda.Dim{X: 256}}, put(b, logits), int32(vocab), best, arrived,
			next, positions, nextHost)
		for _, at := range []cuda.Ptr{next, nextHost} {
			if got := get[int32](b, at, batch); fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("vocabulary of %d: tokens %d, want %d", vocab, got, want)
			}
		}
		if got := get[int32](b, positions, batch); fmt.Sprint(got) != "[6 1 8 10]" {
			t.Errorf("positions %d", got)
		}
		if got := fmt.Sprint(get[uint64](b, best, batch), get[uint32](b, arrived, batch)); got != "[0 0 0 0] [0 0 0 0]" {
			t.Errorf("counters %s are not 0 again", got)
		}
	}
}

// Random weights equal, to the bit, the published rule.
func TestKernelRandom(t *testing.T) {
	t.Parallel()
	both(t, plain, (*bench).random)
}

func (b *bench) random() {
	t := b.t
	const n = 70001
	out, ones := room[uint16](b, n+8), room[uint16](b, 1000)
	l := cuda.Launch{Grid: cuda.Dim{X: 20}, Block: cuda.Dim{X: 256}}
	b.run(b.p.fillRandom, l, out, uint64(n), uint64(0xfeedfacecafebeef), randomScale)
	b.run(b.p.fillConstant, l, ones, uint64(999), float32(1))
	got := get[uint16](b, out, n+8)
	for i, v := range got {
		if i < n && float64(b.f.Value(v)) != randomWeight(b.f, 0xfeedfacecafebeef, uint64(i), randomScale) || i >= n && v != 0xffff {
			t.Fatalf("element %d of %d is %v", i, n, b.f.Value(v))
		}
	}
	for i, v := range get[uint16](b, ones, 1000) {
		if i < 999 && v != b.f.Round(1) || i == 999 && v != 0xffff {
			t.Fatalf("constant %d is %#x", i, v)
		}
	}
}
