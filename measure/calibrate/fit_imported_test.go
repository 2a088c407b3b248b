package calibrate

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"llmprof/analytic/engine"
	"llmprof/hardware"
	"llmprof/internal/testkit"
	"llmprof/roofline"
	"llmprof/unit"
)

// truth is what the rows of an invented table follow.
var truth = map[string]float64{
	"gemm.compute": 0.72, "gemm.memory": 0.84, "gemm.fixed": 4e-6, "gemm.depth": 1e-9, "gemm.exposed": 0.9,
	"gemm_fp8.compute": 0.61, "gemm_fp8.memory": 0.7, "gemm_fp8.fixed": 6e-6, "gemm_fp8.depth": 5e-10, "gemm_fp8.quantize": 3,
	"gemm_fp8.row": 2e-9, "gemm_fp8.exposed": 1.6,
	"gemm_fp8.tile_empty": 2, "gemm_fp8.tile_idle": 0.6,
	"attention.compute": 0.6, "attention.memory": 0.8, "attention.fixed": 8e-6, "attention.ramp": 500, "attention.tile": 3e-8,
	"latent_attention.compute": 0.5, "latent_attention.memory": 0.7, "latent_attention.fixed": 1.3e-5, "latent_attention.ramp": 300,
	"latent_attention.tile": 4e-8,
	"scan.compute":          0.1, "scan.memory": 0.5, "scan.fixed": 3e-6, "scan.chunk": 1.5e-6,
	"scan_step.memory": 0.85, "scan_step.fixed": 4e-6, "conv.memory": 0.5, "conv.fixed": 2.5e-6, "conv_step.memory": 0.6,
	"conv_step.fixed":      1.8e-6,
	"grouped_gemm.compute": 0.55, "grouped_gemm.memory": 0.75, "grouped_gemm.fixed": 1.5e-5, "grouped_gemm.permute": 4,
	"grouped_gemm.expert": 1e-6,
	"link.share":          0.7, "link.base": 5e-6, "link.per_gpu": 2e-6, "one_shot.share": 0.5, "one_shot.base": 4e-6,
	"one_shot.per_gpu": 2e-7,
}

// invented are rows of a table that follows truth.
func invented(t *testing.T, g *hardware.GPU) (rows []Row) {
	t.Helper()
	peaks, err := g.Peaks()
	if err != nil {
		t.Fatal(err)
	}
	c := hardware.DefaultCalibration(g).Constants
	for key, v := range truth {
		c[roofline.ConstantOf(key)] = v
	}
	m := roofline.NewMachine(peaks, &c)
	add := func(kind Kind, scheme roofline.Scheme, act unit.Format, s Shape, ranks int) {
		r := Row{Kind: kind, Shape: s, DType: act, Scheme: scheme, Ranks: ranks}
		p := r.Point()
		k := p.kernel(g, 0)
		engine.SetTile("vllm", g, &k)
		r.Median = float64(m.Cost(&k).Time)
		r.Seconds = []float64{r.Median}
		rows = append(rows, r)
	}
	for _, tokens := range []int{1, 8, 64, 256, 1024, 8192} {
		for _, n := range []int{256, 1024, 4096, 8192, 28672} {
			for _, k := range []int{512, 3000, 4096, 14336} {
				add(GEMM, roofline.Unquantized, unit.BF16, Shape{M: tokens, N: n, K: k}, 1)
				add(GEMM, roofline.FP8, unit.FP8, Shape{M: tokens, N: n, K: k}, 1)
				add(GEMM, roofline.FP8, unit.FP8, Shape{M: tokens + 1, N: n, K: k}, 1) // begins a tile
			}
		}
		for _, experts := range []int{8, 64, 128, 256} {
			for _, width := range []int{512, 768, 2048, 14336} {
				add(Mixture, roofline.Unquantized, unit.BF16, Shape{Tokens: tokens, Experts: experts, TopK: 4, Hidden: 4096, Width: width, EP: 1}, 1)
			}
		}
		for _, heads := range []int{8, 32, 64} {
			add(ScanPrefill, roofline.Unquantized, unit.BF16, Shape{Batch: 8, Tokens: 8 * tokens, Heads: heads, KVHeads: 8, HeadDim: 128}, 1)
			add(ScanPrefill, roofline.Unquantized, unit.BF16, Shape{Batch: 512, Tokens: tokens, Heads: heads, KVHeads: 8, HeadDim: 128}, 1)
			state := Shape{Batch: tokens, Heads: heads, KVHeads: 8, HeadDim: 128}
			add(ScanStep, roofline.Unquantized, unit.BF16, state, 1)
			add(ConvStep, roofline.Unquantized, unit.BF16, state, 1)
			add(ConvPrefill, roofline.Unquantized, unit.BF16, Shape{Batch: 4, Tokens: 2 * tokens, Heads: heads, KVHeads: 8, HeadDim: 128}, 1)
			add(LatentPrefill, roofline.Unquantized, unit.BF16, Shape{Batch: 2, Tokens: 16 * tokens, Heads: heads}, 1)
			for _, batch := range []int{1, 16, 256} {
				add(LatentDecode, roofline.Unquantized, unit.BF16, Shape{Batch: batch, Context: 8 * tokens, Heads: heads}, 1)
			}
			add(AttentionPrefill, roofline.Unquantized, unit.BF16, Shape{Batch: 2, Tokens: 16 * tokens, Heads: heads, KVHeads: 8, HeadDim: 128}, 1)
			for _, batch := range []int{1, 16, 256} {
				add(AttentionDecode, roofline.Unquantized, unit.BF16, Shape{Batch: batch, Context: 8 * tokens, Heads: heads, KVHeads: 8, HeadDim: 128},
					1)
			}
		}
		for _, ranks := range []int{2, 4, 8} {
			add(AllReduce, roofline.Unquantized, unit.BF16, Shape{Bytes: 8192 * tokens}, ranks)
			add(OneShot, roofline.Unquantized, unit.BF16, Shape{Bytes: 1024 * tokens}, ranks)
		}
	}
	return rows
}

// ofTables is a file of an engine before constants are fitted to invented tables.
func ofTables(t *testing.T, g *hardware.GPU, engine string) *hardware.CalibrationFile {
	t.Helper()
	f, err := hardware.NewCalibrationFile(g, unit.BF16)
	if err != nil {
		t.Fatal(err)
	}
	f.Name, f.Engine, f.Kernels, f.Device.Name, f.Version = "invented", engine, engine+" 0.24.0", "NVIDIA H200", "v0.1.0"
	f.Made = time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC)
	f.Tables = &hardware.Tables{Package: "invented", Version: "1", Licence: "Apache-2.0",
		Files: []hardware.TableFile{{Path: "gemm.csv", SHA256: strings.Repeat("0", 64), Rows: 1}}}
	return f
}

// TestFitImport finds the constants that rows were made with, in each scheme by itself,
// and writes a file that reads back.
func TestFitImport(t *testing.T) {
	g := board(t, "h200")
	f := ofTables(t, g, "vllm")
	testkit.Must(t, FitImport(f, g, invented(t, g), nil))
	for key, want := range truth {
		v := f.Values[key]
		if off := math.Abs(v.Value/want - 1); v.N > 0 && off > 0.1 || v.N == 0 && !strings.HasSuffix(key, "per_gpu") {
			t.Errorf("%s is %v (%s), want %v", key, v.Value, v.From, want)
		}
	}
	for _, section := range []string{"gemm", "gemm_fp8", "attention", "latent_attention", "scan", "scan_step", "conv", "conv_step",
		"grouped_gemm", "link", "one_shot"} {
		if o := f.Operators[section]; o.N == 0 || o.HeldOut == 0 || o.Median > 0.01 || o.Fitted > 0.01 {
			t.Errorf("%s: %+v", section, o)
		}
	}
	back, err := hardware.ParseCalibration("invented.toml", f.Text())
	if err != nil {
		t.Fatal(err)
	}
	if a, b := fmt.Sprint(*back.Tables, back.Operators["gemm"].N), fmt.Sprint(*f.Tables, f.Operators["gemm"].N); a != b ||
		back.Text() != f.Text() {
		t.Errorf("read back: %s, want %s", a, b)
	}
}

// TestImportedWork counts by hand.
func TestImportedWork(t *testing.T) {
	for _, x := range []struct {
		p    Point
		want roofline.Work
	}{
		{Point{Kind: GEMM, Scheme: roofline.FP8, DType: unit.FP8, Shape: Shape{M: 3, N: 5, K: 7}},
			roofline.Work{FLOPs: 210, Weights: 35, Acts: 3*7 + 2*3*5}},
		{Point{Kind: GEMM, Scheme: roofline.WeightINT4, DType: unit.BF16, Shape: Shape{M: 1, N: 128, K: 2}},
			roofline.Work{FLOPs: 512, Weights: 128 + 4, Acts: 4 + 256}},
		{Point{Kind: AttentionDecode, Scheme: roofline.FP8, DType: unit.BF16, Shape: Shape{
			Batch: 2, Context: 10, Heads: 4, KVHeads: 2, HeadDim: 8}},
			roofline.Work{FLOPs: 4 * 4 * 8 * 10 * 2, KV: 2 * 2 * 8 * 10 * 2, Acts: 2 * 2 * 4 * 8 * 2}},
		{Point{Kind: LatentDecode, Scheme: roofline.FP8, DType: unit.BF16, Shape: Shape{Batch: 2, Context: 10, Heads: 4}},
			roofline.Work{FLOPs: 2 * 4 * (576 + 512) * 20, KV: 576 * 20, Acts: 2 * 2 * 4 * (576 + 512)}},
		{Point{Kind: LatentPrefill, DType: unit.BF16, Shape: Shape{Batch: 1, Tokens: 3, Heads: 4}},
			roofline.Work{FLOPs: 2 * 4 * (192 + 128) * 6, KV: 2 * 576 * 3, Acts: 2 * 3 * 4 * (2*192 + 2*128)}},
		{Point{Kind: ScanPrefill, DType: unit.BF16, Shape: Shape{Batch: 2, Tokens: 128, Heads: 3, KVHeads: 1, HeadDim: 4}}, roofline.Work{
			FLOPs: 256 * (64*(4+12) + 4*3*4*4 + 2*64*12 + 64*64), State: 4 * 2 * 2 * 3 * 16, Acts: 2 * 256 * (2*12 + 2*4)}},
		{Point{Kind: ScanStep, DType: unit.BF16, Shape: Shape{Batch: 2, Heads: 3, KVHeads: 1, HeadDim: 4}},
			roofline.Work{State: 4 * 2 * 2 * 3 * 16, Acts: 2 * 2 * 4 * (2*3 + 2*1)}},
		{Point{Kind: ConvPrefill, DType: unit.BF16, Shape: Shape{Batch: 2, Tokens: 5, Heads: 3, KVHeads: 1, HeadDim: 4}},
			roofline.Work{Weights: 2 * 4 * 20, State: 2 * 2 * 2 * 3 * 20, Acts: 2 * 2 * 10 * 20}},
		{Point{Kind: Mixture, DType: unit.BF16, Shape: Shape{Tokens: 4, Experts: 8, TopK: 2, Hidden: 16, Width: 32, EP: 2}},
			roofline.Work{FLOPs: 2 * 4 * 3 * 16 * 32, Weights: 4 * 3 * 16 * 32 * 2}},
	} {
		if got := x.p.Work(); got != x.want {
			t.Errorf("%v: %+v, want %+v", x.p, got, x.want)
		}
	}
}

// TestUncached holds that GEMMs and decode attention that read what fits into the L2 cache are left out if a row of
// their table is faster than memory, and that no row is left out of a table whose buffers were cold.
func TestUncached(t *testing.T) {
	for kind, shapes := range map[Kind][]Shape{
		GEMM: { // weights of 34 and 235 MB
			{M: 1, N: 4096, K: 4096}, {M: 8192, N: 4096, K: 4096}, {M: 1, N: 28672, K: 4096}, {M: 8192, N: 28672, K: 4096},
		},
		AttentionDecode: { // caches of 17 and 268 MB
			{Batch: 1, Context: 4096, Heads: 32, KVHeads: 8, HeadDim: 128}, {Batch: 16, Context: 4096, Heads: 32, KVHeads: 8, HeadDim: 128},
		},
	} {
		t.Run(string(kind), func(t *testing.T) { uncached(t, kind, shapes) })
	}
}

// uncached expects all shapes but the first to be left of a table that is faster than memory.
func uncached(t *testing.T, kind Kind, shapes []Shape) {
	g := board(t, "l40s")
	peaks, err := g.Peaks()
	if err != nil {
		t.Fatal(err)
	}
	b := &builder{file: &hardware.CalibrationFile{}, gpu: g, peaks: peaks}
	samples := func(speed float64) (all []sample) {
		for _, shape := range shapes {
			s := b.sample(&Row{Kind: kind, Shape: shape, DType: unit.BF16, Ranks: 1})
			s.time = float64(s.kernel.Work.Traffic().Over(g.Bandwidth)) / speed
			all = append(all, s)
		}
		return all
	}
	if cold := b.uncached(samples(0.8), "rows"); len(cold) != len(shapes) || len(b.file.Notes) != 0 {
		t.Errorf("%d of %d cold rows are left, notes %q", len(cold), len(shapes), b.file.Notes)
	}
	if kind == GEMM { // Six copies of 34 MB exceed the cache of 96 MB; twice as many megabytes of weights than it has are not held either.
		known := samples(1.5)
		for i := range known {
			known[i].copies = 6
		}
		if cold := b.uncached(known, "rows"); len(cold) != len(shapes) || len(b.file.Notes) != 0 {
			t.Errorf("%d of %d rows of six copies are left, notes %q", len(cold), len(shapes), b.file.Notes)
		}
	}
	hot, want := b.uncached(samples(1.5), "rows"), samples(1.5)[1:]
	if len(hot) != len(want) || len(b.file.Notes) != 1 {
		t.Fatalf("%d rows are left, notes %q; want all but the first, and a note", len(hot), b.file.Notes)
	}
	for i := range hot {
		if hot[i].kernel.Shape != want[i].kernel.Shape {
			t.Errorf("row %+v is left for %+v", hot[i].kernel.Shape, want[i].kernel.Shape)
		}
	}
}

// TestCopies holds that GEMMs whose weights fit into the L2 cache in all their copies are left out though no row is faster than memory.
// TensorRT-LLM's tables have no more copies than fill the cache.
func TestCopies(t *testing.T) {
	g := board(t, "h200") // 50 MiB
	peaks, err := g.Peaks()
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		engine string
		n      int // outputs of 4096 inputs
		left   int
	}{{"vllm", 1024, 0}, {"vllm", 1152, 1}, {"tensorrt-llm", 1024, 0}, {"tensorrt-llm", 1408, 1}, {"tensorrt-llm", 3200, 0},
		{"tensorrt-llm", 5120, 1}} {
		b := &builder{file: &hardware.CalibrationFile{Engine: x.engine}, gpu: g, peaks: peaks}
		copies := 6
		if x.engine == "tensorrt-llm" {
			copies = 5
		}
		s := b.sample(&Row{Kind: GEMM, Shape: Shape{M: 8, N: x.n, K: 4096}, DType: unit.BF16, Ranks: 1, Copies: copies})
		s.time = 1e-3
		if left := b.uncached([]sample{s}, "rows"); len(left) != x.left {
			t.Errorf("%s, %d outputs: %d rows are left, want %d", x.engine, x.n, len(left), x.left)
		}
	}
}

// TestDrawing holds that GEMMs in 16 bits with weights of unknown values are left out where their calls last into the power limit: 36
// calls of 0.69 ms do not, before and while they are timed.
func TestDrawing(t *testing.T) {
	for _, x := range []struct {
		scheme roofline.Scheme
		random bool
		time   float64
		left   int
	}{{roofline.Unquantized, false, 0.69e-3, 1}, {roofline.Unquantized, false, 0.7e-3, 0}, {roofline.Unquantized, true, 0.1, 1},
		{roofline.FP8, false, 0.1, 1}} {
		b := &builder{file: &hardware.CalibrationFile{}, gpu: board(t, "l40s")}
		s := b.sample(&Row{Kind: GEMM, Shape: Shape{M: 8192, N: 8192, K: 8192}, DType: unit.BF16, Scheme: x.scheme, Ranks: 1, Copies: 6,
			Random: x.random})
		s.time = x.time
		if left := b.drawing([]sample{s}, "products"); len(left) != x.left || len(b.file.Notes) != 1-x.left {
			t.Errorf("%+v: %d rows are left, notes %q", x, len(left), b.file.Notes)
		}
	}
}

// TestHotExperts holds that mixtures are left out whose tokens go to so few experts that their weights fit into the L2 cache, for a table
// sends every call to the same ones, unless a row takes ten times as long as memory does, and no cache can have shortened it by much.
func TestHotExperts(t *testing.T) {
	g := board(t, "h200") // 50 MiB
	peaks, err := g.Peaks()
	if err != nil {
		t.Fatal(err)
	}
	b := &builder{file: &hardware.CalibrationFile{Engine: "vllm"}, gpu: g, peaks: peaks}
	for _, x := range []struct {
		tokens, copies, left int
		time                 float64
		// Two experts of 12.6 MB each for a token, and 16 of them.
	}{{1, 1, 0, 2e-5}, {1, 0, 1, 2e-5}, {8, 1, 1, 1e-4}, {16384, 1, 1, 1e-2}, {1, 1, 1, 1e-4}} {
		s := b.sample(&Row{Kind: Mixture, Shape: Shape{Tokens: x.tokens, Experts: 128, TopK: 2, Hidden: 4096, Width: 512, EP: 1},
			DType: unit.BF16, Ranks: 1, Copies: x.copies})
		s.time = x.time
		if left := b.uncached([]sample{s}, "rows"); len(left) != x.left {
			t.Errorf("%d tokens, %d copies: %d rows are left, want %d", x.tokens, x.copies, len(left), x.left)
		}
	}
}
