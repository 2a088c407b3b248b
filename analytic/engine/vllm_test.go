package engine_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"llmprof/analytic"
	"llmprof/analytic/engine"
	"llmprof/analytic/operator"
	"llmprof/internal/testkit"
	"llmprof/internal/testkit/casetest"
	"llmprof/models"
	"llmprof/roofline"
	"llmprof/unit"
)

// TestGraphRows holds that a decode step takes the time of the graph that holds it: 9
// sequences run as 16 but for attention, the cache and what follows the LM head.
func TestGraphRows(t *testing.T) {
	for _, model := range []string{"llama3.1-8b", "qwen3-30b-a3b"} {
		w := analytic.Workload{Batch: 9, PromptLen: 512, GenLen: 2}
		nine := explain(t, onEngine(t, model, "vllm", w)).DecodeOps
		w.Batch = 16
		sixteen := explain(t, onEngine(t, model, "vllm", w)).DecodeOps
		var products [2]unit.Seconds // time of the experts' products: operators share the time of one kernel by the work of their own rows
		for i := range nine {
			if nine[i].Name != sixteen[i].Name {
				t.Fatalf("%s: operator %d is %s and %s", model, i, nine[i].Name, sixteen[i].Name)
			}
			switch nine[i].Name {
			case "attention", "kv_write", "lm_head", "sampling":
				if nine[i].Expected >= sixteen[i].Expected {
					t.Errorf("%s: %s of 9 sequences takes %v, of 16 %v", model, nine[i].Name, nine[i].Expected, sixteen[i].Expected)
				}
			case "router", "experts_gate_up", "experts_activation", "experts_down":
				products[0] += nine[i].Expected
				products[1] += sixteen[i].Expected
			default:
				near(t, model+" "+nine[i].Name, nine[i].Expected, sixteen[i].Expected, 1e-12)
			}
		}
		near(t, model+" experts", products[0], products[1], 1e-12)
	}
}

// TestPaddedRowsAreWhole holds that a graph of 384 rows takes the same tiles whatever the batch that it pads: the rows of 187, 369, 374,
// 433 and 439 sequences were rounded up by a tile, and the step was 15 % longer than that of one sequence more.
func TestPaddedRowsAreWhole(t *testing.T) {
	c := testCase(t, "llama3.1-8b", "a100", 1, 1)
	c.Machine = casetest.Machine(t, "a100", "vllm")
	product := func(batch int) unit.Seconds {
		c.Workload = analytic.Workload{Batch: batch, PromptLen: 16, GenLen: 2}
		return line(t, explain(t, c).DecodeOps, "gate_up_proj").Expected
	}
	for rows := 16; rows <= 512; rows += 16 {
		full := product(rows)
		for batch := rows - 15; batch < rows; batch++ {
			if got := product(batch); got > full.Times(1+1e-9) {
				t.Errorf("gate_up_proj of %d sequences takes %v, of %d %v", batch, got, rows, full)
			}
		}
	}
}

// TestAsyncHost holds that the host's part of a decode step shows where it takes longer
// than the GPU, and there alone.
func TestAsyncHost(t *testing.T) {
	const step, sequence = 2.4e-3, 20e-6
	w := analytic.Workload{Batch: 8, PromptLen: 128, GenLen: 2}
	small := predict(t, onEngine(t, "llama3.2-1b", "vllm", w))
	near(t, "TPOT of a small model", small.TPOT.Expected, unit.Seconds(step+8*sequence), 1e-9)
	if small.Decode.Bound != roofline.ByLaunch {
		t.Errorf("decoding is %v-bound", small.Decode.Bound)
	}
	large := onEngine(t, "llama3.1-8b", "vllm", w)
	none := with(t, onEngine(t, "llama3.1-8b", "vllm", w), func(k *roofline.Constants) {
		k[roofline.HostAsync], k[roofline.HostSequence] = 1e-9, 1e-9
	})
	near(t, "TPOT of a large model", predict(t, large).TPOT.Expected, predict(t, none).TPOT.Expected, 1e-12)
}

// TestLongestGraph finds the longest prompt of a CUDA graph: one token more has to be launched kernel by kernel.
func TestLongestGraph(t *testing.T) {
	for model, longest := range map[string]int{"gpt-oss-20b": 1024, "qwen3-30b-a3b": 512} {
		ttft := func(tokens int) float64 {
			return float64(predict(t, onEngine(t, model, "vllm", analytic.Workload{Batch: 1, PromptLen: tokens, GenLen: 2})).TTFT.Expected)
		}
		if within, beyond := ttft(longest)/ttft(longest-1), ttft(longest+1)/ttft(longest); within > 1.01 || beyond < 1.3 {
			t.Errorf("%s: the last token of a graph lengthens TTFT %.3f times, the first beyond it %.3f times", model, within, beyond)
		}
	}
}

// TestPromptLaunches counts the launches of a prompt's kernels by hand. Beyond 512 tokens
// the host launches all of them: of 16 layers two norms, four products, the rotation, the
// cache write, attention and the activation; the embedding, the final norm and the LM
// head. Up to 512 tokens, a layer is a graph, a cache write and attention. Python calls
// attention, and beyond 512 tokens the piece of the model behind it.
func TestPromptLaunches(t *testing.T) {
	const launch, call, beyond = 40e-6, 131e-6, 2.4e-3 + 2.4e-3
	for prompt, n := range map[int]struct{ launches, calls float64 }{700: {16*10 + 3, 32}, 513: {16*10 + 3, 32}, 512: {16*3 + 1, 16},
		128: {16*3 + 1, 16}} {
		e := predict(t, onEngine(t, "llama3.2-1b", "vllm", analytic.Workload{Batch: 1, PromptLen: prompt, GenLen: 2}))
		near(t, "TTFT", e.TTFT.Expected, unit.Seconds(beyond+n.launches*launch+n.calls*call), 1e-9)
	}
	// Over two GPUs a layer has two all-reduces and the embedding has one, each of which copies its input first; logits are gathered.
	pair := onEngine(t, "llama3.2-1b", "vllm", analytic.Workload{Batch: 1, PromptLen: 700, GenLen: 2})
	pair.Parallel.TP = 2
	near(t, "TTFT over two GPUs", predict(t, pair).TTFT.Expected, unit.Seconds(beyond+(16*14+6)*launch+32*call), 1e-9)
	// In place of two products and the activation, a layer of a mixture has the router and its experts' kernels: seven Triton kernels of
	// gpt-oss, each of which Python calls twice, and eight of Qwen3's, three of them called; FP8 has two more that quantize.
	for _, x := range []struct {
		model, scheme           string
		layers, launches, calls float64
	}{{"gpt-oss-20b", "", 24, 7 + 1 + 7, 2 + 2*7}, {"qwen3-30b-a3b", "w16a16", 48, 8 + 1 + 8, 2 + 3},
		{"qwen3-30b-a3b", "fp8", 48, 8 + 1 + 10, 2 + 3}} {
		c := onEngine(t, x.model, "vllm", analytic.Workload{Batch: 1, PromptLen: 1025, GenLen: 2})
		if c.Scheme = models.StoredScheme(c.Model); x.scheme != "" {
			c.Scheme = casetest.Scheme(t, x.scheme, c.Machine.GPU)
		}
		e := predict(t, c)
		near(t, "TTFT of "+x.model+" "+x.scheme, e.TTFT.Expected, unit.Seconds(beyond+(x.layers*x.launches+3)*launch+x.layers*x.calls*call), 1e-9)
	}
}

// TestPeerAllReduce holds small all-reduces of vLLM in a graph to times of vLLM 0.24.0 on H200s, which
// aiconfigurator-core 0.12.0 has (Apache-2.0). One exchange reads the message of every other rank; over four and
// eight GPUs larger messages take two.
func TestPeerAllReduce(t *testing.T) {
	for _, x := range []struct {
		ranks   int
		message unit.Bytes
		want    unit.Seconds
	}{
		{2, 16 << 10, 4.55e-6}, {2, 512 << 10, 6.34e-6}, {2, 2 << 20, 12.44e-6}, {4, 128 << 10, 5.81e-6}, {4, 1 << 20, 12.10e-6},
		{4, 4 << 20, 29.83e-6},
		{8, 64 << 10, 6.56e-6}, {8, 128 << 10, 7.94e-6}, {8, 512 << 10, 11.14e-6}, {8, 1 << 20, 14.07e-6}, {8, 2 << 20, 18.11e-6},
	} {
		m := casetest.Machine(t, "h200", "vllm")
		n := float64(x.ranks)
		k := roofline.Kernel{Class: roofline.OneShotAllReduce, Shape: roofline.Shape{Ranks: n},
			Work: roofline.Work{Wire: x.message.Times(2 * (n - 1) / n)}, Launches: 1, Count: 1}
		k.Exchange(engine.OneShotBytes)
		near(t, fmt.Sprintf("%d bytes over %d GPUs", int(x.message), x.ranks), casetest.Cost(m, &k).Time, x.want, 0.14)
	}
}

// A server that captures larger graphs launches prompts of their size piece by piece, and pads decode steps beyond the default.
func TestLargerGraphs(t *testing.T) {
	plain, err := engine.Parse("vllm")
	if err != nil {
		t.Fatal(err)
	}
	large, err := engine.WithGraphs(plain, engine.Graphs{Most: 2048})
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range []engine.Graphs{{Most: -1}, {Eager: true, Most: 8}} {
		if _, err := engine.WithGraphs(large, g); err == nil {
			t.Errorf("%+v is taken", g)
		}
	}
	if other, _ := engine.Parse("llama.cpp"); other != nil {
		if _, err := engine.WithGraphs(other, engine.Graphs{Most: 2048}); err == nil {
			t.Error("llama.cpp takes vLLM's setting")
		}
	}
	c := onEngine(t, "qwen3-30b-a3b", "vllm", analytic.Workload{Batch: 1, PromptLen: 1024, GenLen: 2})
	before := explain(t, c)
	c.Machine.Engine = large
	after := explain(t, c)
	if !(after.TTFT.Expected < before.TTFT.Expected) {
		t.Errorf("a prompt of 1024 tokens takes %v in graphs of 512 tokens and %v in those of 2048", before.TTFT.Expected, after.TTFT.Expected)
	}
}

// Of ranks of experts vLLM gathers the tokens: each goes once to every other rank, however many of its experts are there. Over
// nodes of 8 it crosses the network once to each, by one of the node's eight networks.
func TestExpertsGather(t *testing.T) {
	for _, x := range []struct{ ranks, near, far float64 }{{4, 3, 0}, {16, 15 - 1, 8.0 / 8}, {64, 63 - 7, 56.0 / 8}} {
		c := onEngine(t, "qwen3-30b-a3b", "vllm", analytic.Workload{Batch: 1, PromptLen: 8, GenLen: 2})
		shard := operator.NewRank(c.Model, analytic.Parallelism{DP: int(x.ranks), EP: int(x.ranks), GPUsPerNode: 8}, c.Scheme, nil)
		s := shard.Step(64, 1, 100, 1)
		l := analytic.Lowering{Step: &s, Part: operator.PartLayers, Ops: partOps(s.AppendOps(nil), operator.PartLayers), GPU: c.Machine.GPU,
			Constants: &c.Machine.Cal.Constants}
		c.Machine.Engine.Lower(&l)
		exchanges := 0
		for k := range l.Kernels {
			if k := &l.Kernels[k]; l.Ops[k.Main].Type == operator.Shuffle {
				exchanges++
				near(t, "bytes within a node", float64(k.Work.Wire), 64*2048*2*x.near, 1e-12)
				near(t, "bytes between nodes", float64(k.Work.NodeWire), 64*2048*2*x.far, 1e-12)
			}
		}
		if exchanges != 2 {
			t.Errorf("%v ranks: %d exchanges in a layer, want 2", x.ranks, exchanges)
		}
	}
}

// Servers without CUDA graphs wait for the launches of a decode step, and those with small ones do so where the batch exceeds them.
func TestEager(t *testing.T) {
	step := func(name string, g engine.Graphs, batch int) unit.Seconds {
		c := onEngine(t, "llama3.1-8b", name, analytic.Workload{Batch: batch, PromptLen: 128, GenLen: 2})
		var err error
		c.Machine.Engine, err = engine.WithGraphs(c.Machine.Engine, g)
		testkit.Must(t, err)
		return explain(t, c).TPOT.Expected
	}
	own, small := engine.Graphs{}, engine.Graphs{Most: 8}
	for _, name := range []string{"vllm", "sglang", "tensorrt-llm"} {
		if with, without := step(name, own, 8), step(name, engine.Graphs{Eager: true}, 8); without < 1.5*with {
			t.Errorf("%s: %v with graphs, %v eager", name, with, without)
		}
		if within, beyond := step(name, small, 8), step(name, small, 16); within != step(name, own, 8) || beyond < 1.5*within {
			t.Errorf("%s with graphs of 8 sequences: %v of 8, %v of 16", name, within, beyond)
		}
	}
	if _, err := engine.Parse("vllm+deepep+deepep"); err == nil {
		t.Error("an option is taken twice")
	}
}

// A rank of EP of vLLM launches nine more small kernels, which map experts, where Triton runs them in MXFP4.
func TestExpertMap(t *testing.T) {
	choice := func(engine string, ep int) unit.Seconds {
		c := casetest.Case(t, "gpt-oss-120b", "h200", 1, 1)
		c.Machine = casetest.Machine(t, "h200", engine)
		c.Scheme = models.StoredScheme(c.Model).For(c.Machine.GPU)
		c.Parallel.TP, c.Parallel.EP = 8, ep
		return casetest.Line(t, casetest.Explain(t, c).DecodeOps, "top_k").Expected
	}
	const fixed = 2e-6 // a launch of an element-wise kernel
	for engine, launches := range map[string]float64{"vllm": 9, "sglang": 0} {
		more := float64(choice(engine, 8)-choice(engine, 1)) / 36 // layers
		if math.Abs(more-launches*fixed) > 0.01*fixed {
			t.Errorf("%s: ranks of EP choose experts %v s longer, want %v launches of %v s", engine, more, launches, fixed)
		}
	}
}

// TestVLLMSizes holds the defaults of vLLM's server to vllm/engine/arg_utils.py.
func TestVLLMSizes(t *testing.T) {
	large, usual, small := [2]int{16384, 1024}, [2]int{8192, 1024}, [2]int{2048, 256}
	for release, sizes := range map[string]map[string][2]int{
		"vllm": {"h100": usual, "a100": small, "a100-40gb": small, "a800-sxm": usual, "l40s": small, "mi300x": usual, "b200": usual,
			"dgx-spark": usual},
		"vllm@0.27.1": {"mi300x": usual, "b200": usual, "dgx-spark": usual},
		"vllm@0.28.0": {"h100": usual, "h200": usual, "a100": small, "l40s": small, "mi300x": large, "b200": large, "b300": large,
			"dgx-spark": usual},
		"vllm@0.33.0": {"h200": usual, "b200": large, "dgx-spark": small, "rtx-pro-6000": usual},
	} {
		for gpu, want := range sizes {
			m := casetest.Machine(t, gpu, release)
			s, err := engine.SchedulerOf("vllm", m.Engine, m.GPU)
			if err != nil || s.Budget != want[0] || s.MaxSeqs != want[1] || m.Budget != want[0] {
				t.Errorf("%s on %s: steps of %d tokens (memory: %d) and %d sequences, want %v: %v", release, gpu, s.Budget, m.Budget,
					s.MaxSeqs, want, err)
			}
		}
	}
}

// TestEarlyPrompts holds that the first step of prompts that are sent together has two of them, and that fewer have one step.
func TestEarlyPrompts(t *testing.T) {
	for batch, want := range map[int][]float64{1: {1}, 2: {2}, 8: {2, 6}} {
		w := analytic.Workload{Batch: batch, PromptLen: 128, GenLen: 1}
		p, err := analytic.NewPredictor(onEngine(t, "llama3.1-8b", "vllm", w))
		if err != nil {
			t.Fatal(err)
		}
		var got []float64
		for _, run := range p.Prefill(&w) {
			if run.Steps > 0 {
				got = append(got, run.First.Batch)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%d prompts: steps of %v, want %v", batch, got, want)
		}
	}
}

// hostOf counts launches and calls of the host for a prompt that no CUDA graph has, of the operators that are asked for.
func hostOf(t *testing.T, model string, e analytic.Engine, of func(*operator.Op) bool) (launches, calls float64) {
	t.Helper()
	c := onEngine(t, model, "vllm", analytic.Workload{Batch: 1, PromptLen: 1024, GenLen: 1})
	m, err := analytic.Calibrated(c.Machine.GPU, e, nil)
	if err != nil {
		t.Fatal(err)
	}
	c.Machine = m
	p, err := analytic.NewPredictor(c)
	if err != nil {
		t.Fatal(err)
	}
	s := p.Step(1, 1024, 0, 1)
	p.Walk(&s, func(l *analytic.Lowering, _ []roofline.Cost) {
		for i := range l.Kernels {
			if k := &l.Kernels[i]; !k.Graphed && of(&l.Ops[k.Main]) {
				launches, calls = launches+(k.Launches+k.Helpers)*k.Count, calls+k.Calls*k.Count
			}
		}
	})
	return launches, calls
}

// TestSharedExpertsAreCalled holds that Python calls each of the four operators of shared experts in a layer: two products, the activation,
// and the gate, which has two kernels more.
func TestSharedExpertsAreCalled(t *testing.T) {
	launches, calls := hostOf(t, "qwen3.6-35b-a3b", casetest.Engine(t, "vllm"), func(o *operator.Op) bool { return o.Shared })
	if launches != 40*6 || calls != 40*4 {
		t.Errorf("40 layers: %v launches and %v calls, want 240 and 160", launches, calls)
	}
}

// TestEagerNorms holds that norms of Gemma without torch.compile take the host five launches each, and others one.
func TestEagerNorms(t *testing.T) {
	eager, err := engine.WithGraphs(casetest.Engine(t, "vllm"), engine.Graphs{Eager: true})
	if err != nil {
		t.Fatal(err)
	}
	norm := func(o *operator.Op) bool { return o.Type == operator.Norm }
	for model, want := range map[string]float64{"gemma3-12b": 5 * (4*48 + 1), "qwen3.5-9b": 5 * (2*32 + 1), "llama3.1-8b": 2*32 + 1} {
		if launches, _ := hostOf(t, model, eager, norm); launches != want {
			t.Errorf("%s: %v launches of norms, want %v", model, launches, want)
		}
	}
}
