package models_test

import (
	"math"
	"testing"

	"llmprof/unit"
)

// TestBuiltIn builds every model of the built-in table, which fails where a
// shape does not reproduce the count that its publisher states.
func TestBuiltIn(t *testing.T) {
	all, err := builtIn(t).All()
	if err != nil {
		t.Error(err)
	}
	if len(all) < 80 {
		t.Errorf("the table has %d models, want at least 80", len(all))
	}
}

// TestActive compares the active parameters of MoE models with those that their publishers state.
// That checks what the total does not: experts a token, shared experts and dense layers. Some
// publishers leave out the input embedding, or the head too.
func TestActive(t *testing.T) {
	const tolerance = 0.03 // most are given to two digits
	table := builtIn(t)
	for _, test := range []struct {
		name     string
		billions float64
		without  float64 // tables of the vocabulary that are not counted
	}{
		{"mixtral-8x7b", 12.9, 0},        // arXiv:2401.04088
		{"mixtral-8x22b", 39, 0},         // mistral.ai/news/mixtral-8x22b
		{"qwen3-30b-a3b", 3.3, 0},        // model card
		{"qwen3-235b-a22b", 22, 0},       // model card
		{"qwen3-coder-480b-a35b", 35, 0}, // model card
		{"deepseek-v2-lite", 2.4, 1},     // arXiv:2405.04434
		{"deepseek-v2", 21, 0},           // arXiv:2405.04434
		{"deepseek-v3", 37, 0},           // arXiv:2412.19437
		{"kimi-k2", 32, 1},               // arXiv:2507.20534
		{"gpt-oss-20b", 3.61, 1},         // arXiv:2508.10925
		{"gpt-oss-120b", 5.13, 1},        // arXiv:2508.10925
		{"glm-4.5", 32, 1},               // arXiv:2508.06471
		{"olmoe-1b-7b", 1.3, 0},          // arXiv:2409.02060
		{"phi-3.5-moe", 6.6, 0},          // arXiv:2404.14219
		{"jamba-v0.1", 12, 0},            // arXiv:2403.19887
		{"jamba-1.5-large", 94, 0},       // arXiv:2408.12570
		{"llama4-scout", 17, 0},          // model card
		{"llama4-maverick", 17, 0},       // model card
		{"granite-4.0-h-small", 9, 0},    // model card
		{"qwen2-57b-a14b", 14, 0},        // model card
		{"minimax-m1", 45.9, 2},          // arXiv:2506.13585
		{"dbrx", 36, 0},                  // databricks.com/blog/introducing-dbrx
		{"hunyuan-a13b", 13, 0},          // model card
		{"deepseek-v4-flash", 13, 1},     // model card
		{"deepseek-v4-pro", 49, 1},       // model card
		{"minimax-m3", 23, 2},            // model card: some 23
		{"kimi-k3", 104, 0},              // github.com/JustVugg/colibri, docs/kimi_k3.md
		{"qwen3.5-397b-a17b", 17, 0},     // its name
		{"qwen3.5-122b-a10b", 10, 0},     // its name
		{"glm-5", 40, 1},                 // model card
		{"mimo-v2-flash", 15, 1},         // model card
		{"nemotron-3-super-120b-a12b", 12, 1},
		{"nemotron-3-ultra-550b-a55b", 55, 1},
	} {
		m, err := table.Model(test.name)
		if err != nil {
			t.Error(err)
			continue
		}
		active := float64(m.ActiveParams()) - test.without*float64(m.Vocab)*float64(m.Hidden)
		if got := active / 1e9; math.Abs(got-test.billions) > tolerance*test.billions {
			t.Errorf("%s has %.3f billion active parameters, published are %v", test.name, got, test.billions)
		}
	}
}

// Releases of one shape that differ in their context have each their own.
func TestContextsOfReleases(t *testing.T) {
	table := builtIn(t)
	for name, want := range map[string]int{
		"Qwen/Qwen3-4B": 40960, "Qwen/Qwen3-4B-Instruct-2507": 262144, "Qwen/Qwen3-235B-A22B-Instruct-2507": 262144,
		"Qwen/Qwen3-30B-A3B-Thinking-2507": 262144,
		"moonshotai/Kimi-K2-Instruct":      131072, "moonshotai/Kimi-K2-Instruct-0905": 262144, "glm-4.5": 131072, "glm-4.6": 202752,
		"zai-org/glm-4-9b": 8192, "zai-org/glm-4-9b-chat": 131072, "Qwen/Qwen3.5-9B": 262144, "Qwen/Qwen3.8-27B": 262144,
	} {
		m, err := table.Model(name)
		if err != nil {
			t.Error(err)
		} else if m.MaxContext != want {
			t.Errorf("%s: %d tokens, want %d", name, m.MaxContext, want)
		}
	}
}

// States of linear attention by hand, in float32 where the config (mamba_ssm_dtype) or the engine (Kimi's delta rule) has them so,
// and the inputs that the convolutions remember in 16 bits.
func TestStatesOfDeltaRules(t *testing.T) {
	table := builtIn(t)
	for name, want := range map[string]int{
		"qwen3.5-27b":        48 * (48*128*128*4 + (2*16+48)*128*4*2),
		"qwen3.5-9b":         24 * (32*128*128*4 + (2*16+32)*128*4*2),
		"qwen3-next-80b-a3b": 36 * (32*128*128*2 + (2*16+32)*128*4*2), // no format is stated
		"kimi-k3":            69 * (96*128*128*4 + 3*96*128*4*2),
		"ling-3.0-tiny":      18 * (16*128*128*4 + 3*16*128*4*2),
	} {
		m, err := table.Model(name)
		if err != nil {
			t.Error(err)
		} else if got := m.StateBytes(unit.BF16); got != unit.Bytes(want) {
			t.Errorf("%s: %.0f bytes, want %d", name, float64(got), want)
		}
	}
}
