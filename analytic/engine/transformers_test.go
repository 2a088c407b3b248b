package engine_test

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"testing"

	"llmprof/analytic"
	"llmprof/analytic/operator"
	"llmprof/internal/testkit/casetest"
	"llmprof/roofline"
	"llmprof/unit"
)

// TestCopiesByHand works out the time by which a static cache's copies grow
// with its length: 32 layers, 8 KV heads of 128 for 32 query heads, in 16 bits.
func TestCopiesByHand(t *testing.T) {
	const batch, more = 32, 1024
	short := predict(t, onEngine(t, "llama3.1-8b", "transformers-graph", analytic.Workload{Batch: batch, PromptLen: 1024, GenLen: 32}))
	long := predict(t, onEngine(t, "llama3.1-8b", "transformers-graph", analytic.Workload{Batch: batch, PromptLen: 1024 + more, GenLen: 32}))
	const kv = 32 * 2 * 8 * 128 * 2 // bytes of a position, all layers
	copies := casetest.Machine(t, "h200", "transformers-graph").Cal.Constants[roofline.AttentionCopies]
	want := (1 + 2*4) * kv * batch * more / (copies * 4.8e12)
	if got := float64(long.TPOT.Expected - short.TPOT.Expected); math.Abs(got-want) > 1e-9 {
		t.Errorf("%d more positions cost %v s, want %v s", more, got, want)
	}
	floor := kv * batch * more / 4.8e12
	if got := float64(long.TPOT.Floor - short.TPOT.Floor); math.Abs(got-floor) > 1e-9 {
		t.Errorf("the floor grows by %v s, want %v s: copies can be avoided", got, floor)
	}
}

// TestUnfusedKernelsBySM works out what unfused kernels reach of a memory that is faster than
// the SMs ask for, and checks that a slower one bounds them as it does others.
func TestUnfusedKernelsBySM(t *testing.T) {
	h200 := casetest.Machine(t, "h200", "transformers").Cal.Constants
	near(t, "132 SMs and 4.8 TB/s", h200[roofline.ElementwiseUnfused], 132*18.4e9/4.8e12, 1e-9)
	a6000 := casetest.Machine(t, "rtx-a6000", "transformers-graph").Cal.Constants
	near(t, "84 SMs and 768 GB/s", a6000[roofline.ElementwiseUnfused], a6000[roofline.ElementwiseMemory], 1e-9)
}

// TestScoresInMemory works out what attention costs before SDPA, in FP32 on an L4: 36 layers of 20 heads
// of 64, all 1024 × 1024 pairs of 4 sequences, with a product on both sides of three kernels of the scores.
func TestScoresInMemory(t *testing.T) {
	ops := func(name string) unit.Seconds {
		c := testCase(t, "gpt2-large", "l4", 4, 1)
		c.Scheme = casetest.Scheme(t, "fp32", c.Machine.GPU)
		c.Machine = casetest.Machine(t, "l4", name)
		c.Workload = analytic.Workload{Batch: 4, PromptLen: 1023, GenLen: 2}
		return casetest.Line(t, casetest.Explain(t, c).PrefillOps, "attention").Expected
	}
	k := casetest.Machine(t, "l4", "transformers").Cal.Constants
	const values, layers = 4 * 1023 * 1023 * 20, 36
	products := layers * max(2*2*64*values/(k[roofline.VectorGEMMCompute]*30.3e12),
		(2*4*values+2*2*4*1280*4*1023)/(k[roofline.GEMMMemory]*300e9))
	between := layers * 3 * 2 * 4 * values / (k[roofline.ElementwiseUnfused] * 300e9)
	near(t, "attention of 4.38", float64(ops("transformers@4.38.1")), products+between, 0.02)
	for _, later := range []string{"transformers", "transformers@4.42.0", "transformers@5.17.0", "transformers@unknown"} {
		if got := float64(ops(later)); got > 0.5*(products+between) {
			t.Errorf("attention of %s takes %v s: want one kernel", later, got)
		}
	}
}

// TestStaticCache checks that a cache of fixed length costs every step the same,
// whichever token of the answer it makes.
func TestStaticCache(t *testing.T) {
	one := predict(t, onEngine(t, "llama3.1-8b", "transformers-graph", analytic.Workload{Batch: 8, PromptLen: 1024, GenLen: 1025}))
	other := predict(t, onEngine(t, "llama3.1-8b", "transformers-graph", analytic.Workload{Batch: 8, PromptLen: 2047, GenLen: 2}))
	if d := float64(one.TPOT.Expected/other.TPOT.Expected - 1); math.Abs(d) > 1e-9 {
		t.Errorf("a cache of 2049 positions costs %v over a long answer, %v for one token", one.TPOT.Expected, other.TPOT.Expected)
	}
}

// TestGraphHidesLaunches checks that a graph takes the launches out of decoding
// and leaves them in the prefill.
func TestGraphHidesLaunches(t *testing.T) {
	w := analytic.Workload{Batch: 1, PromptLen: 128, GenLen: 32}
	eager, graph := predict(t, onEngine(t, "llama3.1-8b", "transformers", w)), predict(t, onEngine(t, "llama3.1-8b", "transformers-graph", w))
	if eager.Decode.Bound != roofline.ByLaunch || graph.Decode.Bound == roofline.ByLaunch {
		t.Errorf("decoding is %v-bound eagerly and %v-bound in a graph", eager.Decode.Bound, graph.Decode.Bound)
	}
	if eager.TTFT.Expected != graph.TTFT.Expected {
		t.Errorf("TTFT of a short prompt is %v eagerly and %v with a graph for decoding: both wait for launches", eager.TTFT.Expected,
			graph.TTFT.Expected)
	}
}

// TestNoCopyWithoutGroups checks that heads with keys of their own are not copied, and are
// read at the rate of copies all the same: 32 layers, 32 heads of 128.
func TestNoCopyWithoutGroups(t *testing.T) {
	const more = 1024
	short := predict(t, onEngine(t, "llama2-7b", "transformers-graph", analytic.Workload{Batch: 8, PromptLen: 1024, GenLen: 2}))
	long := predict(t, onEngine(t, "llama2-7b", "transformers-graph", analytic.Workload{Batch: 8, PromptLen: 1024 + more, GenLen: 2}))
	copies := casetest.Machine(t, "h200", "transformers-graph").Cal.Constants[roofline.AttentionCopies]
	near(t, "a longer cache", float64(long.TPOT.Expected-short.TPOT.Expected), 8*more*32*32*256*2/(copies*4.8e12), 1e-6)
}

// TestGrowingCacheByHand works out what it costs to put a growing cache together anew in
// every step, where that and not the launches is what takes the time.
func TestGrowingCacheByHand(t *testing.T) {
	const batch, more = 64, 1024
	w := analytic.Workload{Batch: batch, PromptLen: 4096, GenLen: 2}
	short := predict(t, onEngine(t, "llama3.1-8b", "transformers", w))
	w.PromptLen += more
	long := predict(t, onEngine(t, "llama3.1-8b", "transformers", w))
	if short.Decode.Bound != roofline.ByMemory {
		t.Fatalf("decoding is %v-bound, want memory", short.Decode.Bound)
	}
	const kv = 32 * 2 * 8 * 128 * 2 // bytes of a position, all layers
	c := testCase(t, "llama3.1-8b", "h200", 1, 1).Machine.Cal
	want := kv * batch * more / 4.8e12 * (1/c.Constants[roofline.AttentionMemory] + 2/c.Constants[roofline.ElementwiseMemory])
	if got := float64(long.TPOT.Expected - short.TPOT.Expected); math.Abs(got-want) > 1e-9 {
		t.Errorf("%d more positions cost %v s, want %v s", more, got, want)
	}
}

// What an engine that does not fuse moves is what torch dispatches when it runs
// the modelling code of transformers (testdata/unfused.py).
func TestUnfusedIsWhatTransformersDispatches(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("testdata", "unfused.json"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Tokens float64
		Rows   []struct {
			Model, Dtype, Part string
			Kernels            float64
			Bytes              unit.Bytes
		}
	}
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, r := range file.Rows {
		c := onEngine(t, r.Model, "transformers", analytic.Workload{})
		c.Scheme = scheme(t, r.Dtype, c.Machine.GPU)
		kernels, moved := unfusedPart(c, file.Tokens, r.Part)
		if r.Part == "kv_write" {
			moved *= 2 // besides what it takes from the stream, what it puts into the cache
		}
		if r.Part == "attention" || r.Part == "rotary" && c.Model.Layers[0].Blocks[0].Attention.RotaryDim == 0 {
			continue // the scaling of OPT's queries and the copy of GPT-2's, which are of their attention
		}
		seen++
		if kernels != r.Kernels {
			t.Errorf("%s in %s: %v kernels of %s, transformers runs %v", r.Model, r.Dtype, kernels, r.Part, r.Kernels)
		}
		near(t, r.Model+" in "+r.Dtype+": bytes of "+r.Part, moved, r.Bytes, 3e-3) // means are one value a row
	}
	if seen < 20 {
		t.Errorf("%d parts of layers", seen)
	}
}

// unfusedPart is the kernels of a part of the first layer and the bytes that they move.
func unfusedPart(c *analytic.Case, tokens float64, part string) (kernels float64, moved unit.Bytes) {
	shard := operator.NewRank(c.Model, analytic.Parallelism{}, c.Scheme, nil)
	st := shard.Step(1, tokens, 0, 0)
	var ops []operator.Op
	for _, o := range st.AppendOps(nil) {
		if o.Layer == c.Model.Layers[0].Name {
			ops = append(ops, o)
		}
	}
	l := analytic.Lowering{Step: &st, Part: operator.PartLayers, Ops: ops, GPU: c.Machine.GPU, Constants: &c.Machine.Cal.Constants}
	c.Machine.Engine.Lower(&l)
	for i := range l.Kernels {
		if k := &l.Kernels[i]; partOf(&ops[k.Main]) == part {
			kernels += k.Launches
			moved += k.Work.Acts
		}
	}
	return kernels, moved
}

// partOf is what unfused.py calls the part of a layer that an operator is.
func partOf(o *operator.Op) string {
	switch o.Type {
	case operator.NonLinear:
		return "activation"
	case operator.CacheWrite:
		return "kv_write"
	case operator.Rotary:
		return "rotary"
	case operator.Norm:
		return "norm"
	}
	return ""
}
