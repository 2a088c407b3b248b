package analytic

import (
	"fmt"
	"testing"

	"llmprof/hardware"
	"llmprof/unit"
)

// without is the machine of a case with an engine that carries nothing.
func without(t *testing.T, c *Case) *Case {
	t.Helper()
	e := c.Machine.Engine
	e.Carries = Carries{}
	m, err := NewMachine(c.Machine.GPU, c.Machine.Cal, e)
	if err != nil {
		t.Fatal(err)
	}
	other := *c
	other.Machine = m
	return &other
}

// TestCarriedByHand works out what a decode step of Llama-3.1-8B saves by what is
// done within other kernels: 32 layers, hidden 4096, feed-forward 14336, 32 query and
// 8 key heads of 128.
func TestCarriedByHand(t *testing.T) {
	const layers, hidden, inner, heads, dim = 32, 4096, 14336, 32 + 8, 128
	for _, batch := range []int{1, 16, 64, 65} {
		c := onEngine(t, "llama3.1-8b", "native", Workload{Batch: batch, Prompt: 512, Gen: 2})
		with, apart := predict(t, c), predict(t, without(t, c))
		e := &c.Machine.Cal.Element
		moved := func(values float64) float64 { return float64(batch) * values * 2 / (4.8e12 * e.Memory) }
		// Rotation: q and k read and written; the cache write reads k and v.
		want := layers * (float64(e.Fixed) + moved(2*heads*dim) + moved(2*8*dim))
		if batch <= 64 { // two norms of four tensors and an activation of three, a layer; the final norm
			want += layers*(3*float64(e.Fixed)+moved(2*4*hidden)+moved(3*inner)) + float64(e.Fixed) + moved(4*hidden)
		}
		if got := float64(apart.TPOT.Expected - with.TPOT.Expected); got < want*0.97 || got > want*1.000001 { // arithmetic stays
			t.Errorf("batch %d: %v s saved, want %v s", batch, got, want)
		}
		if apart.TTFT != with.TTFT || apart.TPOT.Floor != with.TPOT.Floor || apart.Decode.Traffic != with.Decode.Traffic || apart.Decode.FLOPs != with.Decode.FLOPs {
			t.Errorf("batch %d: the prefill, the floor or the work differ: %+v, %+v", batch, apart.Decode, with.Decode)
		}
	}
}

// TestCarriers names the kernel of what has none of its own, at both sides of the
// limits, for weights of 16 bits and quantized ones.
func TestCarriers(t *testing.T) {
	products := map[string]string{"input_layernorm": "qkv_proj", "post_attention_layernorm": "gate_up_proj", "activation": "gate_up_proj"}
	up := "experts_gate_up"
	mixture := map[string]string{"input_layernorm": up, "qkv_proj": up, "o_proj": up, "post_attention_layernorm": up, "router": up, "top_k": up, "experts_down": up,
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
		{"qwen3-30b-a3b", "w8a16-fp8", 1, map[string]string{"input_layernorm": "qkv_proj", "post_attention_layernorm": "router"}, true, activation},
		{"qwen3-30b-a3b", "", 64, nil, false, activation},
		{"gemma2-9b", "", 1, map[string]string{"input_layernorm": "qkv_proj", "pre_feedforward_layernorm": "gate_up_proj", "activation": "gate_up_proj"}, true, nil},
	} {
		c := onEngine(t, x.model, "native", Workload{Batch: x.batch, Prompt: 512, Gen: 2})
		if x.scheme != "" {
			c.Scheme = scheme(t, x.scheme, c.Machine.GPU)
		}
		r, err := Explain(c)
		if err != nil {
			t.Fatal(err)
		}
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
				t.Errorf("%s %s, batch %d: %s of %q is in %q, want %q", x.model, x.scheme, x.batch, l.Name, l.Layer, l.In, want)
			}
			if l.In != "" && l.Kind == Element && l.Name != "top_k" && (l.Fixed != 0 || l.Expected > 5e-6) {
				t.Errorf("%s, batch %d: %s takes %v, %v of it fixed", x.model, x.batch, l.Name, l.Expected, l.Fixed)
			}
		}
		for i := range r.PrefillOps {
			if l := &r.PrefillOps[i]; l.In != x.also[l.Name] {
				t.Errorf("%s, batch %d: %s of the prefill is in %q", x.model, x.batch, l.Name, l.In)
			}
		}
	}
}

// TestOwnProductsByHand works out what the products of a decode step of Llama-3.1-8B
// take by the engine's own kernels, and that beyond their rows, in a prefill and with
// quantized weights it is other constants that hold.
func TestOwnProductsByHand(t *testing.T) {
	c := onEngine(t, "llama3.1-8b", "native", Workload{Batch: 1, Prompt: 512, Gen: 2})
	cal := c.Machine.Cal
	cal.Own = hardware.Rows{Memory: 0.9, Row: 0.01, Fixed: 3e-6}
	other, err := NewMachine(c.Machine.GPU, cal, c.Machine.Engine)
	if err != nil {
		t.Fatal(err)
	}
	shapes := map[string][3]float64{ // in, out, of so many
		"qkv_proj": {4096, 6144, 32}, "o_proj": {4096, 4096, 32}, "gate_up_proj": {4096, 28672, 32}, "down_proj": {14336, 4096, 32}, "lm_head": {4096, 128256, 1},
	}
	for _, batch := range []int{1, 16, 17} {
		at, was := *c, *c
		at.Machine = other
		at.Workload.Batch, was.Workload.Batch = batch, batch
		r, err := Explain(&at)
		if err != nil {
			t.Fatal(err)
		}
		before, err := Explain(&was)
		if err != nil {
			t.Fatal(err)
		}
		for i := range r.DecodeOps {
			l := &r.DecodeOps[i]
			s, product := shapes[l.Name]
			want := before.DecodeOps[i].Expected
			if b := float64(batch); product && batch <= 16 {
				weights, acts := 2*s[0]*s[1], 2*b*(s[0]+s[1])
				want = unit.Seconds(s[2] * (3e-6 + (weights+acts)/(0.9*4.8e12) + b*0.01*weights/4.8e12))
			}
			near(t, fmt.Sprintf("batch %d: %s", batch, l.Name), l.Expected, want, 1e-9)
		}
		if r.TTFT != before.TTFT || predict(t, &at).TPOT != r.TPOT {
			t.Errorf("batch %d: TTFT %v, was %v; TPOT %v", batch, r.TTFT, before.TTFT, r.TPOT)
		}
	}
	c.Scheme = scheme(t, "w8a16-fp8", c.Machine.GPU)
	at := *c
	at.Machine = other
	plain := c.Machine.Cost(&Op{
		Layers: 1, Kind: GEMM, Format: unit.BF16, Weights: 2 * 4096 * 128256, Acts: 2 * (4096 + 128256), Kernels: 1,
	})
	head := unit.Seconds(3e-6+(2*4096*128256+2*(4096+128256))/(0.9*4.8e12)+0.01*2*4096*128256/4.8e12) - plain.Time()
	near(t, "quantized", predict(t, &at).TPOT.Expected, predict(t, c).TPOT.Expected+head, 1e-9)
}

// TestCarriersOfOthers holds that no other profile carries anything, and none that
// does not fuse could.
func TestCarriersOfOthers(t *testing.T) {
	for _, name := range EngineNames() {
		e, err := ParseEngine(name)
		if err != nil {
			t.Fatal(err)
		}
		if (e.Carries != Carries{}) != (name == "native") {
			t.Errorf("%s carries %+v", name, e.Carries)
		}
	}
	c := onEngine(t, "llama3.1-8b", "transformers", Workload{Batch: 1, Prompt: 512, Gen: 2})
	c.Machine.Engine.Carries = Carries{Rows: 16, Rotation: true, Experts: true}
	if got, want := predict(t, c), predict(t, without(t, c)); got != want {
		t.Errorf("unfused kernels carry others: %+v, %+v", got.Decode, want.Decode)
	}
}
