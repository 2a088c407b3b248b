package engine_test

import (
	"fmt"
	"testing"

	"llmprof/analytic"
	"llmprof/analytic/engine"
	"llmprof/analytic/operator"
	"llmprof/internal/testkit/casetest"
	"llmprof/roofline"
	"llmprof/unit"
)

// inBursts are the constants of a GPU that no power limit slows.
func inBursts(k *roofline.Constants) { k[roofline.GEMMSustained] = k[roofline.GEMMCompute] }

// TestFusedByHand works out what a decode step of Llama-3.1-8B saves by what is fused in
// it, against an engine of the same kernels that fuses nothing: 32 layers, hidden 4096,
// feed-forward 14336, 32 query and 8 key heads of 128. The arithmetic of what is fused
// stays, and so do the weights of the norms.
func TestFusedByHand(t *testing.T) {
	const layers, hidden, inner, heads, dim = 32, 4096, 14336, 32 + 8, 128
	for _, batch := range []int{1, 16, 64, 65} {
		w := analytic.Workload{Batch: batch, PromptLen: 512, GenLen: 2}
		c := with(t, onEngine(t, "llama3.1-8b", "native", w), inBursts)
		k := &c.Machine.Cal.Constants
		apart := with(t, onEngine(t, "llama3.1-8b", "vllm-2024", w), func(other *roofline.Constants) { *other = *k })
		fused, plain := predict(t, c), predict(t, apart)
		fixed := k[roofline.ElementwiseFixed]
		moved := func(values float64) float64 {
			return float64(batch) * values * 2 / (4.8e12 * k[roofline.ElementwiseMemory])
		}
		// Rotation: q and k read and written; the cache write reads k and v.
		want := layers * (fixed + moved(2*heads*dim) + moved(2*8*dim))
		if batch <= 64 { // two norms of four tensors and an activation of three, a layer; the final norm
			want += layers*(3*fixed+moved(2*4*hidden)+moved(3*inner)) + fixed + moved(4*hidden)
		}
		if got := float64(plain.TPOT.Expected - fused.TPOT.Expected); got < want*0.97 || got > want*1.01 {
			t.Errorf("batch %d: %v s saved, want %v s", batch, got, want)
		}
		if plain.TPOT.Floor != fused.TPOT.Floor || plain.Decode.Traffic != fused.Decode.Traffic || plain.Decode.FLOPs != fused.Decode.FLOPs {
			t.Errorf("batch %d: the floor or the work differ: %+v, %+v", batch, plain.Decode, fused.Decode)
		}
		// A prefill fuses nothing but the cache write, and norms the last position alone.
		last := moved(4*hidden) * 511
		if got := float64(plain.TTFT.Expected - fused.TTFT.Expected); got < last*0.97 || got > last*1.01 {
			t.Errorf("batch %d: TTFT differs by %v s, want %v s for the final norm", batch, got, last)
		}
	}
}

// TestFusedInto names the kernel of what has none of its own, at both sides of the
// limits, for weights of 16 bits and quantized ones.
func TestFusedInto(t *testing.T) {
	products := map[string]string{"input_layernorm": "qkv_proj", "post_attention_layernorm": "gate_up_proj", "activation": "gate_up_proj"}
	up := "experts_gate_up"
	mixture := map[string]string{"input_layernorm": up, "qkv_proj": up, "o_proj": up, "post_attention_layernorm": up, "router": up,
		"top_k": up, "experts_down": up,
		"attention": up, "qk_norm_rotary": up, "kv_write": up}
	router := map[string]string{"input_layernorm": "qkv_proj", "post_attention_layernorm": "router"}
	activation := map[string]string{"experts_activation": up}
	for _, x := range []struct {
		model, scheme string
		batch         int
		products      map[string]string
		head          bool
		also          map[string]string
	}{
		{"llama3.1-8b", "", 1, products, true, nil},
		{"llama3.1-8b", "", 16, products, true, nil},
		{"llama3.1-8b", "", 17, products, true, nil}, // on an H200
		{"llama3.1-8b", "", 64, products, true, nil},
		{"llama3.1-8b", "", 65, nil, false, nil},
		{"llama3.1-8b", "w8a16-fp8", 17, products, false, nil},
		{"gemma2-9b", "", 17, nil, false, nil},
		{"llama3.1-8b", "w8a16-fp8", 16, products, true, nil},
		{"llama3.1-8b", "w8a16-fp8", 32, products, false, nil}, // the head's weights have 16 bits
		{"llama3.1-8b", "w8a16-fp8", 33, nil, false, nil},
		{"olmo2-7b", "", 1, map[string]string{"activation": "gate_up_proj"}, true, nil}, // norms behind the blocks
		{"qwen3-30b-a3b", "", 1, mixture, true, activation},
		{"qwen3-30b-a3b", "", 2, router, true, activation},
		{"qwen3-30b-a3b", "w8a16-fp8", 1, map[string]string{"input_layernorm": "qkv_proj", "post_attention_layernorm": "router"}, true,
			activation},
		{"qwen3-30b-a3b", "", 64, nil, false, activation},
		{"gemma2-9b", "", 1, map[string]string{"input_layernorm": "qkv_proj", "pre_feedforward_layernorm": "gate_up_proj",
			"activation": "gate_up_proj"}, true, nil},
	} {
		c := onEngine(t, x.model, "native", analytic.Workload{Batch: x.batch, PromptLen: 512, GenLen: 2})
		if x.scheme != "" {
			c.Scheme = scheme(t, x.scheme, c.Machine.GPU)
		}
		r := explain(t, c)
		for i := range r.DecodeOps {
			l := &r.DecodeOps[i]
			want := x.products[l.Name] + x.also[l.Name]
			switch {
			case l.Name == "norm" && x.head:
				want = "lm_head"
			case want != "":
			case l.Name == "kv_write" || l.Name == "rotary" || l.Name == "qk_norm_rotary":
				if want = "attention"; x.model == "gemma2-9b" && i < len(r.DecodeOps)/2 {
					want = "sliding_attention"
				}
			}
			if l.In != want {
				t.Errorf("%s %s, batch %d: %s of %q is fused into %q, want %q", x.model, x.scheme, x.batch, l.Name, l.Layer, l.In, want)
			}
			if l.In != "" && l.Kind == operator.Element && l.Name != "top_k" && (l.Fixed != 0 || l.Expected > 5e-6) {
				t.Errorf("%s, batch %d: %s takes %v, %v of it fixed", x.model, x.batch, l.Name, l.Expected, l.Fixed)
			}
		}
		for i := range r.PrefillOps {
			l := &r.PrefillOps[i]
			want := x.also[l.Name]
			if l.Name == "kv_write" {
				want = r.PrefillOps[i-1].Name // rotary embedding
			}
			if l.In != want {
				t.Errorf("%s, batch %d: %s of the prefill is fused into %q", x.model, x.batch, l.Name, l.In)
			}
		}
	}
}

// TestSkinnyGEMMByHand works out what the products of a decode step of Llama-3.1-8B
// take by skinny GEMMs, and that beyond their rows, in a prefill and with
// quantized weights it is other constants that hold.
func TestSkinnyGEMMByHand(t *testing.T) {
	c := onEngine(t, "llama3.1-8b", "native", analytic.Workload{Batch: 1, PromptLen: 512, GenLen: 2})
	other := with(t, c, func(k *roofline.Constants) {
		k[roofline.SkinnyGEMMMemory], k[roofline.SkinnyGEMMRow], k[roofline.SkinnyGEMMFixed] = 0.9, 0.01, 3e-6
	}).Machine
	shapes := map[string][3]float64{ // in, out, of so many
		"qkv_proj": {4096, 6144, 32}, "o_proj": {4096, 4096, 32}, "gate_up_proj": {4096, 28672, 32}, "down_proj": {14336, 4096, 32},
		"lm_head": {4096, 128256, 1},
	}
	for _, batch := range []int{1, 16} {
		at, was := *c, *c
		at.Machine = other
		at.Workload.Batch, was.Workload.Batch = batch, batch
		r, before := explain(t, &at), explain(t, &was)
		for i := range r.DecodeOps {
			l := &r.DecodeOps[i]
			s, product := shapes[l.Name]
			want := before.DecodeOps[i].Expected
			b := float64(batch)
			switch {
			case product:
				weights, acts := 2*s[0]*s[1], 2*b*(s[0]+s[1])
				want = unit.Seconds(s[2] * (3e-6 + (weights+acts)/(0.9*4.8e12) + b*0.01*weights/4.8e12))
			case l.In != "" && l.In != "attention":
				continue // a part of its product, in the share of its bytes
			}
			near(t, fmt.Sprintf("batch %d: %s", batch, l.Name), l.Expected, want, 1e-6)
		}
		if r.TTFT != before.TTFT || predict(t, &at).TPOT != r.TPOT {
			t.Errorf("batch %d: TTFT %v, was %v; TPOT %v", batch, r.TTFT, before.TTFT, r.TPOT)
		}
	}
	// Beyond their rows the library's products decode, which take no less than the
	// largest batch of skinny GEMMs.
	largest, beyond, was := *c, *c, *c
	largest.Machine, beyond.Machine = other, other
	largest.Workload.Batch, beyond.Workload.Batch, was.Workload.Batch = 16, 17, 17
	near(t, "batch 17", predict(t, &beyond).TPOT.Expected, max(predict(t, &largest).TPOT.Expected, predict(t, &was).TPOT.Expected), 1e-3)
	c.Scheme = scheme(t, "w8a16-fp8", c.Machine.GPU)
	at := *c
	at.Machine = other
	plain := casetest.Cost(c.Machine, &roofline.Kernel{
		Class: roofline.GEMM, Format: unit.BF16, Work: roofline.Work{Weights: 2 * 4096 * 128256, Acts: 2 * (4096 + 128256)}, Launches: 1,
		Count: 1,
	})
	head := unit.Seconds(3e-6+(2*4096*128256+2*(4096+128256))/(0.9*4.8e12)+0.01*2*4096*128256/4.8e12) - plain.Time
	near(t, "quantized", predict(t, &at).TPOT.Expected, predict(t, c).TPOT.Expected+head, 1e-6)
}

// TestOthersFuseNothing holds that no other engine does an operator within another's
// kernel, but the cache write in that of the rotation, TensorRT-LLM's attention both of these, and
// llama.cpp's product of gate and up the activation of one row.
func TestOthersFuseNothing(t *testing.T) {
	for _, name := range engine.Names() {
		for _, l := range explain(t, onEngine(t, "llama3.1-8b", name, analytic.Workload{Batch: 1, PromptLen: 512, GenLen: 2})).DecodeOps {
			rotates := name == "tensorrt-llm" && l.In == "attention" && (l.Name == "rotary" || l.Name == "kv_write")
			if name != "native" && l.In != "" && !rotates && (l.Name != "kv_write" || l.In != "rotary") &&
				(name != "llama.cpp" || l.Name != "activation") {
				t.Errorf("%s: %s is fused into %s", name, l.Name, l.In)
			}
		}
	}
}

// TestWGMMAByHand works out the products of decode steps of Llama-3.1-8B of 17 to 64 sequences: 32
// layers, hidden 4096, feed-forward 14336, 32 query and 8 key heads of 128, 128256 tokens.
func TestWGMMAByHand(t *testing.T) {
	const layers, hidden, inner, bandwidth = 32.0, 4096.0, 14336.0, 4.8e12
	const memory, reload, fixed = 0.7, 20.0, 9e-6
	wgmma := func(k *roofline.Constants) {
		k[roofline.WGMMAMemory], k[roofline.WGMMAReload], k[roofline.WGMMAFixed] = memory, reload, fixed
	}
	for _, batch := range []int{16, 17, 64} {
		was := onEngine(t, "llama3.1-8b", "native", analytic.Workload{Batch: batch, PromptLen: 512, GenLen: 2})
		c := with(t, was, wgmma)
		r, before := explain(t, c), explain(t, was)
		time := func(in, out float64) float64 {
			return fixed + 2*in*out/(memory*bandwidth) + reload*2*float64(batch)*(in+out)/bandwidth
		}
		want := map[string]float64{
			"qkv_proj": layers * time(hidden, 6144), "o_proj": layers * time(hidden, hidden), "gate_up_proj": layers * time(hidden, 2*inner),
			"down_proj": layers * time(inner, hidden), "lm_head": time(hidden, 128256),
		}
		for i := range r.DecodeOps {
			l := &r.DecodeOps[i]
			w, product := want[l.Name]
			if !product || batch <= 16 {
				w = float64(before.DecodeOps[i].Expected)
			}
			if l.In == "" || l.In == "attention" { // others are a part of their product, in the share of their bytes
				near(t, fmt.Sprintf("batch %d: %s", batch, l.Name), l.Expected, unit.Seconds(w), 1e-4)
			}
		}
		near(t, fmt.Sprintf("batch %d: TPOT", batch), predict(t, c).TPOT.Expected, r.TPOT.Expected, 1e-9)
		if r.TTFT != before.TTFT {
			t.Errorf("batch %d: TTFT %v, was %v", batch, r.TTFT, before.TTFT)
		}
	}
	at := func(batch int) unit.Seconds {
		return predict(t, with(t, onEngine(t, "llama3.1-8b", "native", analytic.Workload{Batch: batch, PromptLen: 512, GenLen: 2}),
			wgmma)).TPOT.Expected
	}
	near(t, "batch 65, by kernels that are faster", at(65), at(64), 1e-9)
	for _, other := range []string{"gemma2-9b", "qwen3-30b-a3b"} { // which have no wgmma GEMMs
		was := onEngine(t, other, "native", analytic.Workload{Batch: 32, PromptLen: 512, GenLen: 2})
		if got, want := predict(t, with(t, was, wgmma)), predict(t, was); got != want {
			t.Errorf("%s: %+v, %+v", other, got.Decode, want.Decode)
		}
	}
}

// TestStreamByHand counts the kernels of a prompt of Llama-3.1-8B, none of which a graph has: nine a
// layer, the embedding, the last norm, the LM head and the choice. Steps are graphs.
func TestStreamByHand(t *testing.T) {
	was := onEngine(t, "llama3.1-8b", "native", analytic.Workload{Batch: 4, PromptLen: 512, GenLen: 2})
	was = with(t, was, inBursts)
	c := with(t, was, func(k *roofline.Constants) { k[roofline.StreamNode] = 2e-6 })
	got, before := predict(t, c), predict(t, was)
	near(t, "what it adds to TTFT", got.TTFT.Expected-before.TTFT.Expected, (32*9+4)*2e-6, 1e-9)
	if got.TPOT != before.TPOT {
		t.Errorf("TPOT %v, was %v", got.TPOT, before.TPOT)
	}
	ops := explain(t, c).PrefillOps
	if host := ops[len(ops)-1]; host.Name != "host" || host.Expected < (32*9+4)*2e-6+20e-6-1e-9 || host.Expected > (32*9+4)*2e-6+20e-6+1e-9 {
		t.Errorf("%s takes %v", host.Name, host.Expected)
	}
}

// TestFusedAllReduceByHand holds which all-reduces products do themselves: two
// a layer of a dense model's decode steps of up to 64 sequences on an H200, the attention's
// alone of a mixture's, none of a prefill; over more GPUs those of few sequences.
func TestFusedAllReduceByHand(t *testing.T) {
	const less = 3e-6 // by which a fused all-reduce is faster than another
	for _, x := range []struct {
		model     string
		tp, batch int
		sums      float64
	}{
		{"llama3.1-8b", 2, 1, 64}, {"llama3.1-8b", 2, 16, 64}, {"llama3.1-8b", 2, 64, 64}, {"llama3.1-8b", 2, 65, 0}, {"llama3.1-8b", 4, 64, 64},
		{"llama3.1-8b", 4, 65, 0},
		{"llama3.1-8b", 8, 17, 0},
		{"llama3.1-8b", 8, 5, 64}, {"llama3.1-8b", 8, 6, 0}, {"qwen3-30b-a3b", 2, 16, 48}, {"qwen3-30b-a3b", 4, 1, 48},
		{"qwen3-30b-a3b", 2, 17, 0},
	} {
		was := onEngine(t, x.model, "native", analytic.Workload{Batch: x.batch, PromptLen: 512, GenLen: 2})
		was.Parallel = analytic.Parallelism{TP: x.tp, GPUsPerNode: 8}
		was = with(t, was, func(k *roofline.Constants) {
			k[roofline.OneShotBase], k[roofline.OneShotPerGPU], k[roofline.FusedAllReduceBase], k[roofline.FusedAllReducePerGPU] = 5e-6, 0, 5e-6, 0
		})
		c := with(t, was, func(k *roofline.Constants) { k[roofline.FusedAllReduceBase] -= less })
		got, before := predict(t, c), predict(t, was)
		near(t, fmt.Sprintf("%s, TP %d, batch %d", x.model, x.tp, x.batch), before.TPOT.Expected-got.TPOT.Expected, unit.Seconds(x.sums*less),
			1e-9)
		if got.TTFT != before.TTFT || explain(t, c).TPOT != got.TPOT {
			t.Errorf("%s, TP %d, batch %d: TTFT %v, was %v; TPOT %v, %v by its operators", x.model, x.tp, x.batch, got.TTFT, before.TTFT, got.TPOT,
				explain(t, c).TPOT)
		}
	}
}

// TestDequantizedByHand works out what weights in FP8 add to a prompt, and to a decode step of more sequences than
// the kernels that dequantize in registers take: every GEMM of the layers reads its weights in FP8, with a scale of
// 4 bytes a row, writes them in 16 bits, and multiplies as 16-bit weights do. Of a mixture all experts are dequantized.
func TestDequantizedByHand(t *testing.T) {
	const (
		dense, denseRows     = 4096*(4096+2*1024) + 4096*4096 + 3*4096*14336, 4096 + 2*1024 + 4096 + 2*14336 + 4096
		mixture, mixtureRows = 2*2048*4096 + 2048*1024 + 128*3*2048*768, 4096 + 1024 + 2048 + 128*(2*768+2048)
	)
	for _, x := range []struct {
		model                string
		layers, values, rows float64
	}{{"llama3.1-8b", 32, dense, denseRows}, {"qwen3-30b-a3b", 48, mixture, mixtureRows}} {
		c := with(t, onEngine(t, x.model, "native", analytic.Workload{Batch: 65, PromptLen: 512, GenLen: 2}), inBursts)
		k := &c.Machine.Cal.Constants
		plain := predict(t, c)
		c.Scheme = scheme(t, "w8a16-fp8", c.Machine.GPU)
		quantized := predict(t, c)
		want := x.layers * (4*k[roofline.ElementwiseFixed] + (3*x.values+4*x.rows)/(4.8e12*k[roofline.ElementwiseMemory]))
		near(t, x.model+": TTFT", float64(quantized.TTFT.Expected-plain.TTFT.Expected), want, 1e-3)
		near(t, x.model+": TPOT", float64(quantized.TPOT.Expected-plain.TPOT.Expected), want, 1e-3)
	}
}
