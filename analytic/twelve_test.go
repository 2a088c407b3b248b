package analytic_test

import (
	"fmt"
	"strings"
	"testing"

	"llmprof/analytic"
	"llmprof/internal/testkit/casetest"
	"llmprof/roofline"
	"llmprof/unit"
)

// One test for each thing that peers get wrong and this package must not.

// 1. Weights are charged once a step; the embedding is a gather of rows.
func TestPoint1WeightsOnceEmbeddingGathered(t *testing.T) {
	for _, batch := range []int{1, 64} {
		r := explain(t, testCase(t, "llama3.1-8b", "h200", batch, 1))
		near(t, "down_proj weights", line(t, r.DecodeOps, "down_proj").Weights, 2*32*14336*4096, 1e-12)
		near(t, "embedding rows", line(t, r.DecodeOps, "embedding").Weights, unit.Bytes(2*4096*batch), 1e-12)
		near(t, "embedding rows of the prompt", line(t, r.PrefillOps, "embedding").Weights, unit.Bytes(2*4096*1024*batch), 1e-12)
	}
}

// 2. Decode attention reads K and V of the whole context, prompt included, once
// a KV head.
func TestPoint2DecodeReadsWholeContext(t *testing.T) {
	c := testCase(t, "llama3.1-8b", "h200", 3, 1)
	c.Workload.PromptLen, c.Workload.GenLen = 5000, 2 // one decode step, after 5000 tokens
	r := explain(t, c)
	near(t, "KV read", line(t, r.DecodeOps, "attention").KV, 3*5001*131072, 1e-12)
	near(t, "KV written", line(t, r.DecodeOps, "kv_write").KV, 3*131072, 1e-12)
}

// 3. The LM head runs on the last position in prefill, on all if asked for.
func TestPoint3HeadOnLastPosition(t *testing.T) {
	c := testCase(t, "llama3.1-8b", "h200", 2, 1)
	last := explain(t, c)
	near(t, "head FLOPs", line(t, last.PrefillOps, "lm_head").FLOPs, 2*2*4096*128256, 1e-12)
	c.Workload.AllLogits = true
	all := explain(t, c)
	near(t, "head FLOPs of all positions", line(t, all.PrefillOps, "lm_head").FLOPs, 2*2*1024*4096*128256, 1e-12)
	if all.Memory.Activations <= last.Memory.Activations {
		t.Error("logits of all positions take no memory")
	}
}

// 4. Causal attention does half the work; every kind of layer has its own cache.
func TestPoint4AttentionByKind(t *testing.T) {
	r := explain(t, testCase(t, "llama3.1-8b", "h200", 1, 1))
	near(t, "causal FLOPs", line(t, r.PrefillOps, "attention").FLOPs, 32*4*32*128*1024*1025/2, 1e-12)

	// Gemma-2-9B: 42 layers, half with a window of 4096, 8 KV heads of 256.
	c := testCase(t, "gemma2-9b", "h200", 1, 1)
	c.Workload.PromptLen, c.Workload.GenLen = 8000, 2
	g := explain(t, c)
	const token = 2 * 8 * 256 * 2.0
	near(t, "KV of full layers", line(t, g.DecodeOps, "attention").KV, 21*token*8001, 1e-12)
	near(t, "KV of sliding layers", line(t, g.DecodeOps, "sliding_attention").KV, 21*token*4096, 1e-12)
	near(t, "cache", g.Memory.KV, 21*token*(8002+4096), 1e-12)

	// DeepSeek-V3: 576 values a token and layer, one for all heads.
	d := explain(t, testCase(t, "deepseek-v3", "h200", 1, 8))
	near(t, "latent cache", d.Memory.KV, 61*576*2*1152, 1e-12)
	// Absorbed decode: every head scores 576 and mixes 512 values of each key.
	near(t, "absorbed FLOPs", line(t, d.DecodeOps, "latent_attention").FLOPs, 61*16*2*(576+512)*1088, 1e-12)
	// Expanded prefill: 192 and 128 values a head.
	near(t, "expanded FLOPs", line(t, d.PrefillOps, "latent_attention").FLOPs, 61*16*2*(192+128)*1024*1025/2, 1e-12)
}

// 5. Memory holds all experts, a step reads the distinct ones, arithmetic runs k.
func TestPoint5Experts(t *testing.T) {
	const expert = 48 * 2048 * 768 * 2.0 // down_proj of one expert of every layer, bytes
	for _, x := range []struct {
		batch int
		hit   float64
	}{{1, 8}, {16, 82.42}, {1024, 128}} {
		r := explain(t, testCase(t, "qwen3-30b-a3b", "h200", x.batch, 1))
		near(t, "experts read", float64(line(t, r.DecodeOps, "experts_down").Weights), x.hit*expert, 1e-3)
		near(t, "experts run", float64(line(t, r.DecodeOps, "experts_down").FLOPs), float64(x.batch)*8*expert, 1e-9)
		near(t, "experts held", float64(r.Memory.Weights), 2*30532122624, 1e-9)
	}
	d := explain(t, testCase(t, "deepseek-v3", "h200", 1, 8))
	if n := line(t, d.DecodeOps, "shared_down_proj").Layers; n != 58 {
		t.Errorf("shared experts in %v layers, want 58", n)
	}
	if n := line(t, d.DecodeOps, "down_proj").Layers; n != 3 {
		t.Errorf("dense feed-forwards in %v layers, want the first 3", n)
	}
}

// 6. State of scans does not grow; hybrids have both.
func TestPoint6State(t *testing.T) {
	c := testCase(t, "mamba2-2.7b", "h200", 4, 1)
	short := explain(t, c)
	c.Workload.PromptLen = 100000
	long := explain(t, c)
	if short.Memory.State != long.Memory.State || short.Memory.State == 0 {
		t.Errorf("state is %v after 1152 tokens, %v after 100128", short.Memory.State, long.Memory.State)
	}
	if long.Memory.KV != 0 || !long.Memory.Unbounded {
		t.Errorf("a model without attention has a cache of %v", long.Memory.KV)
	}
	near(t, "TPOT of any context", long.TPOT.Expected, short.TPOT.Expected, 1e-12)
	for _, hybrid := range []string{"jamba-v0.1", "nemotron-h-8b", "qwen3-next-80b-a3b"} {
		if r := explain(t, testCase(t, hybrid, "h200", 1, 1)); r.Memory.State == 0 || r.Memory.KV == 0 {
			t.Errorf("%s: state %v, cache %v: a hybrid has both", hybrid, r.Memory.State, r.Memory.KV)
		}
	}
}

// 7. An all-reduce moves 2(n-1)/n of the message over one direction of the link,
// after a latency that depends on n and the transport.
func TestPoint7AllReduce(t *testing.T) {
	var last unit.Seconds
	for _, tp := range []int{2, 4, 8} {
		r := explain(t, testCase(t, "llama2-70b", "h100", 1, tp))
		n := float64(tp)
		o := line(t, r.PrefillOps, "all_reduce")
		near(t, "wire", float64(o.Wire), 160*2*(n-1)/n*1024*8192*2, 1e-12)
		near(t, "floor", float64(o.Floor), float64(o.Wire)/450e9, 1e-12)
		d := line(t, r.DecodeOps, "all_reduce")
		if d.Expected <= last {
			t.Errorf("tp %d: small all-reduces take %v, no more than over fewer GPUs", tp, d.Expected)
		}
		last = d.Expected
	}
	nccl := testCase(t, "llama2-70b", "h100", 1, 8)
	nccl.Machine = casetest.Machine(t, "h100", "transformers")
	if d := line(t, explain(t, nccl).DecodeOps, "all_reduce"); d.Expected <= last {
		t.Errorf("NCCL's latency %v is not above the one-shot all-reduce's %v", d.Expected, last)
	}
}

// 8. PP and DP do not divide latency; KV heads replicate; an impossible split is
// an error.
func TestPoint8Splits(t *testing.T) {
	one := explain(t, testCase(t, "llama3.1-8b", "h100", 4, 1))
	c := testCase(t, "llama3.1-8b", "h100", 4, 1)
	c.Parallel.PP = 4
	pp := explain(t, c)
	if pp.TTFT.Expected <= one.TTFT.Expected || pp.TPOT.Expected <= one.TPOT.Expected {
		t.Errorf("a pipeline of 4 is faster than one GPU: TTFT %v and %v", pp.TTFT.Expected, one.TTFT.Expected)
	}
	if pp.Memory.Weights > one.Memory.Weights.Times(0.4) {
		t.Errorf("a stage of 4 holds %v of %v", pp.Memory.Weights, one.Memory.Weights)
	}
	c.Workload.Batch = 1024 // where decoding reads more cache than weights, which each micro-batch reads again
	pp = explain(t, c)
	c.Parallel.MicroBatches = 4
	if mb := explain(t, c); mb.Throughput <= pp.Throughput || mb.TTFT.Expected < pp.TTFT.Expected.Times(7.0/16) ||
		mb.TTFT.Expected >= pp.TTFT.Expected {
		t.Errorf("micro-batches: %.0f tokens/s and TTFT %v, without %.0f and %v", mb.Throughput, mb.TTFT.Expected, pp.Throughput,
			pp.TTFT.Expected)
	}
	c = testCase(t, "llama3.1-8b", "h100", 4, 1)
	c.Parallel.DP = 4
	dp := explain(t, c)
	near(t, "TTFT of replicas", dp.TTFT.Expected, one.TTFT.Expected, 1e-12)
	near(t, "throughput of replicas", dp.Throughput, 4*one.Throughput, 1e-12)

	r8, r16 := testCase(t, "llama2-70b", "h100", 1, 8), testCase(t, "llama2-70b", "h100", 1, 16)
	near(t, "KV of more ranks than KV heads", explain(t, r16).Memory.KV, explain(t, r8).Memory.KV, 1e-12)

	for _, bad := range []struct { // package operator tests the other reasons
		p    analytic.Parallelism
		want string
	}{{analytic.Parallelism{TP: 7}, "does not divide"}, {analytic.Parallelism{PP: 2, MicroBatches: 3}, "do not divide"}} {
		c := testCase(t, "llama3.1-8b", "h100", 4, 1)
		c.Parallel = bad.p
		if _, err := analytic.Predict(c); err == nil || !strings.Contains(err.Error(), bad.want) {
			t.Errorf("%+v: error %v, want one with %q", bad.p, err, bad.want)
		}
	}
}

// 9. Quantized weights carry their scales; a format without a unit computes in
// the next that has one; head, embedding and norms stay in 16 bits.
func TestPoint9Quantization(t *testing.T) {
	c := testCase(t, "llama3.1-8b", "a100", 1, 1)
	c.Scheme = scheme(t, "w4a16-g128", c.Machine.GPU)
	r := explain(t, c)
	const matrices = 32 * (4096*(4096+2*1024) + 4096*4096 + 3*4096*14336)
	near(t, "weights", float64(r.Memory.Weights), matrices*(0.5+2.5/128)+2*(8030261248-matrices), 1e-9)
	near(t, "head", line(t, r.DecodeOps, "lm_head").Weights, 2*4096*128256, 1e-12)
	near(t, "prefill FLOPs run in bf16", float64(line(t, r.PrefillOps, "down_proj").Floor),
		float64(line(t, r.PrefillOps, "down_proj").FLOPs)/312e12, 1e-9)

	c.Scheme = scheme(t, "fp8", c.Machine.GPU)
	r = explain(t, c)
	near(t, "fp8 on a GPU without it", line(t, r.PrefillOps, "down_proj").Floor, unit.Seconds(2*1024*32*4096*14336/312e12), 1e-9)
	if !strings.Contains(fmt.Sprint(r.Warnings), "no unit for fp8: products run in bf16") {
		t.Errorf("nothing is said of fp8 on an A100: %v", r.Warnings)
	}
	h := testCase(t, "llama3.1-8b", "h100", 1, 1)
	h.Scheme = scheme(t, "fp8", h.Machine.GPU)
	for _, name := range []string{"nvfp4", "w4a4-mxfp4"} { // Marlin in vLLM multiplies them in 16 bits, not in fp8
		h.Scheme = scheme(t, name, h.Machine.GPU)
		near(t, name+" on a GPU without it", line(t, explain(t, h).PrefillOps, "down_proj").Floor, unit.Seconds(2*1024*32*4096*14336/989.4e12),
			1e-3)
	}
	h.Scheme = scheme(t, "fp8", h.Machine.GPU)
	near(t, "fp8 where there is a unit", line(t, explain(t, h).PrefillOps, "down_proj").Floor, unit.Seconds(2*1024*32*4096*14336/1978.9e12),
		1e-3)

	v := testCase(t, "llama3.1-8b", "v100", 1, 1)
	if v.Scheme.Weights != unit.FP16 || v.Scheme.KV != unit.FP16 {
		t.Errorf("V100 has no bf16, and the scheme is %+v", v.Scheme)
	}
}

// 10. Peaks are dense.
func TestPoint10DensePeaks(t *testing.T) {
	for _, x := range []struct {
		gpu  string
		f    unit.Format
		peak unit.FLOPsPerSec
	}{{"h100", unit.BF16, 989.4e12}, {"a100", unit.BF16, 312e12}, {"rtx-4090", unit.BF16, 165.2e12}, {"orin-nano", unit.FP16, 10e12}} {
		_, got := casetest.Machine(t, x.gpu, "native").Runs(x.f)
		near(t, x.gpu, got, x.peak, 0.02)
	}
}

// 11. Every knob changes the answer or is refused.
func TestPoint11EveryKnobCounts(t *testing.T) {
	base := testCase(t, "qwen3-30b-a3b", "h100", 4, 2)
	before := explain(t, base)
	constant := func(k roofline.Constant, v float64) func(*analytic.Case) {
		return func(c *analytic.Case) { *c = *with(t, c, func(all *roofline.Constants) { all[k] = v }) }
	}
	knobs := map[string]func(*analytic.Case){
		"batch":           func(c *analytic.Case) { c.Workload.Batch = 8 },
		"prompt":          func(c *analytic.Case) { c.Workload.PromptLen = 2048 },
		"gen":             func(c *analytic.Case) { c.Workload.GenLen = 256 },
		"chunk":           func(c *analytic.Case) { c.Workload.Chunk = 100 },
		"cached prefix":   func(c *analytic.Case) { c.Workload.CachedPrefix = 512 },
		"all logits":      func(c *analytic.Case) { c.Workload.AllLogits = true },
		"tp":              func(c *analytic.Case) { c.Parallel.TP = 4 },
		"pp":              func(c *analytic.Case) { c.Parallel.PP = 2 },
		"ep":              func(c *analytic.Case) { c.Parallel.EP = 2 },
		"moe-tp":          func(c *analytic.Case) { c.Parallel.DP, c.Parallel.MoETP = 2, 4 },
		"dp":              func(c *analytic.Case) { c.Parallel.DP = 2 },
		"sp":              func(c *analytic.Case) { c.Parallel.SP = true },
		"gpus per node":   func(c *analytic.Case) { c.Parallel.GPUsPerNode = 1 },
		"weights":         func(c *analytic.Case) { c.Scheme.Weights = unit.FP8 },
		"act":             func(c *analytic.Case) { c.Scheme.Weights, c.Scheme.Act = unit.FP8, unit.FP8 },
		"kv":              func(c *analytic.Case) { c.Scheme.KV = unit.FP8 },
		"compute share":   constant(roofline.GEMMCompute, 0.4),
		"memory share":    constant(roofline.GEMMMemory, 0.4),
		"attention share": constant(roofline.AttentionCompute, 0.2),
		"link share":      constant(roofline.LinkShare, 0.2),
		"price":           func(c *analytic.Case) { c.Price = 2 },
		"host":            constant(roofline.HostStep, 1e-3),
	}
	for name, turn := range knobs {
		c := testCase(t, "qwen3-30b-a3b", "h100", 4, 2)
		turn(c)
		if after := explain(t, c); after.Estimate == before.Estimate {
			t.Errorf("%s changes nothing", name)
		}
	}
}

// 12. Memory is counted apart, and what fits follows from what is left.
func TestPoint12Memory(t *testing.T) {
	c := testCase(t, "llama3.1-8b", "a100", 8, 1)
	m := explain(t, c).Memory
	near(t, "sum", m.Total, m.Weights+m.KV+m.State+m.Activations+m.Reserve, 1e-12)
	for _, p := range []*unit.Bytes{&m.Weights, &m.KV, &m.Activations, &m.Reserve} {
		if *p <= 0 {
			t.Errorf("a part of memory is %v", *p)
		}
	}
	c.Workload.Batch = m.MaxBatch
	if most := explain(t, c); !most.Memory.Fits() {
		t.Errorf("max batch %d does not fit: %v", m.MaxBatch, most.Memory.Total)
	}
	c.Workload.Batch++
	over := explain(t, c)
	if over.Memory.Fits() {
		t.Errorf("batch %d fits, one more than the most", c.Workload.Batch)
	}
	if w := fmt.Sprint(over.Warnings); !strings.Contains(w, "does not fit") || !strings.Contains(w, "short") {
		t.Errorf("nothing says that it does not fit: %v", over.Warnings)
	}
	big := explain(t, testCase(t, "llama2-70b", "a100", 1, 1))
	if big.Memory.Fits() || big.Memory.MaxBatch != 0 || big.Memory.MaxTokens != 0 {
		t.Errorf("138 GB of weights on 80 GB: %+v", big.Memory)
	}
}

// Shares above the data sheet would put the expected time below the floor.
func TestCalibrationIsAShare(t *testing.T) {
	m := casetest.Machine(t, "h100", "native")
	for _, share := range []float64{0, -1, 1.01} {
		c := m.Cal
		c.Constants[roofline.GEMMMemory] = share
		if _, err := analytic.NewMachine(m.GPU, c, m.Engine); err == nil || !strings.Contains(err.Error(), "at most 1") {
			t.Errorf("memory efficiency %v: error %v", share, err)
		}
	}
}
