package view

import (
	"strings"
	"testing"

	"llmprof/internal/testkit/casetest"
)

// The line of the KV cache says how it grows before and after the windows are full, by hand.
func TestCacheGrowth(t *testing.T) {
	for name, want := range map[string]string{
		"llama3.1-8b":     "",
		"gemma3-27b":      " until a sliding window is full, 81.92 kB beyond 1024 tokens", // 10 of 62 layers, 16 heads of 128
		"mistral-7b-v0.1": " up to 4096 tokens, which its sliding windows hold",
		"deepseek-v4-pro": " until a sliding window is full, 5.511 kB beyond 128 tokens", // 30 × (584 + 132) / 4 + 31 × 584 / 128
	} {
		if got := untilFull(casetest.Model(t, name)); got != want {
			t.Errorf("%s: %q, want %q", name, strings.TrimSpace(got), strings.TrimSpace(want))
		}
	}
}
