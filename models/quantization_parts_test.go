package models_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"llmprof/models"
	"llmprof/unit"
)

// The test's model has two layers of 256 and 512 values, four heads of 64 and two of keys, and 512 tokens.
const (
	partsConfig = `{"model_type":"llama","vocab_size":512,"hidden_size":256,"num_hidden_layers":2,"num_attention_heads":4,` +
		`"num_key_value_heads":2,` +
		`"intermediate_size":512,"tie_word_embeddings":false,"dtype":"bfloat16","quantization_config":%s}`
	// Values of q_proj and o_proj, of k_proj and v_proj, of a matrix of the MLP or of the head.
	queries, keys, wide = 256 * 256, 128 * 256, 512 * 256
	attnValues          = 2*queries + 2*keys
)

// Bytes of a matrix of so many inputs and outputs by GPTQ: values, a scale and a zero point a group, and the order of the groups.
func gptqBytes(bits, group, in, out float64) float64 {
	return in*out*bits/8 + in*out/group*(2+bits/8) + 4*in
}

// Formats of single modules by a second route, matrix by matrix.
func TestFormatsOfModules(t *testing.T) {
	const plain = 2 * (2*wide + 5*256) // embedding, head and norms
	attn := func(bits, group float64) float64 {
		return 2*gptqBytes(bits, group, 256, 256) + 2*gptqBytes(bits, group, 256, 128)
	}
	mlp := func(bits, group float64) float64 {
		return 2*gptqBytes(bits, group, 256, 512) + gptqBytes(bits, group, 512, 256)
	}
	const gptq = `"quant_method":"gptq","bits":4,"group_size":128`
	for _, c := range []struct {
		quantization string
		want         float64
	}{
		{`{` + gptq + `}`, plain + 2*(attn(4, 128)+mlp(4, 128))},
		{`{` + gptq + `,"lm_head":true}`, plain - 2*wide + gptqBytes(4, 128, 256, 512) + 2*(attn(4, 128)+mlp(4, 128))},
		// Qwen3.5's GPTQ checkpoints leave attention in 16 bits so.
		{`{` + gptq + `,"dynamic":{"lm_head":{},"-:.*attn.*":{}}}`, plain + 2*(2*attnValues+mlp(4, 128))},
		{`{` + gptq + `,"dynamic":{"+:.*layers\\.1\\..*attn.*":{"bits":8,"group_size":64}}}`, plain + attn(8, 64) + attn(4, 128) + 2*mlp(4, 128)},
		{`{` + gptq + `,"modules_in_block_to_quantize":[["self_attn.q_proj","self_attn.k_proj"],["self_attn.v_proj","self_attn.o_proj"]]}`,
			plain + 2*(attn(4, 128)+2*3*wide)},
		{`{"quant_method":"auto-round","bits":4,"group_size":128,"extra_config":{"model.layers.0.self_attn.q_proj":{"bits":16,` +
			`"data_type":"float"},` +
			`".*layers\\.1\\.mlp.*":{"bits":8},"model.layers.0.mlp.up_proj":{"group_size":64}}}`,
			plain + 2*attn(4, 128) - gptqBytes(4, 128, 256, 256) + 2*queries + mlp(8, 128) + mlp(4, 128) - gptqBytes(4, 128, 256, 512) + gptqBytes(4,
				64, 256, 512)},
	} {
		m, err := models.Read("x", fmt.Appendf(nil, partsConfig, c.quantization))
		if err != nil {
			t.Errorf("%s: %v", c.quantization, err)
		} else if got := float64(m.StoredBytes()); math.Abs(got-c.want) > 0.5 {
			t.Errorf("%s: %.0f bytes, want %.0f", c.quantization, got, c.want)
		}
	}
}

// Parts of a quantization that would change bytes or products and are not understood are refused.
func TestPartsOfQuantizationsRefused(t *testing.T) {
	const groups = `"config_groups":{"group_0":{"targets":["Linear"],"weights":{"num_bits":4,"type":"int","strategy":"group",` +
		`"group_size":128}}}`
	for quantization, want := range map[string]string{
		`{"quant_method":"gptq","dynamic":{"-:.*mlp.*":{},"+:.*up_proj.*":{"bits":8}}}`: "two patterns of " +
			"quantization_config.dynamic",
		`{"quant_method":"gptq","dynamic":{"+:.*mlp.*":{"bits":"8"}}}`:   `dynamic["+:.*mlp.*"].bits is`,
		`{"quant_method":"gptq","dynamic":{"+:.*(?!mlp).*":{"bits":8}}}`: "no regular expression",
		`{"quant_method":"gptq","dynamic":["-:.*mlp.*"]}`: "dynamic is a list; want an " +
			"object",
		`{"quant_method":"auto-round","extra_config":{"model.layers.0.mlp.up_proj":8}}`:                         "want an object",
		`{"quant_method":"compressed-tensors","format":"marlin-24",` + groups + `}`:                             "marlin-24",
		`{"quant_method":"compressed-tensors","sparsity_config":{"format":"sparse-24-bitmask"},` + groups + `}`: "sparse-24-bitmask",
		`{"quant_method":"awq","bits_by_layer":{"model.layers.0":8}}`: "quantization_config.bits_by_layer" +
			" (an object)",
		`"fp8"`:             `quantization_config is the text "fp8"; want an object`,
		`["fp8"]`:           "quantization_config is a list; want an object",
		`{"group_size":64}`: "quantization_config.quant_method is missing; want one of",
		`{"quant_method":"gptq","bits":4,"group_size":0}`: "quantization_config.group_size is 0; want the values of " +
			"a group, or -1 for a whole row",
		`{"quant_method":"awq","bits":4,"group_size":0}`:    "quantization_config.group_size is 0",
		`{"quant_method":"gptq","bits":5,"group_size":128}`: "quantization_config.bits is 5; want one of [2 3 4 8]",
		`{"quant_method":"awq","bits":3,"group_size":128}`:  "quantization_config.bits is 3; want one of [4]",
		`{"quant_method":"bitsandbytes","load_in_4bit":false,"load_in_8bit":false}`: "quantization_config sets neither of load_in_4bit and " +
			"load_in_8bit; want one",
		`{"quant_method":"compressed-tensors","config_groups":{"group_0":{"targets":["Linear"],"weights":{"num_bits":4,"type":"int",` +
			`"strategy":"group"}}}}`: "config_groups.group_0.weights.group_size is null; want the values of a group",
	} {
		if _, err := models.Read("x", fmt.Appendf(nil, partsConfig, quantization)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %q", quantization, err, want)
		}
	}
	for _, harmless := range []string{
		`{"quant_method":"compressed-tensors","sparsity_config":{"format":"dense"},"version":"0.10",` + groups + `}`,
		`{"quant_method":"gptq","meta":{"quantizer":["gptqmodel:5.0"]},"dataset":["c4"],"dynamic":null,"extra_config":{}}`,
	} {
		if _, err := models.Read("x", fmt.Appendf(nil, partsConfig, harmless)); err != nil {
			t.Errorf("%s: %v", harmless, err)
		}
	}
}

// Quark, of AMD: a format for all modules, and those of modules by patterns as of a shell.
func TestQuark(t *testing.T) {
	const (
		plain  = 2 * (2*wide + 5*256)
		values = attnValues + 3*wide
		fp8    = `{"dtype":"fp8_e4m3","qscheme":"per_tensor","is_dynamic":false,"symmetric":true}`
		rows   = `{"dtype":"fp8_e4m3","qscheme":"per_channel","is_dynamic":false}`
		fp4    = `{"dtype":"fp4","qscheme":"per_group","group_size":32,"scale_format":"e8m0","is_dynamic":%v}`
	)
	mx, mxInput := fmt.Sprintf(fp4, false), fmt.Sprintf(fp4, true)
	for _, c := range []struct {
		quantization string
		want         float64
		act, kv      unit.Format
	}{
		{`"global_quant_config":{"weight":` + fp8 + `,"input_tensors":` + fp8 + `},"layer_quant_config":{"*k_proj":{"weight":` + fp8 +
			`,"input_tensors":` + fp8 + `,"output_tensors":` + fp8 + `}},` +
			`"export":{"kv_cache_group":["*k_proj","*v_proj"]},"exclude":["lm_head"]`, plain + 2*(values+7*8), unit.FP8, unit.FP8},
		{`"global_quant_config":{"weight":` + rows + `,"input_tensors":{"dtype":"fp8_e4m3","qscheme":"per_channel","is_dynamic":true}},` +
			`"exclude":["lm_head"]`,
			plain + 2*(values+4*(256+2*128+256+2*512+256)), unit.FP8, unit.NoFormat},
		{`"global_quant_config":{"weight":` + mx + `,"input_tensors":` + mxInput +
			`},"layer_quant_config":{},"exclude":["lm_head","*self_attn*"]`,
			plain + 2*(2*attnValues+3*wide*4.25/8), unit.MXFP4, unit.NoFormat},
		{`"global_quant_config":{"weight":` + mx + `,"input_tensors":null},"layer_quant_config":{"*self_attn*":{"weight":` + fp8 +
			`,"input_tensors":` + fp8 + `}},` +
			`"kv_cache_quant_config":{"*k_proj":{"output_tensors":` + fp8 + `}},"exclude":["re:model.layers.0.*","lm_head"]`,
			plain + 2*values + attnValues + 4*8 + 3*wide*4.25/8, unit.NoFormat, unit.FP8},
	} {
		m, err := models.Read("x", fmt.Appendf(nil, partsConfig, `{"quant_method":"quark",`+c.quantization+`}`))
		if err != nil {
			t.Errorf("%s: %v", c.quantization, err)
			continue
		}
		if got := float64(m.StoredBytes()); math.Abs(got-c.want) > 0.5 || m.Stored.Act != c.act || m.Stored.KV != c.kv {
			t.Errorf("%s: %.0f bytes, activations %v, cache %v; want %.0f, %v, %v", c.quantization, got, m.Stored.Act, m.Stored.KV, c.want, c.act,
				c.kv)
		}
	}
	for quantization, want := range map[string]string{
		`"global_quant_config":{"weight":{"dtype":"fp6_e2m3","qscheme":"per_group","group_size":32}}`: `weight is the text "fp6_e2m3" by the ` +
			`text "per_group"`,
		`"global_quant_config":{"weight":[` + fp8 + `]}`:                                       "weight is a list; want an object",
		`"global_quant_config":{}`:                                                             "weight is null; want an object",
		`"global_quant_config":{"weight":` + fp8 + `,"input_tensors":{"dtype":[]}}`:            "with inputs that are a list",
		`"global_quant_config":{"weight":` + fp8 + `},"layer_type_quant_config":{"Linear":{}}`: "layer_type_quant_config (an object)",
	} {
		if _, err := models.Read("x", fmt.Appendf(nil, partsConfig, `{"quant_method":"quark",`+quantization+`}`)); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %q", quantization, err, want)
		}
	}
}
