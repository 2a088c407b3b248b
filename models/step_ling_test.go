package models_test

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"llmprof/internal/testkit"
	"llmprof/models"
	"llmprof/unit"
)

// Counts of tensors by hand, from the shapes in the checkpoints: those of the hub include the biases that correct the
// choice of experts.
func TestStepAndLingByHand(t *testing.T) {
	ling := func(layers, dense, hidden, heads, kv, width, expert, experts, shared, vocab int64) (total, active int64) {
		attention := 2*hidden*heads*128 + 2*hidden*kv*128 + 2*hidden
		one := 3 * hidden * expert
		total = 2*vocab*hidden + hidden + layers*attention + dense*3*hidden*width + (layers-dense)*(experts*(one+hidden)+shared*one)
		return total, one
	}
	mini, miniExpert := ling(20, 1, 2048, 16, 4, 5120, 512, 256, 1, 157184)
	flash, flashExpert := ling(32, 1, 4096, 32, 4, 9216, 1024, 256, 1, 157184)
	large, largeExpert := ling(80, 4, 8192, 64, 8, 18432, 2048, 256, 1, 157184)
	lite, liteExpert := ling(28, 0, 2048, 16, 4, 0, 1408, 64, 2, 126464)
	// 12 layers of 64 query heads and 33 of 96, each with a gate a head; 3 layers without experts.
	step := int64(2*128896*4096+4096) + 45*(2*4096*1024+2*128+2*4096) + (12*64+33*96)*(2*4096*128+4096) +
		3*3*4096*11264 + 42*(289*3*4096*1280+288*4096+288)
	for _, c := range []struct {
		name           string
		params, unused int64
	}{
		{"ling-mini-2.0", mini + 20*2*128 + 19*256, 19 * 248 * miniExpert},
		{"ling-flash-2.0", flash + 32*2*128 + 31*256, 31 * 248 * flashExpert},
		{"ling-1t", large + 80*2*128 + 76*256, 76 * 248 * largeExpert},
		{"ling-lite-1.5", lite, 28 * 58 * liteExpert},
		{"step-3.5-flash", step, 42 * 280 * 3 * 4096 * 1280},
	} {
		m, err := builtIn(t).Model(c.name)
		testkit.Must(t, err)
		if got := m.Params(); got != c.params {
			t.Errorf("%s: %d parameters, want %d", c.name, got, c.params)
		}
		if got := m.Params() - m.ActiveParams(); got != c.unused {
			t.Errorf("%s: %d parameters are idle, want %d", c.name, got, c.unused)
		}
	}
}

// Counts of the hybrids' tensors by hand, from the classes that come with their checkpoints and the bridges of NVIDIA's
// Megatron. Each group of layers has one of latent attention or, in Ring-linear, of grouped queries.
func TestLingHybridsByHand(t *testing.T) {
	type shape struct{ hidden, heads, layers, group, dense, width, expert, experts, query int64 }
	rest := func(s shape) int64 {
		sparse := s.layers - s.dense
		return 2*157184*s.hidden + s.hidden + s.layers*2*s.hidden + s.dense*3*s.hidden*s.width +
			sparse*((s.experts+1)*3*s.hidden*s.expert+s.experts*(s.hidden+1))
	}
	latent := func(s shape) int64 { // latents of 512 and 64, heads of 128 and 64
		query := s.hidden * s.heads * 192
		if s.query > 0 {
			query = s.hidden*s.query + s.query + s.query*s.heads*192
		}
		return query + s.hidden*576 + 512 + 512*s.heads*256 + s.heads*128*s.hidden
	}
	lightning := func(s shape) int64 { // keys, values, queries, gate and output; norms of a head and of all
		return 5*s.hidden*s.heads*128 + 2*128 + s.heads*128
	}
	delta := func(s shape) int64 { // a decay beside the gate; convolutions of 4, the norm of a head, a bias a channel
		inner := s.heads * 128
		return 6*s.hidden*inner + s.hidden*s.heads + 3*4*inner + 128 + inner + s.heads
	}
	ring := shape{2048, 16, 20, 5, 1, 5120, 512, 256, 0}
	second := shape{4096, 32, 32, 8, 1, 9216, 1024, 256, 1536}
	flash := shape{2560, 32, 42, 6, 2, 6144, 768, 512, 0}
	tiny := shape{1536, 16, 24, 4, 1, 4608, 512, 128, 256}
	for _, c := range []struct {
		name           string
		shape          shape
		linear, softer int64
	}{
		{"ring-mini-linear-2.0", ring, lightning(ring), 2048*(16+2*4)*128 + 16*128*2048 + 2*128},
		{"ling-2.6-flash", second, lightning(second), latent(second)},
		{"ling-3.0-flash", flash, delta(flash), latent(flash) + 2560*32},
		{"ling-3.0-tiny", tiny, delta(tiny), latent(tiny) + 1536*16},
	} {
		m, err := builtIn(t).Model(c.name)
		testkit.Must(t, err)
		groups := c.shape.layers / c.shape.group
		if got, want := m.Params(), rest(c.shape)+groups*c.softer+(c.shape.layers-groups)*c.linear; got != want {
			t.Errorf("%s: %d parameters, want %d", c.name, got, want)
		}
		idle := (c.shape.layers - c.shape.dense) * (c.shape.experts - 8) * 3 * c.shape.hidden * c.shape.expert
		if got, want := m.Params()-m.ActiveParams(), idle; got != want {
			t.Errorf("%s: %d parameters are idle, want %d", c.name, got, want)
		}
	}
}

// Layers beyond the last whole group have softmax attention.
func TestLingTail(t *testing.T) {
	m, err := models.Read("tail", edited(t, "ling-2.6-flash", map[string]any{"num_hidden_layers": 19}))
	testkit.Must(t, err)
	for i, layer := range m.Order {
		if got, want := m.Layers[layer].Blocks[0].Attention != nil, i == 7 || i >= 15; got != want {
			t.Errorf("layer %d has softmax attention: %v, want %v", i, got, want)
		}
	}
}

// edited is a built-in model's config with fields set, or left out where they are nil.
func edited(t *testing.T, name string, fields map[string]any) []byte {
	t.Helper()
	text, err := builtIn(t).Config(name)
	testkit.Must(t, err)
	var config map[string]any
	testkit.Must(t, json.Unmarshal(text, &config))
	maps.Copy(config, fields)
	maps.DeleteFunc(config, func(_ string, v any) bool { return v == nil })
	text, err = json.Marshal(config)
	testkit.Must(t, err)
	return text
}

// Step's configs as the hub has them (lists that go on over the draft layers, the decoder in a wrapper, names of
// transformers) read as the same model.
func TestStepSpellings(t *testing.T) {
	const name = "step-3.5-flash"
	want, err := builtIn(t).Model(name)
	testkit.Must(t, err)
	types, factors, sparse, enum := make([]string, 48), make([]float64, 48), make([]string, 45), []int(nil)
	for i := range 48 {
		types[i], factors[i] = "sliding_attention", 1
		if i%4 == 0 {
			types[i], factors[i] = "full_attention", 0.5
		}
	}
	for i := range 45 {
		if sparse[i] = "dense"; i > 2 {
			sparse[i], enum = "sparse", append(enum, i)
		}
	}
	flat := edited(t, name, map[string]any{"layer_types": types, "partial_rotary_factors": factors})
	for spelling, config := range map[string][]byte{
		"lists of 48 layers": flat,
		"wrapped":            []byte(`{"model_type":"step3p7","vision_config":{"width":1536},"text_config":` + string(flat) + `}`),
		"a list of numbers":  edited(t, name, map[string]any{"moe_layers_enum": enum}),
		"transformers": edited(t, name, map[string]any{
			"moe_layers_enum": nil, "mlp_layer_types": sparse, "num_attention_groups": nil, "num_key_value_heads": 8, "moe_num_experts": nil,
			"n_routed_experts": 288, "moe_top_k": nil, "num_experts_per_tok": 8, "attention_other_setting": nil, "num_sliding_attention_heads": 96,
		}),
	} {
		m, err := models.Read(name, config)
		if err != nil {
			t.Errorf("%s: %v", spelling, err)
			continue
		}
		if m.Params() != want.Params() || m.ActiveParams() != want.ActiveParams() || !slices.Equal(m.Order, want.Order) ||
			m.CacheBytes(4096, unit.BF16) != want.CacheBytes(4096, unit.BF16) {
			t.Errorf("%s: %d parameters and %g bytes of cache, want %d and %g", spelling,
				m.Params(), float64(m.CacheBytes(4096, unit.BF16)), want.Params(), float64(want.CacheBytes(4096, unit.BF16)))
		}
	}
	for i, layer := range want.Layers {
		a := layer.Blocks[0].Attention
		if a.Window == 0 && a.RotaryDim != 64 || a.Window != 0 && a.RotaryDim != 128 {
			t.Errorf("layer %d: %d dimensions are rotated with a window of %d", i, a.RotaryDim, a.Window)
		}
	}
}

func TestStepAndLingRefused(t *testing.T) {
	for _, c := range []struct {
		name, want string
		fields     map[string]any
	}{
		{"step-3.5-flash", "moe_layers_enum is missing", map[string]any{"moe_layers_enum": nil}},
		{"step-3.5-flash", `moe_layers_enum holds "x"`, map[string]any{"moe_layers_enum": "3,x"}},
		{"step-3.5-flash", `att_impl_type is "MFA"`, map[string]any{"att_impl_type": "MFA"}},
		{"step-3.5-flash", "layer_types has 47 entries for 45 layers", map[string]any{"layer_types": make([]string, 47)}},
		{"step-3.5-flash", "head_dim is 64 and head_dim 128", map[string]any{
			"attention_other_setting": map[string]any{"num_attention_heads": 96, "head_dim": 64}}},
		{"ling-mini-2.0", "num_experts_per_tok (300) is more than num_experts (256)", map[string]any{"num_experts_per_tok": 300}},
		{"ling-mini-2.0", "multi_gate (true)", map[string]any{"multi_gate": true}},
		{"ling-2.6-flash", "layer_group_size", map[string]any{"layer_group_size": nil}},
		{"ling-2.6-flash", `gated_attention_proj_granularity_type (the text "head_wise")`,
			map[string]any{"gated_attention_proj_granularity_type": "head_wise"}},
		{"ling-3.0-tiny", "no_kda_lora is not true", map[string]any{"no_kda_lora": false}},
		{"ling-3.0-tiny", "short_conv_kernel_size", map[string]any{"short_conv_kernel_size": nil}},
		{"ling-3.0-tiny", `gated_attention_proj_granularity_type is "token_wise"`,
			map[string]any{"gated_attention_proj_granularity_type": "token_wise"}},
		{"ling-3.0-tiny", "pregate_enabled (true)", map[string]any{"pregate_enabled": true}},
	} {
		_, err := models.Read(c.name, edited(t, c.name, c.fields))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s with %v: %v; want %q", c.name, c.fields, err, c.want)
		}
	}
}

// A config of Ling 2.0 that leaves out what its class assumes is the same model; one of the first Ling has neither.
func TestLingSilent(t *testing.T) {
	for name, silent := range map[string][]string{
		"ling-1t": {"use_qk_norm", "moe_router_enable_expert_bias"}, "ling-mini-2.0": {"moe_shared_expert_intermediate_size", "use_bias"},
	} {
		want, err := builtIn(t).Model(name)
		testkit.Must(t, err)
		fields := make(map[string]any)
		for _, f := range silent {
			fields[f] = nil
		}
		m, err := models.Read(name, edited(t, name, fields))
		testkit.Must(t, err)
		if m.Params() != want.Params() {
			t.Errorf("%s without %v: %d parameters, want %d", name, silent, m.Params(), want.Params())
		}
	}
}

// Sizes that llama.cpp printed of others' files: llama-bench's model_size of Step-3.5-Flash in Q4_K_S, which has 64
// factors of rotary positions in 32 bits beside, and 69.75 GiB of Devstral 2 in Q4_K_M.
func TestStepAndDevstralInLlamaCpp(t *testing.T) {
	for _, c := range []struct {
		name, mix   string
		bytes, most float64
	}{
		{"step-3.5-flash", "q4_k_s", 111493808640 - 64*4, 0},
		{"devstral-2-123b", "q4_k_m", 69.75 * (1 << 30), 0.005 * (1 << 30)},
	} {
		m, err := builtIn(t).Model(c.name)
		testkit.Must(t, err)
		q, err := models.Quantize(m, c.mix)
		testkit.Must(t, err)
		if off := float64(q.StoredBytes()) - c.bytes; off > c.most || off < -c.most {
			t.Errorf("%s in %s: %.0f bytes more than llama.cpp has", c.name, c.mix, off)
		}
	}
}
