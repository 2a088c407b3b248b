package models_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"llmprof/models"
)

// The test's model has two layers of 256 and 512 values, four heads of 64 and two of keys, and 512 tokens.
const (
	partsConfig = `{"model_type":"llama","vocab_size":512,"hidden_size":256,"num_hidden_layers":2,"num_attention_heads":4,"num_key_value_heads":2,` +
		`"intermediate_size":512,"tie_word_embeddings":false,"dtype":"bfloat16","quantization_config":%s}`
	queries, keys, wide = 256 * 256, 128 * 256, 512 * 256 // values of q_proj and o_proj, of k_proj and v_proj, of a matrix of the MLP or of the head
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
		{`{"quant_method":"auto-round","bits":4,"group_size":128,"extra_config":{"model.layers.0.self_attn.q_proj":{"bits":16,"data_type":"float"},` +
			`".*layers\\.1\\.mlp.*":{"bits":8},"model.layers.0.mlp.up_proj":{"group_size":64}}}`,
			plain + 2*attn(4, 128) - gptqBytes(4, 128, 256, 256) + 2*queries + mlp(8, 128) + mlp(4, 128) - gptqBytes(4, 128, 256, 512) + gptqBytes(4, 64, 256, 512)},
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
	const groups = `"config_groups":{"group_0":{"targets":["Linear"],"weights":{"num_bits":4,"type":"int","strategy":"group","group_size":128}}}`
	for quantization, want := range map[string]string{
		`{"quant_method":"gptq","dynamic":{"-:.*mlp.*":{},"+:.*up_proj.*":{"bits":8}}}`:                         "two patterns of quantization_config.dynamic",
		`{"quant_method":"gptq","dynamic":{"+:.*mlp.*":{"bits":"8"}}}`:                                          `dynamic["+:.*mlp.*"].bits is`,
		`{"quant_method":"gptq","dynamic":{"+:.*(?!mlp).*":{"bits":8}}}`:                                        "no regular expression",
		`{"quant_method":"gptq","dynamic":["-:.*mlp.*"]}`:                                                       "dynamic is a list; want an object",
		`{"quant_method":"auto-round","extra_config":{"model.layers.0.mlp.up_proj":8}}`:                         "want an object",
		`{"quant_method":"compressed-tensors","format":"marlin-24",` + groups + `}`:                             "marlin-24",
		`{"quant_method":"compressed-tensors","sparsity_config":{"format":"sparse-24-bitmask"},` + groups + `}`: "sparse-24-bitmask",
		`{"quant_method":"awq","bits_by_layer":{"model.layers.0":8}}`:                                           "quantization_config.bits_by_layer (an object)",
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
