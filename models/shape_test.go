package models

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"llmprof/internal/testkit"
	"llmprof/unit"
)

// published reads one config of the published ones.
func published(t *testing.T, name string) *Model {
	t.Helper()
	for _, c := range readCounted(t, "testdata/published.jsonl") {
		if c.ModelType == name {
			m, err := Read(name, c.Config)
			testkit.Must(t, err)
			return m
		}
	}
	t.Fatalf("%s is not among the published configs", name)
	return nil
}

// kinds lists the kinds of layers with their counts.
func kinds(m *Model) []string {
	var names []string
	for _, l := range m.Layers {
		names = append(names, strings.Repeat("x", l.Count)+" "+l.Name)
	}
	return names
}

// Tensor parallelism cuts what it may and copies what it must.
func TestSplits(t *testing.T) {
	m := published(t, "llama2-70b")
	want := []Linear{
		{Name: "q_proj", In: 8192, Out: 8192, Heads: 64},
		{Name: "k_proj", In: 8192, Out: 1024, Heads: 8},
		{Name: "v_proj", In: 8192, Out: 1024, Heads: 8},
	}
	attention, mlp := m.Layers[0].Blocks[0], m.Layers[0].Blocks[1]
	if !slices.Equal(attention.In, want) {
		t.Errorf("into attention: %+v", attention.In)
	}
	if o := attention.Out[0]; o.Split != Rows || o.Heads != 64 {
		t.Errorf("out of attention: %+v", o)
	}
	for _, l := range mlp.In {
		if l.Split != Columns || l.In != 8192 || l.Out != 28672 {
			t.Errorf("into mlp: %+v", l)
		}
	}
	if d := mlp.Out[0]; d.Split != Rows || !mlp.Activation.Gated || mlp.Activation.Width != 28672 {
		t.Errorf("out of mlp: %+v", d)
	}
	if a := attention.Attention; a.RotaryDim != 128 || a.Window != 0 || m.MaxContext != 4096 {
		t.Errorf("attention %+v, context %d", *a, m.MaxContext)
	}
}

// Layers of one kind are one entry, in order of first appearance.
func TestLayerKinds(t *testing.T) {
	for name, want := range map[string][]string{
		"gpt-oss-20b":              {"12 sliding attention + moe", "12 attention + moe"},
		"gemma-3-4b, nested":       {"29 sliding attention + mlp", "5 attention + mlp"},
		"llama-4-scout, nested":    {"36 chunked attention + moe", "12 attention + moe"},
		"deepseek-v3":              {"3 attention + mlp", "58 attention + moe"},
		"nemotron-h-8b":            {"24 mamba2", "24 mlp", "4 attention"},
		"recurrentgemma-2b":        {"18 linear rnn + mlp", "8 sliding attention + mlp"},
		"lfm2-1.2b":                {"10 short conv + mlp", "6 attention + mlp"},
		"falcon-mamba-7b":          {"64 mamba"},
		"qwen2.5-7b":               {"28 attention + mlp"},
		"qwen3-30b-a3b":            {"48 attention + moe"},
		"mamba-2.8b, state-spaces": {"64 mamba"},
	} {
		var got []string
		for _, k := range kinds(published(t, name)) {
			count, rest, _ := strings.Cut(k, " ")
			got = append(got, strings.TrimSpace(strconv.Itoa(len(count))+" "+rest))
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: layers %q, want %q", name, got, want)
		}
	}
}

// What a token adds to the cache, and what a sequence keeps, by hand.
func TestCache(t *testing.T) {
	for _, c := range []struct {
		name            string
		perToken, at32k float64 // values, bf16 takes two bytes for each
		state           float64
		active          int64
	}{
		{"llama2-70b", 80 * 2 * 8 * 128, 80 * 2 * 8 * 128 * 32768, 0, 68976648192},
		{"qwen2.5-7b", 28 * 2 * 4 * 128, 28 * 2 * 4 * 128 * 32768, 0, 7615616512},
		// The compressed cache: 512 values and a rotated key of 64.
		{"deepseek-v3", 61 * 576, 61 * 576 * 32768, 0, 0},
		// Half the layers keep 128 tokens.
		{"gpt-oss-20b", 24 * 2 * 8 * 64, 12 * 2 * 8 * 64 * (32768 + 128), 0, 0},
		{"gemma-3-4b, nested", 34 * 2 * 4 * 256, 2 * 4 * 256 * (5*32768 + 29*1024), 0, 0},
		// 4 layers of attention; 24 of Mamba-2: 128x64x128 states, in the model's format as nothing else is stated, and (8192+2x8x128)x4 inputs.
		{"nemotron-h-8b", 4 * 2 * 8 * 128, 4 * 2 * 8 * 128 * 32768, 24 * (128*64*128 + (8192+2048)*4), 8100852736},
		{"mamba-2.8b, state-spaces", 0, 0, 64 * (5120*16 + 5120*4), 2768345600},
		// One key and one value of 64 for all 71 heads.
		{"falcon-7b", 32 * 2 * 64, 32 * 2 * 64 * 32768, 0, 6921720704},
	} {
		m := published(t, c.name)
		if got := float64(m.KVBytesPerToken(unit.BF16)); got != 2*c.perToken {
			t.Errorf("%s: %g bytes a token, want %g", c.name, got, 2*c.perToken)
		}
		if got := float64(m.CacheBytes(32768, unit.BF16)); got != 2*c.at32k {
			t.Errorf("%s: %g bytes at 32768, want %g", c.name, got, 2*c.at32k)
		}
		state := float64(m.StateBytes(unit.BF16))
		if state != 2*c.state {
			t.Errorf("%s: %g bytes of state, want %g", c.name, state, 2*c.state)
		}
		if c.active != 0 && m.ActiveParams() != c.active {
			t.Errorf("%s: %d active parameters, want %d", c.name, m.ActiveParams(), c.active)
		}
	}
}

// Active parameters are all but the experts that a token is not sent to.
func TestActiveParams(t *testing.T) {
	for name, idle := range map[string]int64{
		"qwen3-30b-a3b":    48 * (128 - 8) * 3 * 2048 * 768,
		"deepseek-v3":      58 * (256 - 8) * 3 * 7168 * 2048,
		"deepseek-v2-lite": 26 * (64 - 6) * 3 * 2048 * 1408,
		"gpt-oss-20b":      24 * (32 - 4) * (3*2880*2880 + 2*2880 + 2880),
		"dbrx":             40 * (16 - 4) * 3 * 6144 * 10752,
	} {
		m := published(t, name)
		if got := m.Params() - m.ActiveParams(); got != idle {
			t.Errorf("%s: %d parameters idle, want %d", name, got, idle)
		}
	}
}

// How the checkpoint is stored is read from quantization_config or dtype.
func TestStored(t *testing.T) {
	for name, want := range map[string]Stored{
		"llama2-70b":  {Weights: unit.FP16, Plain: unit.FP16},
		"qwen2.5-7b":  {Weights: unit.BF16, Plain: unit.BF16},
		"gpt-oss-20b": {Method: "mxfp4", Weights: unit.MXFP4, Experts: true, Group: 32, Plain: unit.BF16},
		"deepseek-v3": {Method: "fp8", Weights: unit.FP8, Act: unit.FP8, Group: 128 * 128, Plain: unit.BF16},
	} {
		if got := published(t, name).Stored; got != want {
			t.Errorf("%s: stored %+v, want %+v", name, got, want)
		}
	}
	for config, want := range map[string]Stored{
		`{"quant_method":"gptq","bits":4,"group_size":128}`:   {Method: "gptq", Weights: unit.INT4, Group: 128},
		`{"quant_method":"awq","bits":4,"group_size":-1}`:     {Method: "awq", Weights: unit.INT4},
		`{"quant_method":"bitsandbytes","load_in_8bit":true}`: {Method: "bitsandbytes", Weights: unit.INT8, Act: unit.INT8},
		`{"quant_method":"bitsandbytes","load_in_4bit":true}`: {Method: "bitsandbytes", Weights: unit.INT4},
		`{"quant_method":"modelopt","quant_algo":"NVFP4"}`:    {Method: "modelopt", Weights: unit.NVFP4, Act: unit.NVFP4, Group: 16},
		`{"quant_method":"compressed-tensors","config_groups":{"group_0":{"weights":{"num_bits":8,"type":"float","strategy":"channel"}}}}`: {
			Method: "compressed-tensors", Weights: unit.FP8,
		},
	} {
		m, err := Read("x", []byte(strings.Replace(llama, "{", `{"dtype":"bfloat16","quantization_config":`+config+",", 1)))
		testkit.Must(t, err)
		want.Plain = unit.BF16
		if m.Stored != want {
			t.Errorf("%s: stored %+v, want %+v", config, m.Stored, want)
		}
	}
}

// What a shape leaves out is noted.
func TestNotes(t *testing.T) {
	for name, want := range map[string]string{
		"llama-4-scout, nested": "the vision tower (vision_config) is not counted",
		"gemma-3-4b, nested": "the vision tower (vision_config) counts in the memory of servers alone: the model is priced as text, " +
			"without images and sound",
		"deepseek-v3": "the draft (MTP) layers (num_nextn_predict_layers) are counted only under a load with speculation",
	} {
		if notes := published(t, name).Notes; !slices.Contains(notes, want) {
			t.Errorf("%s: notes %q lack %q", name, notes, want)
		}
	}
}

// TestIntegerCachesHaveScales checks that caches in q8_0 and q4_0 of llama.cpp take 34 and 18 bytes for 32 values.
func TestIntegerCachesHaveScales(t *testing.T) {
	m := published(t, "llama2-70b")
	for f, block := range map[unit.Format]float64{unit.INT8: 34, unit.INT4: 18, unit.FP8: 32} {
		if got, want := float64(m.KVBytesPerToken(f)), 80*2*8*128*block/32; got != want {
			t.Errorf("%v: %g bytes a token, want %g", f, got, want)
		}
	}
}

// RWKV-4 keeps the sums of its channels and their maximum in float32, and the two tokens before in the model's format
// (RwkvModel.forward of transformers).
func TestRWKVState(t *testing.T) {
	for _, c := range readCounted(t, "testdata/more.jsonl") {
		if c.ModelType != "rwkv" {
			continue
		}
		m, err := Read("x", c.Config)
		testkit.Must(t, err)
		if got, want := m.StateBytes(unit.BF16), unit.Bytes(32*(3*4096*4+2*4096*2)); got != want {
			t.Errorf("%v, want %v", got, want)
		}
		return
	}
	t.Error("no RWKV in the data")
}

// Routers that limit a token's experts to some groups say so; those that choose "greedily" have groups that limit nothing.
func TestLimitedGroups(t *testing.T) {
	const config = `{"model_type": "deepseek_v2", "hidden_size": 64, "intermediate_size": 128, "moe_intermediate_size": 32, ` +
		`"num_hidden_layers": 2,
		"num_attention_heads": 4, "kv_lora_rank": 16, "qk_rope_head_dim": 8, "qk_nope_head_dim": 8, "v_head_dim": 8, "vocab_size": 256,
		"n_routed_experts": 16, "num_experts_per_tok": 6, %s}`
	for fields, want := range map[string][2]int{
		`"n_group": 8, "topk_group": 3, "topk_method": "group_limited_greedy"`: {8, 3},
		`"n_group": 8, "topk_group": 3, "topk_method": "greedy"`:               {},
		`"n_group": 1, "topk_group": 1`:                                        {},
		`"n_group": 8, "topk_group": 8`:                                        {},
		`"n_group": null, "topk_group": 3`:                                     {},
	} {
		m, err := Read("x", fmt.Appendf(nil, config, fields))
		testkit.Must(t, err)
		for _, b := range m.Blocks() {
			if e := b.Experts; e != nil && [2]int{e.Groups, e.TopGroups} != want {
				t.Errorf("%s: %d of %d groups, want %v", fields, e.TopGroups, e.Groups, want)
			}
		}
	}
	for fields, want := range map[string]string{
		`"n_group": 5, "topk_group": 3`:   "n_routed_experts (16) is not a multiple of n_group (5)",
		`"n_group": 8, "topk_group": 2`:   "num_experts_per_tok is 6, and topk_group leaves 4 experts",
		`"n_group": "8", "topk_group": 2`: `n_group is the text "8"; want a whole number`,
	} {
		if _, err := Read("x", fmt.Appendf(nil, config, fields)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %s", fields, err, want)
		}
	}
}
