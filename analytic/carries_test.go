package analytic

import (
	"testing"
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
	for _, batch := range []int{1, 16, 17, 64} {
		c := onEngine(t, "llama3.1-8b", "native", Workload{Batch: batch, Prompt: 512, Gen: 2})
		with, apart := predict(t, c), predict(t, without(t, c))
		e := &c.Machine.Cal.Element
		moved := func(values float64) float64 { return float64(batch) * values * 2 / (4.8e12 * e.Memory) }
		// Rotation: q and k read and written; the cache write reads k and v.
		want := layers * (float64(e.Fixed) + moved(2*heads*dim) + moved(2*8*dim))
		if batch <= 16 { // two norms of four tensors and an activation of three, a layer; the final norm
			want += layers*(3*float64(e.Fixed)+moved(2*4*hidden)+moved(3*inner)) + float64(e.Fixed) + moved(4*hidden)
		}
		if got := float64(apart.TPOT.Expected - with.TPOT.Expected); got < want*0.98 || got > want*1.000001 { // arithmetic stays
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
	for _, x := range []struct {
		model, scheme string
		batch         int
		products      map[string]string
		head          bool
		also          map[string]string
	}{
		{"llama3.1-8b", "", 1, products, true, nil},
		{"llama3.1-8b", "", 16, products, true, nil},
		{"llama3.1-8b", "", 17, nil, false, nil},
		{"llama3.1-8b", "w8a16-fp8", 16, products, true, nil},
		{"llama3.1-8b", "w8a16-fp8", 32, products, false, nil}, // the head's weights have 16 bits
		{"llama3.1-8b", "w8a16-fp8", 33, nil, false, nil},
		{"olmo2-7b", "", 1, map[string]string{"activation": "gate_up_proj"}, true, nil}, // norms behind the blocks
		{"qwen3-30b-a3b", "", 1, map[string]string{"input_layernorm": "qkv_proj", "post_attention_layernorm": "router"}, true, map[string]string{"experts_activation": "experts_gate_up"}},
		{"qwen3-30b-a3b", "", 64, nil, false, map[string]string{"experts_activation": "experts_gate_up"}},
		{"gemma2-9b", "", 1, map[string]string{"input_layernorm": "qkv_proj", "pre_feedforward_layernorm": "gate_up_proj", "activation": "gate_up_proj"}, true, nil},
	} {
		c := onEngine(t, x.model, "native", Workload{Batch: x.batch, Prompt: 512, Gen: 2})
		if x.scheme != "" {
			s, err := ParseScheme(x.scheme)
			if err != nil {
				t.Fatal(err)
			}
			c.Scheme = s
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
			case l.Name == "kv_write" || l.Name == "rotary" || l.Name == "qk_norm_rotary":
				if want = "attention"; x.model == "gemma2-9b" && i < len(r.DecodeOps)/2 {
					want = "sliding_attention"
				}
			}
			if l.In != want {
				t.Errorf("%s %s, batch %d: %s of %q is in %q, want %q", x.model, x.scheme, x.batch, l.Name, l.Layer, l.In, want)
			}
			if l.In != "" && (l.Fixed != 0 || l.Expected > 5e-6) {
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
