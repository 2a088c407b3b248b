package analytic

import (
	"fmt"
	"math"
	"testing"

	"llmprof/hardware"
	"llmprof/unit"
)

// TestPromptExpertsByHand works out what the choice and the experts of a prompt of Qwen3-30B-A3B take
// by the engine's own kernels: 48 layers, 8 of 128 experts of 2048 × 768. Prompts of 64 tokens or
// fewer, quantized experts and other engines are as they were, and so is the rest of the prompt.
func TestPromptExpertsByHand(t *testing.T) {
	const layers, hidden, width, experts, top, peak, bandwidth = 48.0, 2048.0, 768.0, 128.0, 8.0, 989.4e12, 4.8e12
	k := hardware.Experts{Compute: 0.6, Memory: 0.8, Gather: 3, Sum: 5, ChoiceFixed: 5e-6, ChoicePair: 2e-9, ChoiceExpert: 3e-8}
	for _, tokens := range []int{64, 65, 1024, 8192} {
		was := onEngine(t, "qwen3-30b-a3b", "native", Workload{Batch: 1, Prompt: tokens, Gen: 2})
		was = withCalibration(t, was, func(cal *hardware.Calibration) { cal.Sustained = cal.GEMM.Compute }) // no power limit
		c := withCalibration(t, was, func(cal *hardware.Calibration) { cal.Experts = k })
		r, before := explain(t, c), explain(t, was)
		pairs := float64(tokens) * top
		hit := experts * (1 - math.Pow(1-top/experts, float64(tokens)))
		product := func(values, times float64) float64 { // values of an expert, which the L2 holds
			busy := math.Hypot(2*pairs*values/(k.Compute*peak), 2*hit*values/(k.Memory*bandwidth))
			return layers * (float64(was.Machine.Cal.GEMM.Fixed) + busy + times*2*pairs*hidden/bandwidth)
		}
		want := map[string]float64{
			"top_k":           layers * (float64(k.ChoiceFixed) + pairs*float64(k.ChoicePair) + experts*float64(k.ChoiceExpert)),
			"experts_gate_up": product(2*hidden*width, k.Gather), "experts_down": product(hidden*width, k.Sum),
		}
		sum := 0.0
		for i := range r.PrefillOps {
			l := &r.PrefillOps[i]
			w, own := want[l.Name]
			if !own || tokens <= 64 {
				w = float64(before.PrefillOps[i].Expected)
			}
			near(t, fmt.Sprintf("%d tokens: %s", tokens, l.Name), l.Expected, unit.Seconds(w), 1e-3)
			sum += float64(l.Expected)
		}
		near(t, fmt.Sprintf("%d tokens: TTFT", tokens), predict(t, c).TTFT.Expected, unit.Seconds(sum), 1e-9)
		if r.TPOT != before.TPOT {
			t.Errorf("%d tokens: TPOT %v, was %v", tokens, r.TPOT, before.TPOT)
		}
		c.Scheme = scheme(t, "w8a16-fp8", c.Machine.GPU)
		was.Scheme = c.Scheme
		if got, want := predict(t, c), predict(t, was); got != want {
			t.Errorf("%d tokens: quantized experts are priced as others: %+v, %+v", tokens, got.Prefill, want.Prefill)
		}
	}
	other := onEngine(t, "qwen3-30b-a3b", "vllm", Workload{Batch: 1, Prompt: 1024, Gen: 2})
	if got, want := predict(t, withCalibration(t, other, func(cal *hardware.Calibration) { cal.Experts, cal.Wide, cal.Stream = k, wideByHand(), 1e-6 })), predict(t, other); got != want {
		t.Errorf("another engine has the native one's kernels: %+v, %+v", got, want)
	}
}

// wideByHand are constants of products of many sequences that are easy to tell from others.
func wideByHand() hardware.Wide { return hardware.Wide{Memory: 0.7, Again: 20, Fixed: 9e-6} }

// TestWideByHand works out the products of decode steps of Llama-3.1-8B of 17 to 64 sequences: 32
// layers, hidden 4096, feed-forward 14336, 32 query and 8 key heads of 128, 128256 tokens.
func TestWideByHand(t *testing.T) {
	const layers, hidden, inner, bandwidth = 32.0, 4096.0, 14336.0, 4.8e12
	k := wideByHand()
	for _, batch := range []int{16, 17, 64, 65} {
		was := onEngine(t, "llama3.1-8b", "native", Workload{Batch: batch, Prompt: 512, Gen: 2})
		c := withCalibration(t, was, func(cal *hardware.Calibration) { cal.Wide = k })
		r, before := explain(t, c), explain(t, was)
		product := func(in, out float64) float64 {
			return float64(k.Fixed) + 2*in*out/(k.Memory*bandwidth) + k.Again*2*float64(batch)*(in+out)/bandwidth
		}
		want := map[string]float64{
			"qkv_proj": layers * product(hidden, 6144), "o_proj": layers * product(hidden, hidden), "gate_up_proj": layers * product(hidden, 2*inner),
			"down_proj": layers * product(inner, hidden), "lm_head": product(hidden, 128256),
		}
		for i := range r.DecodeOps {
			l := &r.DecodeOps[i]
			w, own := want[l.Name]
			if !own || batch <= 16 || batch > 64 {
				w = float64(before.DecodeOps[i].Expected)
			}
			near(t, fmt.Sprintf("batch %d: %s", batch, l.Name), l.Expected, unit.Seconds(w), 1e-9)
		}
		near(t, fmt.Sprintf("batch %d: TPOT", batch), predict(t, c).TPOT.Expected, r.TPOT.Expected, 1e-9)
		if r.TTFT != before.TTFT {
			t.Errorf("batch %d: TTFT %v, was %v", batch, r.TTFT, before.TTFT)
		}
	}
	for _, other := range []string{"gemma2-9b", "qwen3-30b-a3b"} { // which have no wide products
		was := onEngine(t, other, "native", Workload{Batch: 32, Prompt: 512, Gen: 2})
		if got, want := predict(t, withCalibration(t, was, func(cal *hardware.Calibration) { cal.Wide = k })), predict(t, was); got != want {
			t.Errorf("%s: %+v, %+v", other, got.Decode, want.Decode)
		}
	}
}

// TestStreamByHand counts the kernels of a prompt of Llama-3.1-8B, none of which a graph has: nine a
// layer, the embedding, the last norm, the LM head and the choice. Steps are graphs.
func TestStreamByHand(t *testing.T) {
	was := onEngine(t, "llama3.1-8b", "native", Workload{Batch: 4, Prompt: 512, Gen: 2})
	was = withCalibration(t, was, func(cal *hardware.Calibration) { cal.Sustained = cal.GEMM.Compute })
	c := withCalibration(t, was, func(cal *hardware.Calibration) { cal.Stream = 2e-6 })
	got, before := predict(t, c), predict(t, was)
	near(t, "what it adds to TTFT", got.TTFT.Expected-before.TTFT.Expected, (32*9+4)*2e-6, 1e-9)
	if got.TPOT != before.TPOT {
		t.Errorf("TPOT %v, was %v", got.TPOT, before.TPOT)
	}
	ops := explain(t, c).PrefillOps
	if host := ops[len(ops)-1]; host.Name != "host" || math.Abs(float64(host.Expected)-(32*9+4)*2e-6-20e-6) > 1e-9 {
		t.Errorf("%s takes %v", host.Name, host.Expected)
	}
}

// Weights that the L2 does not hold come for every tile again, and those that it holds once.
func TestReread(t *testing.T) {
	g := hardware.GPU{ComputeCapability: "9.0", L2: 50e6}
	for _, x := range []struct{ expert, pairs, want float64 }{{40e6, 1000, 1}, {100e6, 100, 1}, {100e6, 320, 1.5}, {200e6, 480, 1 + 2*0.75}} {
		near(t, fmt.Sprint(x), Reread(&g, unit.Bytes(x.expert), x.pairs), x.want, 1e-9)
	}
	if g.L2 = 0; Reread(&g, 100e6, 320) != 1 {
		t.Error("an L2 that is not known holds nothing")
	}
}

// Groups are counted of a step whose experts see the tokens of other ranks too.
func TestGroupsOfSharedExperts(t *testing.T) {
	c := onEngine(t, "qwen3-30b-a3b", "native", Workload{Batch: 64, Prompt: 512, Gen: 2})
	c.Parallel = Parallelism{TP: 1, EP: 8, DP: 8}
	with := withCalibration(t, c, func(cal *hardware.Calibration) {
		cal.Mixture = hardware.Mixture{Memory: 0.8, Again: 0.5, Fixed: 4e-6, Several: 20e-6}
	})
	for _, l := range explain(t, with).DecodeOps {
		if (l.Name == "experts_gate_up" || l.Name == "experts_down") && float64(l.Memory) < float64(l.Weights)/4.8e12 {
			t.Errorf("%s reads %v in %v", l.Name, l.Weights, l.Memory)
		}
	}
}
