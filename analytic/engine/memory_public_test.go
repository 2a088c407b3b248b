package engine_test

import (
	"math"
	"testing"

	"llmprof/analytic"
	"llmprof/analytic/operator"
	"llmprof/internal/testkit/casetest"
	"llmprof/models"
	"llmprof/unit"
)

// TestPublicStarts holds the tokens of KV cache to what users' servers logged, of whose starts model, GPU, release and settings are told.
// No constant was fitted to them.
func TestPublicStarts(t *testing.T) {
	near3, near10 := 0, 0
	all := []struct {
		model, gpu, release, scheme string
		tp                          int
		share                       float64
		longest, budget             int
		settings                    operator.Settings
		tokens                      float64
		source                      string
	}{
		{"llama3.1-8b", "rtx-3090", "vllm@0.6.4", "w16a16", 1, 0.9, 20000, 20000, operator.Settings{}, 31232, "vllm#10517"},
		{"llama3.1-8b", "rtx-3090", "vllm@0.6.4", "w16a16", 1, 0.9, 29000, 29000, operator.Settings{}, 23648, "vllm#10517"},
		{"qwen3.6-27b", "rtx-3090", "vllm@0.21.0", "awq", 2, 0.92, 262144, 8192,
			operator.Settings{Sequences: 2, PrefixCache: true, Drafts: 3, OwnDrafts: true}, 623873, "club-3090#142"},
		{"qwen3.6-27b", "rtx-3090", "vllm@0.21.0", "awq", 2, 0.88, 262144, 8192, operator.Settings{PrefixCache: true}, 619202, "club-3090#104"},
		{"deepseek-r1", "h200", "sglang@0.5.14", "fp8", 8, 0.82, 32768, 0, operator.Settings{}, 509000, "aisimulate#263"},
		{"qwen3-235b-a22b", "h100", "sglang@0.4.9", "fp8", 4, 0.93, 40960, 0, operator.Settings{}, 367404, "vllm#21348"},
	}
	for _, x := range all {
		c := casetest.Case(t, x.model, x.gpu, 1, x.tp)
		c.Parallel.GPUsPerNode = 8
		c.Machine = casetest.Machine(t, x.gpu, x.release)
		c.Machine.Utilization, c.Scheme, c.Settings = x.share, casetest.Scheme(t, x.scheme, c.Machine.GPU), x.settings
		if x.scheme == "awq" { // the cache in FP8
			c.Scheme.KV = unit.FP8
		}
		c.Workload = analytic.Workload{Batch: 1, PromptLen: 128, GenLen: 128, Longest: x.longest, Budget: x.budget}
		off := predict(t, c).Memory.Logged.Tokens/x.tokens - 1
		t.Logf("%-18s %-14s %-12s %+5.1f %%", x.model, x.source, x.release, 100*off)
		if math.Abs(off) <= 0.03 {
			near3++
		}
		if math.Abs(off) <= 0.1 {
			near10++
		}
	}
	if near3 < 5 || near10 < len(all) {
		t.Errorf("of %d starts %d are within 3 %% and %d within 10 %%", len(all), near3, near10)
	}
}

// TestRoomAsLogged holds what is left for the KV cache to users' logs of releases that sort all scores before they sample: "Available KV
// cache memory", which is below zero where the server stops. Two logs are of gpt-oss-120b, whose experts Marlin runs where a wheel has no
// Triton kernels of them.
func TestRoomAsLogged(t *testing.T) {
	for _, x := range []struct {
		model, release string
		tp             int
		share          float64
		budget         int
		weights, room  float64 // GiB
		source         string
	}{
		{"gpt-oss-120b", "vllm@0.10.1", 1, 0.9, 8192, 65.97, -2.14, "vllm#23278"},
		{"gpt-oss-120b", "vllm@0.11.0", 1, 0.95, 1024, 0, 1.71, "vllm#27508"},
		{"qwen3-235b-a22b", "vllm@0.9.2", 4, 0.9, 8192, 0, 8.11, "vllm#21348"},
	} {
		c := casetest.Case(t, x.model, "h100", 1, x.tp)
		c.Machine = casetest.Machine(t, "h100", x.release)
		c.Machine.Utilization, c.Scheme = x.share, models.StoredScheme(c.Model)
		if x.model == "qwen3-235b-a22b" {
			c.Scheme = casetest.Scheme(t, "fp8", c.Machine.GPU)
		}
		c.Workload = analytic.Workload{Batch: 1, PromptLen: 128, GenLen: 128, Budget: x.budget}
		m := predict(t, c).Memory
		room := float64(m.Usable-m.Weights-m.Activations-m.Reserve) / gib
		t.Logf("%-16s %-12s weights %.2f GiB, activations %.2f, outside %.2f, room %.2f of %.2f", x.model, x.release, float64(m.Weights)/gib,
			float64(m.Activations)/gib, float64(m.Reserve)/gib, room, x.room)
		if x.weights != 0 {
			near(t, "weights, "+x.source, float64(m.Weights)/gib, x.weights, 0.003)
		}
		if math.Abs(room-x.room) > 0.25 {
			t.Errorf("%s: %.2f GiB are left for the cache, the log says %.2f", x.source, room, x.room)
		}
	}
}
