package models_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"

	"llmprof/internal/testkit"
	"llmprof/models"
)

// A foreign config is one of aiconfigurator-core 0.12.0 or of AISimulate 0.13.0 (NVIDIA, Apache-2.0, model_configs): config.json as the hub
// has it and, of NVIDIA's own checkpoints, hf_quant_config.json.
type foreign struct {
	Name          string
	Config, Quant string // the texts of the files
}

func aiconfigurator(t testing.TB) []foreign {
	t.Helper()
	var all []foreign
	for line := range bytes.Lines(testkit.Unzipped(t, "testdata/aiconfigurator.jsonl.gz")) {
		var c foreign
		testkit.Must(t, json.Unmarshal(line, &c))
		all = append(all, c)
	}
	return all
}

// Every config is read, or refused with the reason.
func TestAIConfigurator(t *testing.T) {
	var b strings.Builder
	for _, c := range aiconfigurator(t) {
		m, err := models.Checkpoint{Config: []byte(c.Config), Quant: []byte(c.Quant)}.Read(c.Name)
		if err != nil {
			reason, _, _ := strings.Cut(err.Error(), "; its fields")
			fmt.Fprintf(&b, "%s\n", reason)
			continue
		}
		st := m.Stored
		fmt.Fprintf(&b, "%s: params=%d bytes=%.0f method=%q weights=%v act=%v kv=%v experts_only=%v\n",
			c.Name, m.Params(), float64(m.StoredBytes()), st.Method, st.Weights, st.Act, st.KV, st.Experts)
	}
	testkit.Golden(t, "testdata/aiconfigurator.golden", b.String())
}

// Sizes by a second route: the index of the checkpoint on the hub, or the matrices by hand.
func TestStoredBytesByHand(t *testing.T) {
	const nvfp4 = 4.5 / 8 // a byte for each 16 values
	want := map[string]float64{
		// total_size of model.safetensors.index.json on the hub.
		"openai/gpt-oss-20b": 13761264768, "openai/gpt-oss-120b": 65248815744,
		// The matrices of 80 layers in 8 bits with two float32 each; embedding, head and norms in 16 bits.
		"nvidia/Llama-3.1-70B-Instruct-FP8": 80*(2*8192*8192+2*8192*1024+3*8192*28672) + 80*7*8 + 2*(2*128256*8192+161*8192),
		// Products of the MLP in 4.5 bits with two float32 each, attention and the tied embedding in 16: 50 layers of 32 heads of
		// 256 and 16 key heads, 10 of 32 heads of 512 and 4 key heads that are the values too. Norms of 4 a layer and
		// those of queries and keys, and a scale a layer.
		"nvidia/Gemma-4-31B-IT-NVFP4": 60*3*(5376*21504*nvfp4+8) +
			2*(50*5376*256*(32+16+16+32)+10*5376*512*(32+4+32)) + 2*(262144*5376+60*4*5376+5376+50*2*256+10*2*512+60),
		// All but routers, head and embedding in 4.5 bits.
		"nvidia/Qwen3-235B-A22B-NVFP4": 94*((4096*8192*2+2*4096*512)*nvfp4+4*8+128*3*(4096*1536*nvfp4+8)) +
			2*(2*151936*4096+94*(128*4096+2*4096+2*128)+4096),
		// Experts in 4.5 bits, everything else in 16.
		"nvidia/MiniMax-M2.5-NVFP4": 62*256*3*(3072*1536*nvfp4+8) +
			2*(2*200064*3072+62*(2*3072*6144+2*3072*1024+256*3072+256+6144+1024+2*3072)+3072),
	}
	for _, c := range aiconfigurator(t) {
		if want[c.Name] == 0 {
			continue
		}
		m, err := models.Checkpoint{Config: []byte(c.Config), Quant: []byte(c.Quant)}.Read(c.Name)
		testkit.Must(t, err)
		if got := float64(m.StoredBytes()); math.Abs(got-want[c.Name]) > 1e-6*want[c.Name] {
			t.Errorf("%s: %.0f bytes, want %.0f (%+.3f %%)", c.Name, got, want[c.Name], 100*(got/want[c.Name]-1))
		}
		delete(want, c.Name)
	}
	if len(want) > 0 {
		t.Errorf("not found: %v", want)
	}
}

// SGLang's FP8 conversions of DeepSeek-V4 name no family but their class: they have the parameters of the originals. Another class
// of that type is refused.
func TestConversionsOfDeepSeek(t *testing.T) {
	params := map[string]int64{}
	for _, c := range aiconfigurator(t) {
		if strings.Contains(c.Name, "/DeepSeek-V4-") {
			m, err := models.Read(c.Name, []byte(c.Config))
			testkit.Must(t, err)
			params[c.Name] = m.Params()
		}
		if !strings.HasPrefix(c.Name, "sgl-project/") {
			continue
		}
		other := strings.Replace(c.Config, "DeepseekV4ForCausalLM", "DeepseekV5ForCausalLM", 1)
		if _, err := models.Read(c.Name, []byte(other)); err == nil || !strings.Contains(err.Error(), `model_type "deepseek_ref" is not known`) {
			t.Errorf("%s of another class: %v", c.Name, err)
		}
	}
	for _, size := range []string{"Flash", "Pro"} {
		if a, b := params["sgl-project/DeepSeek-V4-"+size+"-FP8"], params["deepseek-ai/DeepSeek-V4-"+size]; a != b || a == 0 {
			t.Errorf("%s: %d parameters converted, %d before", size, a, b)
		}
	}
}

// The test reads quantizations from tiny configs and checks what each is, or that it is refused.
func TestQuantizationsRefused(t *testing.T) {
	for config, want := range map[string]string{
		`"quantization_config":{"quant_method":"exl3"}`:                          `quant_method is "exl3", which is not understood`,
		`"quantization_config":{"quant_method":"modelopt","quant_algo":"FP2"}`:   `quant_algo is "FP2", which is not understood`,
		`"quantization_config":{"quant_method":"gptq","bits":16}`:                "bits is 16; want one of [2 3 4 8]",
		`"quantization_config":{"quant_method":"fp8","weight_block_size":[128]}`: "weight_block_size is [128]; want two sizes",
		`"quantization_config":{"quant_method":"compressed-tensors"}`: "config_groups is null; want the format of " +
			"each group",
		`"quantization_config":{"quant_method":"fp8","ignore":["re:("]}`:                   "no regular expression",
		`"quantization_config":{"quant_method":"modelopt","quant_algo":"MIXED_PRECISION"}`: "quantized_layers is null",
		`"routed_expert_hidden_size":3584`:                                                 "routed_expert_hidden_size (3584)",
		`"kv_compress_ratio":4`:                                                            "kv_compress_ratio (4)",
		`"sliding_window":"4096"`:                                                          `sliding_window`,
		`"hidden_act":"zilu"`:                                                              `hidden_act is "zilu", a function that is not known`,
		`"hidden_act":["silu"]`:                                                            "hidden_act is a list",
		`"quantization_config":{"quant_method":"fp8","kv_cache_scheme":{"num_bits":3}}`: "kv_cache_scheme is an object, which is not " +
			"understood",
		`"quantization_config":{"quant_method":"compressed-tensors","config_groups":{"a":1}}`: "config_groups.a is 1; want an object",
	} {
		text := `{"model_type":"llama","vocab_size":512,"hidden_size":256,"num_hidden_layers":2,"num_attention_heads":4,` +
			`"intermediate_size":512,"dtype":"bfloat16",` + config + "}"
		if _, err := models.Read("x", []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %q", config, err, want)
		}
		if !strings.Contains(want, "not understood") && !strings.Contains(want, "_ratio") {
			continue
		}
		m, err := models.Checkpoint{Config: []byte(text), Lenient: true}.Read("x")
		if err != nil || len(m.Notes) == 0 {
			t.Errorf("%s, lenient: %v", config, err)
		}
	}
}

// FuzzCheckpoint: whatever the two files say, a model has finite bytes.
func FuzzCheckpoint(f *testing.F) {
	for _, c := range aiconfigurator(f) {
		if len(c.Config) < 5000 && len(c.Quant) < 5000 {
			f.Add([]byte(c.Config), []byte(c.Quant))
		}
	}
	for _, l := range layouts(f) {
		f.Add([]byte(l.Config), []byte(nil))
	}
	f.Fuzz(func(t *testing.T, config, quant []byte) {
		for _, lenient := range []bool{false, true} {
			m, err := models.Checkpoint{Config: config, Quant: quant, Lenient: lenient}.Read("fuzz")
			if err != nil {
				continue
			}
			if b := float64(m.StoredBytes()); b < 0 || math.IsNaN(b) || b > 1e17 {
				t.Errorf("%g bytes", b)
			}
		}
	})
}
