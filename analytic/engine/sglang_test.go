package engine_test

import (
	"encoding/json"
	"math"
	"regexp"
	"strconv"
	"testing"

	"llmprof/analytic"
	"llmprof/analytic/engine"
	"llmprof/analytic/operator"
	"llmprof/hardware"
	"llmprof/internal/input"
	"llmprof/internal/testkit"
	"llmprof/internal/testkit/casetest"
	"llmprof/roofline"
	"llmprof/unit"
)

// TestSGLangCache holds the KV cache to the tokens that servers of SGLang 0.5.14 wrote (experiments/sglang, max_total_num_tokens).
func TestSGLangCache(t *testing.T) {
	for _, x := range []struct {
		model, gpu, scheme string
		tp                 int
		logged, within     float64
	}{
		{"llama3.1-8b", "h200", "w16a16", 1, 906051, 0.006},
		{"llama3.1-8b", "h200", "fp8", 1, 957155, 0.006},
		{"qwen3-30b-a3b", "h200", "w16a16", 1, 750511, 0.006},
		{"llama3.1-8b", "h100", "w16a16", 1, 410620, 0.006},
		{"llama3.1-8b", "h100", "fp8", 1, 461724, 0.006},
		{"qwen3-30b-a3b", "h100", "w16a16", 1, 89915, 0.006},
		{"qwen3-32b", "h100", "w16a16", 2, 276069, 0.017}, // TP takes 0.84 GiB there, of which 0.36 are predicted
	} {
		c := casetest.Case(t, x.model, x.gpu, 1, x.tp)
		c.Machine = casetest.Machine(t, x.gpu, "sglang")
		c.Scheme = casetest.Scheme(t, x.scheme, c.Machine.GPU)
		p, err := analytic.NewPredictor(c)
		testkit.Must(t, err)
		tokens := float64(p.CacheMemory(8192, 4096)) / float64(p.SequenceBytes(1000)) * 1000
		near(t, x.model+" on "+x.gpu+", "+x.scheme, tokens, x.logged, x.within)
		near(t, "beside the prompts of an estimate", float64(predict(t, c).Memory.MaxTokens), tokens, 0.001)
	}
}

// TestSGLangAsLogged holds the graphs, the cache and the steps of SGLang 0.5.14 to what its server wrote
// on an H200: a prompt and a decode step run on the rows of the smallest graph that it captured.
func TestSGLangAsLogged(t *testing.T) {
	log, err := input.Read("../../experiments/sglang/h200/settings.txt.gz", 8<<20)
	if err != nil {
		t.Fatal(err)
	}
	found := func(expr string) string {
		m := regexp.MustCompile(expr).FindSubmatch(log)
		if m == nil {
			t.Fatalf("the log does not have %s", expr)
		}
		return string(m[1])
	}
	sizes := func(expr string) (all []float64) {
		if err := json.Unmarshal([]byte(found(expr)), &all); err != nil {
			t.Fatal(err)
		}
		return all
	}
	number := func(expr string) float64 {
		n, err := strconv.ParseFloat(found(expr), 64)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	c := onEngine(t, "llama3.1-8b", "sglang", analytic.Workload{Batch: 1, PromptLen: 8192, GenLen: 2})
	near(t, "tokens of the cache", float64(predict(t, c).Memory.MaxTokens), number(`max_total_num_tokens=(\d+)`), 0.002)
	near(t, "share of the memory", c.Machine.Utilization, number(`mem_fraction_static=([\d.]+)`), 0.001)
	near(t, "tokens of a step", float64(c.Machine.Budget), number(`chunked_prefill_size=(\d+)`), 0)

	// The rows of a product are those of the graph.
	rows := func(batch, fresh, past float64) float64 {
		p, err := analytic.NewPredictor(c)
		if err != nil {
			t.Fatal(err)
		}
		s, m := p.Step(batch, fresh, past, 1), 0.0
		p.Walk(&s, func(l *analytic.Lowering, _ []roofline.Cost) {
			for i := range l.Kernels {
				if k := &l.Kernels[i]; m == 0 && l.Ops[k.Main].Name == "qkv_proj" {
					m = k.Shape.M
				}
			}
		})
		return m
	}
	for _, x := range []struct {
		expr   string
		prompt bool
	}{{`prefill CUDA graph begin.*num_tokens=(\[[^]]*\])`, true}, {`decode CUDA graph begin.* bs=(\[[^]]*\])`, false}} {
		before := 0.0
		for _, size := range sizes(x.expr) {
			for _, n := range []float64{before + 1, size} {
				got := rows(n, 1, 1024)
				if x.prompt {
					got = rows(1, n, 0)
				}
				if math.Abs(got-size) > 1e-9 {
					t.Errorf("%v tokens run on %v rows, captured were %v after %v", n, got, size, before)
				}
			}
			before = size
		}
	}
}

// TestSGLangSizes holds the sizes that follow from a GPU's memory to server_args.py of SGLang 0.5.14.
func TestSGLangSizes(t *testing.T) {
	for _, x := range []struct {
		memory unit.Bytes
		budget int
	}{{16 << 30, 2048}, {24 << 30, 2048}, {48 << 30, 4096}, {80 << 30, 8192}, {141 << 30, 8192}, {180 << 30, 16384}} {
		if s, err := engine.SchedulerOf("sglang", nil, &hardware.GPU{Memory: x.memory}); err != nil || s.Budget != x.budget {
			t.Errorf("%v: steps of %d tokens, want %d: %v", x.memory, s.Budget, x.budget, err)
		}
	}
}

// TestBlockingHost holds that before 0.14 nothing hides vLLM's host, and that the time to the first token stays as it is.
func TestBlockingHost(t *testing.T) {
	w := analytic.Workload{Batch: 32, PromptLen: 1024, GenLen: 2}
	for _, model := range []string{"llama3.1-8b", "llama3.2-1b"} {
		now := onEngine(t, model, "vllm", w)
		kernels := predict(t, with(t, now, func(k *roofline.Constants) {
			k[roofline.HostAsync], k[roofline.HostSequence] = 1e-9, 1e-9
		})).TPOT.Expected
		old := predict(t, onEngine(t, model, "vllm@0.12.0", w))
		near(t, model+" TPOT", old.TPOT.Expected, kernels+0.97e-3+32*11.2e-6, 1e-9)
		w.Batch = 1
		near(t, model+" TTFT", predict(t, onEngine(t, model, "vllm@0.13.0", w)).TTFT.Expected,
			predict(t, onEngine(t, model, "vllm@0.14.0", w)).TTFT.Expected, 1e-3)
		w.Batch = 32
	}
}

// Before 0.5.10 the host launches every kernel of a prompt.
func TestSGLangReleases(t *testing.T) {
	w := analytic.Workload{Batch: 1, PromptLen: 128, GenLen: 2}
	now := predict(t, onEngine(t, "llama3.1-8b", "sglang", w))
	same := predict(t, onEngine(t, "llama3.1-8b", "sglang@0.5.10.post1", w))
	old := predict(t, onEngine(t, "llama3.1-8b", "sglang@0.5.9", w))
	if now.TTFT.Expected != same.TTFT.Expected || !(old.TTFT.Expected > now.TTFT.Expected) || old.TPOT.Expected != now.TPOT.Expected {
		t.Errorf("TTFT %v now, %v in 0.5.10, %v in 0.5.9", now.TTFT.Expected, same.TTFT.Expected, old.TTFT.Expected)
	}
}

// Engines keep what a convolution needs for the next token, transformers the newest input too; llama.cpp has all of it in
// FP32. Mamba-2 2.7B by hand: 64 layers of 80 heads of 64 with 128 states, and 5376 channels with a kernel of 4.
func TestStatesByHand(t *testing.T) {
	const scan, channels = 80 * 64 * 128, 80*64 + 2*128
	for name, want := range map[string]float64{
		"vllm": 2*scan + 2*3*channels, "tensorrt-llm": 2*scan + 2*3*channels, "sglang": 4*scan + 2*3*channels,
		"llama.cpp": 4*scan + 4*3*channels, "transformers": 2*scan + 2*4*channels, "elana": 2*scan + 2*4*channels,
	} {
		c := onEngine(t, "mamba2-2.7b", name, analytic.Workload{Batch: 3, PromptLen: 64, GenLen: 2})
		p, err := analytic.NewPredictor(c)
		if err != nil {
			t.Fatal(err)
		}
		e, err := p.Predict(&c.Workload)
		if err != nil {
			t.Fatal(err)
		}
		if e.Memory.State != unit.Bytes(3*64*want) {
			t.Errorf("%s: states of %v, want %v", name, float64(e.Memory.State), 3*64*want)
		}
		step, moved := p.Step(3, 1, 100, 1), unit.Bytes(0)
		for _, o := range step.AppendOps(nil) {
			moved += o.Work.State.Times(o.Count)
		}
		if moved != 2*e.Memory.State {
			t.Errorf("%s: a decode step moves %v of states, want %v read and written", name, float64(moved), float64(e.Memory.State))
		}
	}
}

// SGLang keeps the states of scans in FP32 where the model's config names no format, and vLLM in that of the residual stream, but
// Nemotron's in FP32 too.
func TestStatesInFloat32(t *testing.T) {
	state := func(model, name string) unit.Bytes {
		c := onEngine(t, model, name, analytic.Workload{Batch: 4, PromptLen: 64, GenLen: 2})
		p, err := analytic.NewPredictor(c)
		if err != nil {
			t.Fatal(err)
		}
		s := p.Step(4, 1, 100, 1)
		var bytes unit.Bytes
		for _, o := range s.AppendOps(nil) {
			if o.Type == operator.Scan {
				bytes += o.Work.State.Times(o.Count)
			}
		}
		return bytes
	}
	for model, times := range map[string]float64{"granite-4.0-h-tiny": 2, "nemotron-h-8b": 1} {
		if wide, narrow := state(model, "sglang"), state(model, "vllm"); narrow == 0 || wide != narrow.Times(times) {
			t.Errorf("%s: a decode step moves %v of states on SGLang and %v on vLLM: want %g times as much", model, wide, narrow, times)
		}
	}
}

// SGLang's Triton kernel has DeepSeek's shared expert among those of a layer, and FlashInfer's and ranks of EP do not. Either way all
// weights of the layer are read.
func TestSharedExpertJoins(t *testing.T) {
	for _, x := range []struct {
		engine, model, gpu string
		ep                 int
		joins              bool
	}{
		{"sglang", "deepseek-r1", "h200", 1, true},
		{"sglang", "deepseek-r1", "h200", 8, false},
		{"sglang", "deepseek-r1", "b200", 1, false},
		{"sglang", "glm-4.5", "h200", 1, true},
		{"sglang", "deepseek-v2", "h200", 1, false},
		{"vllm", "deepseek-r1", "h200", 1, false},
	} {
		c := casetest.Case(t, x.model, x.gpu, 16, 8)
		c.Machine, c.Parallel.EP = casetest.Machine(t, x.gpu, x.engine), x.ep
		c.Scheme = casetest.Scheme(t, "fp8-block", c.Machine.GPU)
		p, err := analytic.NewPredictor(c)
		if err != nil {
			t.Fatal(err)
		}
		var ops, kernels unit.Bytes
		joins := true
		s := p.Step(16, 1, 100, 1)
		p.Walk(&s, func(l *analytic.Lowering, _ []roofline.Cost) {
			if l.Part != operator.PartLayers {
				return
			}
			for i := range l.Ops {
				ops += l.Ops[i].Work.Weights
			}
			for i := range l.Kernels {
				kernels += l.Kernels[i].Work.Weights
				joins = joins && !l.Ops[l.Kernels[i].Main].Shared
			}
		})
		if joins != x.joins || math.Abs(float64(kernels/ops-1)) > 1e-9 {
			t.Errorf("%s, %s on %s, EP %d: the shared expert joins the others: %v, want %v; kernels read %v of %v", x.engine, x.model, x.gpu, x.ep,
				joins, x.joins, kernels, ops)
		}
	}
}

// Shared experts of a decode step run beside the routed ones up to so many sequences, and the interval reaches down by their time.
func TestSharedExpertsBeside(t *testing.T) {
	for _, x := range []struct {
		engine string
		batch  int
		beside bool
	}{
		{"tensorrt-llm", 16, true}, {"tensorrt-llm", 512, true}, {"sglang", 16, true}, {"vllm", 256, true}, {"vllm", 264, false},
		{"vllm@0.10.2", 16, false}, {"vllm@0.12.0", 16, true},
	} {
		c := casetest.Case(t, "deepseek-r1", "b200", x.batch, 8)
		c.Machine, c.Scheme = casetest.Machine(t, "b200", x.engine), casetest.Scheme(t, "fp8-block", c.Machine.GPU)
		p, err := analytic.NewPredictor(c)
		if err != nil {
			t.Fatal(err)
		}
		var shared, beside unit.Seconds
		s := p.Step(float64(x.batch), 1, 100, 1)
		p.Walk(&s, func(l *analytic.Lowering, costs []roofline.Cost) {
			for i := range l.Kernels {
				if k := &l.Kernels[i]; l.Ops[k.Main].Shared {
					shared += costs[i].Time
					if k.Overlapped {
						beside += costs[i].Time
					}
				}
			}
		})
		if want := shared; !x.beside && beside != 0 || x.beside && (beside != want || beside == 0) {
			t.Errorf("%s, %d sequences: %v of %v run beside the routed experts", x.engine, x.batch, beside, shared)
		}
	}
}

// TestStartsEarly holds what traces of SGLang 0.5.23 show of a decode step of llama3.1-8b beside the release of the constants: five small
// kernels of each layer hide 0.6 µs of their 2, and 17 kernels after the logits are gone.
func TestStartsEarly(t *testing.T) {
	step := func(engine string) float64 {
		c := casetest.Case(t, "llama3.1-8b", "h200", 1, 1)
		c.Machine = casetest.Machine(t, "h200", engine)
		return float64(predict(t, c).TPOT.Expected)
	}
	const layers, hidden, fewer, small = 32, 5 * 0.6e-6, 17, 2e-6
	want := layers*hidden + fewer*small
	if got := step("sglang") - step("sglang@0.5.23"); math.Abs(got/want-1) > 0.35 {
		t.Errorf("a step is %.1f µs shorter: want some %.1f", got*1e6, want*1e6)
	}
}
