package native

import (
	"errors"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"llmprof/analytic/operator"
	"llmprof/internal/testkit"
	"llmprof/measure/native/cuda"
	"llmprof/measure/native/internal/emulate"
)

func TestQueryCheck(t *testing.T) {
	good := func() Query {
		return Query{Kind: "gemm", Shape: map[string]int{"m": 8, "n": 128, "k": 64}, Rotate: 1 << 20, Samples: 3, Seconds: 0.01}
	}
	q := good()
	testkit.Must(t, q.Check())
	for says, change := range map[string]func(*Query){
		`no operator "all_gather"`:        func(q *Query) { q.Kind = "all_gather" },
		"all_reduce over 1 GPUs":          func(q *Query) { q.Kind, q.Shape = "all_reduce", map[string]int{"bytes": 1024} },
		"gemm over 2 GPUs":                func(q *Query) { q.TP = 2 },
		"read a stream in float32":        func(q *Query) { q.Kind = "rms_norm" },
		"k has to be 1 or more":           func(q *Query) { delete(q.Shape, "k") },
		"m has to be 1 or more":           func(q *Query) { q.Shape["m"] = -1 },
		"multiples of 64":                 func(q *Query) { q.Shape["n"] = 100 },
		"with 0 samples":                  func(q *Query) { q.Samples = 0 },
		"NaN s":                           func(q *Query) { q.Seconds = q.Seconds / 0 * 0 },
		"width has to be a multiple of 8": func(q *Query) { q.Kind, q.Shape = "activation", map[string]int{"tokens": 1, "width": 12} },
		"there can be 65535 rows":         func(q *Query) { q.Kind, q.Shape = "activation", map[string]int{"tokens": 1 << 20, "width": 8} },
	} {
		q := good()
		change(&q)
		if err := q.Check(); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %q", err, says)
		}
	}
}

// Calibrations time the attention of shapes that the engine runs, over caches larger than any L2.
func TestAttentionOptions(t *testing.T) {
	const l2 = 50 << 20
	for _, h := range [][3]int{{32, 8, 128}, {64, 8, 128}, {32, 8, 64}, {4, 2, 64}} {
		for _, context := range []int{64, 512, 32768} {
			for _, batch := range []int{1, 8, 32} {
				q := Query{Kind: "attention_decode", Shape: map[string]int{
					"batch": batch, "context": context, "heads": h[0], "kv_heads": h[1], "head_dim": h[2]}, Rotate: 4 * l2}
				o, cold, err := attentionOptions(&q)
				testkit.Must(t, err)
				layers := o.Model.NumLayers()
				if cacheBytes := 4 * layers * batch * h[1] * h[2] * context; cold != (cacheBytes > 4*l2) || !cold && layers != maxBenchLayers {
					t.Errorf("%v: %d layers hold %d bytes, cold %v", q.Shape, layers, cacheBytes, cold)
				}
				if o.PromptLen != context || o.GenLen != 2 {
					t.Errorf("%+v", o)
				}
			}
			p := Query{Kind: "attention_prefill", Shape: map[string]int{"tokens": context, "heads": h[0], "kv_heads": h[1], "head_dim": h[2]}}
			if o, _, err := attentionOptions(&p); err != nil || o.Batch != 1 || o.PromptLen != context || o.Model.NumLayers() != 1 {
				t.Errorf("%v: %+v, %v", p.Shape, o, err)
			}
		}
	}
	odd := Query{Kind: "attention_prefill", Shape: map[string]int{"tokens": 8, "heads": 4, "kv_heads": 4, "head_dim": 80}}
	var lacks *UnsupportedError
	if _, _, err := attentionOptions(&odd); !errors.As(err, &lacks) {
		t.Error(err)
	}
}

func TestSets(t *testing.T) {
	for _, c := range []struct {
		bytes, rotate, n int
		cold             bool
	}{{10, 100, 11, true}, {100, 100, 2, true}, {1000, 100, 2, true}, {10, 0, 1, true}, {maxRotatedBytes, 100, 1, true},
		{1 << 20, 16 << 30, 8 << 10, false}} {
		if n, cold := sets(c.bytes, c.rotate); n != c.n || cold != c.cold {
			t.Errorf("%d bytes over %d: %d, %v", c.bytes, c.rotate, n, cold)
		}
	}
}

func TestRounds(t *testing.T) {
	for _, c := range []struct{ copies, flops, bytes, n int }{
		{1, 0, 0, 32}, {2, 0, 0, 16}, {3, 0, 0, 11}, {33, 0, 0, 1}, {1, enoughFLOPs, 0, 1}, {1, enoughFLOPs / 4, 1, 4},
		{2, 1, enoughBytes / 8, 4},
		{2, math.MaxInt, math.MaxInt, 1},
	} {
		if n := rounds(c.copies, c.flops, c.bytes); n != c.n {
			t.Errorf("%+v: %d", c, n)
		}
	}
}

// Every kind of operator is timed if there is a GPU.
func TestBencher(t *testing.T) {
	gpu(t)
	b, err := OpenBencher(os.Getenv("LLMPROF_TEST_CUDA_LIBS"), cuda.Cache{Folder: os.TempDir() + "/llmprof-test-kernels"})
	testkit.Must(t, err)
	defer b.Close()
	for _, q := range []Query{
		{Kind: "gemm", Shape: map[string]int{"m": 1, "n": 1024, "k": 1024}},
		{Kind: "gemm", Shape: map[string]int{"m": 32, "n": 1024, "k": 1024}},
		{Kind: "gemm", Shape: map[string]int{"m": 512, "n": 1024, "k": 1024}},
		{Kind: "gemm_sustained", Shape: map[string]int{"m": 1024, "n": 1024, "k": 1024}},
		{Kind: "attention_prefill", Shape: map[string]int{"tokens": 300, "heads": 32, "kv_heads": 8, "head_dim": 128}},
		{Kind: "attention_decode", Shape: map[string]int{"batch": 2, "context": 1000, "heads": 32, "kv_heads": 8, "head_dim": 64}},
		{Kind: "mixture_decode", Shape: map[string]int{"batch": 1, "experts": 128, "top_k": 8, "hidden": 256, "width": 128}},
		{Kind: "mixture_decode", Shape: map[string]int{"batch": 8, "experts": 128, "top_k": 8, "hidden": 256, "width": 128}},
		{Kind: "mixture_decode", Shape: map[string]int{"batch": 32, "experts": 128, "top_k": 8, "hidden": 256, "width": 128}},
		{Kind: "activation", Shape: map[string]int{"tokens": 100, "width": 1024}},
		{Kind: "read", Shape: map[string]int{"bytes": 1 << 20}},
		{Kind: "copy", Shape: map[string]int{"bytes": 1 << 20}},
		{Kind: "graph_node", Shape: map[string]int{"launches": 100}},
	} {
		q.Rotate, q.Samples, q.Seconds = 1<<26, 3, 0.01
		got, err := b.Time(&q)
		if err != nil || len(got.Seconds) < 3 {
			t.Errorf("%s: %+v, %v", q.Kind, got, err)
		}
		for _, s := range got.Seconds {
			if !(s > 0 && s < 1) {
				t.Errorf("%s took %v s", q.Kind, s)
			}
		}
	}
	if now, _ := b.dev.Used(); now > 64<<20 {
		t.Errorf("%d bytes are allocated after all of it", now)
	}
}

// The MoE layer is timed by the calls of each kind of step. Each token chooses experts by
// its own scores.
func TestMoEBencher(t *testing.T) {
	emulate.Long(t)
	folder := emulate.Device(t)
	b, err := OpenBencher(folder, cuda.Cache{Folder: os.TempDir() + "/llmprof-test-kernels"})
	testkit.Must(t, err)
	defer b.Close()
	b.moeCalls = 1
	var e *Engine
	open := b.open
	b.open = func(o Options) (_ *Engine, err error) {
		e, err = open(o)
		return e, err
	}
	for _, batch := range []int{1, 5, 17} {
		q := Query{Kind: "mixture_decode", Shape: map[string]int{"batch": batch, "experts": 32, "top_k": 2, "hidden": 256, "width": 64},
			Samples: 3}
		op, err := b.moeDecode(&q)
		testkit.Must(t, err)
		testkit.Must(t, op.queue())
		testkit.Must(t, op.s.Sync())
		got, want := float64(hits(t, e, batch)), operator.DistinctExperts(32, 2, float64(batch))
		if t.Logf("batch %d hits %v of 32 experts, expected %.1f", batch, got, want); math.Abs(got-want) > 5 || op.calls != moeLayers {
			t.Errorf("batch %d, %d calls: %v experts are hit, %v expected", batch, op.calls, got, want)
		}
		if err := op.free(); err != nil {
			t.Error(err)
		}
	}
	q := Query{Kind: "mixture_decode", Shape: map[string]int{"batch": 1, "experts": 2, "top_k": 3, "hidden": 256, "width": 64}, Samples: 3}
	if _, err := b.Time(&q); err == nil || !strings.Contains(err.Error(), "num_experts_per_tok (3) is more than") {
		t.Errorf("3 of 2 experts: %v", err)
	}
}

// If one kernel does attention and MoE of a layer, the time of attention is subtracted. All kernels
// take a microsecond here: a layer has four kernels, and attention has three of them.
func TestMoELessAttention(t *testing.T) {
	b, _, _ := onStandIn(t)
	open := b.open
	b.open = func(o Options) (*Engine, error) {
		e, err := open(o)
		if err != nil {
			return nil, err
		}
		var s sequence
		for i := range e.w.layers {
			s.add(i, func() error {
				for range 4 {
					if err := e.queueFirst(true); err != nil {
						return err
					}
				}
				return nil
			}, "experts_gate_up", "qkv_proj", "attention", "o_proj", "router", "top_k", "experts_down")
		}
		e.decode = s
		return e, nil
	}
	q := Query{Kind: "mixture_decode", Shape: map[string]int{"batch": 1, "experts": 16, "top_k": 4, "hidden": 1024, "width": 768},
		Rotate: 64 << 20, Samples: 3}
	got, err := b.Time(&q)
	testkit.Must(t, err)
	for _, s := range got.Seconds {
		if math.Abs(s*1e6-1) > 1e-3 {
			t.Errorf("%v s a call, want 1 us", s)
		}
	}
}

// onStandIn returns a Bencher on a GPU that computes nothing, on which every kernel and every GEMM
// takes a microsecond.
func onStandIn(t *testing.T) (*Bencher, *cuda.StandIn, func() *cuda.StandIn) {
	t.Helper()
	s := cuda.NewStandIn()
	var last *cuda.StandIn
	b := &Bencher{dev: s.Device, moeCalls: moeCalls, open: func(o Options) (*Engine, error) {
		last = cuda.NewStandIn()
		return OnStandIn(o, last)
	}}
	var err error
	if b.s, err = b.dev.NewStream(); err != nil {
		t.Fatal(err)
	}
	m, err := b.dev.Load([]byte("no code"))
	testkit.Must(t, err)
	if b.p, err = newProgram(b.dev, m, benchShape(), skinnyGEMMs()); err != nil {
		t.Fatal(err)
	}
	return b, s, func() *cuda.StandIn { return last }
}

// Each kind queues at least as many calls as a model has layers, and fewer only if few take long.
// It uses its buffers in turn, none again before all others, in the next replay too. The reported
// time is that of one call.
func TestBencherQueues(t *testing.T) {
	for _, c := range []struct {
		query  Query
		kernel string  // that does it
		copies int     // of its buffers
		calls  int     // of one replay
		micros float64 // of one call
	}{
		{Query{Kind: "gemm", Shape: map[string]int{"m": 1, "n": 1024, "k": 1024}}, "kernel skinny_norm_1 ", 33, 33, 1},
		{Query{Kind: "gemm", Shape: map[string]int{"m": 12, "n": 1024, "k": 1024}}, "kernel skinny_norm_16 ", 33, 33, 1},
		{Query{Kind: "gemm", Shape: map[string]int{"m": 1, "n": 28672, "k": 4096}}, "kernel skinny_norm_1 ", 2, 32, 1},
		{Query{Kind: "gemm", Shape: map[string]int{"m": 1, "n": 4096, "k": 4096}}, "kernel skinny_norm_1 ", 3, 33, 1},
		{Query{Kind: "gemm", Shape: map[string]int{"m": 512, "n": 1024, "k": 512}}, "gemm [512 1024] [512 512] 0 ", 65, 65, 1},
		{Query{Kind: "gemm_sustained", Shape: map[string]int{"m": 512, "n": 8192, "k": 8192}}, "gemm [8192 8192] [8192 512] 0 ", 2, 16, 1},
		{Query{Kind: "gemm", Shape: map[string]int{"m": 8192, "n": 8192, "k": 8192}}, "gemm [8192 8192] [8192 8192] 0 ", 2, 2, 1},
		{Query{Kind: "attention_prefill", Shape: map[string]int{"tokens": 300, "heads": 32, "kv_heads": 8, "head_dim": 128}},
			"kernel attention_prefill_hopper [96 1 1] ", 1, 32, 1},
		{Query{Kind: "attention_decode", Shape: map[string]int{"batch": 2, "context": 4096, "heads": 32, "kv_heads": 8, "head_dim": 128}},
			"kernel attention_decode ", 3, 33, 1},
		{Query{Kind: "mixture_decode", Shape: map[string]int{"batch": 2, "experts": 16, "top_k": 4, "hidden": 1024, "width": 768}},
			"kernel experts_down_8 ", 16, 64, (4*64 + 1) / 64.},
		{Query{Kind: "activation", Shape: map[string]int{"tokens": 1024, "width": 4096}}, "kernel activation [4 1024 1] ", 4, 32, 1},
		{Query{Kind: "read", Shape: map[string]int{"bytes": 16 << 20}}, "kernel probe_read ", 5, 35, 1},
		{Query{Kind: "graph_node", Shape: map[string]int{"launches": 100}}, "kernel fill_constant ", 1, 100, 100},
	} {
		b, s, engine := onStandIn(t)
		q := c.query
		q.Rotate, q.Samples = 64<<20, 3
		got, err := b.Time(&q)
		if err != nil {
			t.Fatalf("%s: %v", q.Kind, err)
		}
		lines := s.Queued
		if strings.HasPrefix(q.Kind, "attention") || strings.HasPrefix(q.Kind, "mixture") {
			lines = engine().Queued
		}
		var calls []string
		for _, l := range lines {
			if strings.HasPrefix(l, c.kernel) {
				calls = append(calls, l)
			}
		}
		replays := 3 + 3                      // a block of warm-up, for no time is given, and the samples
		tuned := len(calls) - replays*c.calls // cuBLASLt's ways are tried on the first weights
		if tuned < 0 || tuned > 4 {
			t.Errorf("%s of %v: %d calls in %d replays, want %d a replay", q.Kind, q.Shape, len(calls), replays, c.calls)
			continue
		}
		for i := range calls[tuned:] {
			again := slices.Index(calls[tuned+i+1:], calls[tuned+i]) + 1
			if again != c.copies && again != 0 {
				t.Errorf("%s of %v: call %d uses what is used %d calls later again, want %d", q.Kind, q.Shape, i, again, c.copies)
				break
			}
		}
		for _, sample := range got.Seconds {
			if math.Abs(sample*1e6-c.micros) > 1e-3 {
				t.Errorf("%s took %v s a call, want %v us", q.Kind, sample, c.micros)
			}
		}
		if cold := q.Kind != "attention_prefill" && q.Kind != "graph_node"; got.Cold != cold || len(got.Seconds) < 3 {
			t.Errorf("%s: %+v", q.Kind, got)
		}
		if now, _ := b.dev.Used(); now > cuda.WorkspaceBytes {
			t.Errorf("%s: %d bytes are allocated after it", q.Kind, now)
		}
	}
}

// What is run for its power leaves the GPU without work for about a thousandth of the time.
func TestReplays(t *testing.T) {
	for graph, want := range map[float64]int{0: 20001, 1e-4: 201, 1: 1} {
		if got := replaysOf(graph); got != want {
			t.Errorf("a graph of %v s: %d replays, want %d", graph, got, want)
		}
	}
}

// Operators of a MoE prefill, and of steps of many sequences, are timed as the engine calls them.
// One engine serves all points of the same shape.
func TestOperatorBencher(t *testing.T) {
	emulate.Long(t)
	folder := emulate.Device(t)
	b, err := OpenBencher(folder, cuda.Cache{Folder: os.TempDir() + "/llmprof-test-kernels"})
	testkit.Must(t, err)
	defer b.Close()
	opened, open := 0, b.open
	b.open = func(o Options) (*Engine, error) {
		opened++
		return open(o)
	}
	moeShape := map[string]int{"tokens": 70, "experts": 8, "top_k": 2, "hidden": 256, "width": 64}
	dense := map[string]int{"batch": 17, "hidden": 256, "width": 256, "heads": 4, "kv_heads": 2, "head_dim": 64, "n": 512}
	for _, q := range []Query{
		{Kind: "top_k_prefill", Shape: moeShape}, {Kind: "experts_gate_up_prefill", Shape: moeShape},
		{Kind: "experts_down_prefill", Shape: moeShape},
		{Kind: "qkv_proj_decode", Shape: dense}, {Kind: "o_proj_decode", Shape: dense}, {Kind: "gate_up_proj_decode", Shape: dense},
		{Kind: "down_proj_decode", Shape: dense}, {Kind: "lm_head_decode", Shape: dense},
	} {
		q.Samples = 3
		if err := q.Check(); err != nil {
			t.Error(err)
		}
		op, err := b.operation(&q)
		testkit.Must(t, err)
		testkit.Must(t, op.queue())
		if err := errors.Join(op.s.Sync(), op.free()); err != nil {
			t.Errorf("%s: %v", q.Kind, err)
		}
		if t.Logf("%s: %d calls", q.Kind, op.calls); op.calls < leastCalls {
			t.Errorf("%s: %d calls", q.Kind, op.calls)
		}
	}
	if opened != 2 {
		t.Errorf("%d engines were opened for two shapes", opened)
	}
}
