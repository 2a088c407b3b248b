package native

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"llmprof/analytic/operator"
	"llmprof/internal/testkit"
	"llmprof/measure/native/internal/emulate"
	"llmprof/models"
)

// A layer with a window caches no more of the context than its window. A prompt can be decoded from
// again after steps that overwrote its tokens.
func TestWindows(t *testing.T) {
	emulate.Device(t)
	for _, c := range []struct {
		name        string
		prompt, gen int
	}{{"gemma2", 70, 6}, {"gemma2", 45, 7}, {"window", 58, 5}, {"window", 61, 1}, {"gemma3", 30, 8}} {
		t.Run(fmt.Sprintf("%s/%d+%d", c.name, c.prompt, c.gen), func(t *testing.T) {
			t.Parallel()
			if c.name != "gemma2" || c.prompt != 70 {
				emulate.Long(t)
			}
			e := open(t, tiny()[c.name], Options{Seed: 3, Workload: operator.Workload{Batch: 2, PromptLen: c.prompt, GenLen: c.gen}})
			testkit.Must(t, e.SetPrompts(randomPrompts(4, 2, c.prompt, e.shape.vocab)))
			testkit.Must(t, poison(e))
			first, err := e.Prefill()
			testkit.Must(t, err)
			var before [][]float32
			for round := range 2 {
				for i := range c.gen - 1 {
					if _, err := e.Step(); err != nil {
						t.Fatal(err)
					}
					scores, err := e.Logits()
					testkit.Must(t, err)
					if round == 0 {
						before = append(before, scores[1])
					} else if fmt.Sprint(before[i]) != fmt.Sprint(scores[1]) {
						t.Fatalf("step %d has other scores after Rewind", i)
					}
				}
				testkit.Must(t, e.Rewind(first))
			}
			kv := 0
			for _, w := range windows(e.opt.Model) {
				tokens := c.prompt + c.gen - 1
				if w > 0 {
					tokens = min(tokens, w)
				}
				kv += 2 * 2 * 2 * tokens * e.shape.kvHeads * e.shape.headDim // keys and values, bytes, sequences
			}
			if got := e.footprint().KV; got != int64(kv) {
				t.Errorf("the cache takes %d bytes, want %d", got, kv)
			}
		})
	}
}

// Unless the user names it, the engine is chosen only for models that have run on a GPU.
func TestTried(t *testing.T) {
	for name, config := range tiny() {
		m, err := models.Read(name, []byte(config))
		testkit.Must(t, err)
		if !Tried(&Options{Model: m, Config: []byte(config), Workload: operator.Workload{Batch: 1, PromptLen: 100, GenLen: 2}}) {
			t.Errorf("%s: has run on a GPU", name)
		}
		if Tried(&Options{Model: m, Config: []byte(config), FP16: true, Workload: operator.Workload{Batch: 1, PromptLen: 100, GenLen: 2}}) ||
			Tried(&Options{Model: m, Config: []byte(config), Quantization: FP8, Workload: operator.Workload{Batch: 1, PromptLen: 100, GenLen: 2}}) {
			t.Errorf("%s: fp16 and fp8 are for those who name the engine", name)
		}
	}
	for name, config := range shareable() {
		m, err := models.Read(name, []byte(config))
		testkit.Must(t, err)
		for tp, want := range map[int]bool{2: true, 4: true, 8: false} {
			if got := Tried(&Options{Model: m, Config: []byte(config), TP: tp, Workload: operator.Workload{
				Batch: 1, PromptLen: 100, GenLen: 2}}); got != want {
				t.Errorf("%s on %d GPUs: tried %v", name, tp, got)
			}
		}
	}
}

// Gemma's config is read by the names that transformers uses, and with its defaults.
func TestGemmaNumbers(t *testing.T) {
	read := func(family, more string) (shape, error) {
		config := []byte(`{"model_type":"` + family + `","hidden_size":2304,"intermediate_size":128,"num_hidden_layers":2,
			"num_attention_heads":8,"num_key_value_heads":4,"head_dim":256,"vocab_size":256` + more + "}")
		m, err := models.Read("m", config)
		if err != nil {
			t.Fatalf("%s: %v", more, err)
		}
		return readShape(m, config)
	}
	for _, c := range []struct {
		family, more string
		want         gemma
	}{
		{"gemma", "", gemma{offset: true, gelu: true, embedScale: true}},
		{"gemma2", "", gemma{offset: true, gelu: true, embedScale: true, queryScale: 256, attSoftcap: 50, logitSoftcap: 30}},
		{"gemma2", `,"attn_logit_softcapping":null,"final_logit_softcapping":7,"query_pre_attn_scalar":144`, gemma{
			offset: true, gelu: true, embedScale: true, queryScale: 144, logitSoftcap: 7,
		}},
		{"gemma3_text", "", gemma{offset: true, gelu: true, embedScale: true, queryScale: 256, localRope: rope{Theta: 10000, Type: "default"}}},
		{
			"gemma3_text", `,"rope_parameters":{"full_attention":{"rope_type":"linear","factor":8,"rope_theta":5e5},` +
				`"sliding_attention":{"rope_theta":500}}`,
			gemma{offset: true, gelu: true, embedScale: true, queryScale: 256, localRope: rope{Theta: 500, Type: "default"}},
		},
	} {
		s, err := read(c.family, c.more)
		if err != nil || s.gemma != c.want {
			t.Errorf("%s%s: %+v, %v; want %+v", c.family, c.more, s.gemma, err, c.want)
		}
		if want := map[string]float64{"gemma": 10000, "gemma2": 10000, "gemma3_text": 1e6}[c.family]; c.more == "" && s.rope.Theta != want {
			t.Errorf("%s turns by %v, want %v", c.family, s.rope.Theta, want)
		}
	}
	for more, want := range map[string]string{
		`,"hidden_activation":"relu"`:         `"relu"`,
		`,"attn_logit_softcapping":-1`:        "attn_logit_softcapping is -1",
		`,"query_pre_attn_scalar":0`:          "query_pre_attn_scalar is 0",
		`,"rope_local_base_freq":0.5`:         "rope_theta is 0.5",
		`,"use_bidirectional_attention":true`: "causal",
	} {
		var no *UnsupportedError
		if _, err := read("gemma3_text", more); !errors.As(err, &no) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", more, err, want)
		}
	}
}
