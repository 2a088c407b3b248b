package engine_test

import (
	"testing"

	"llmprof/analytic"
	"llmprof/internal/testkit/casetest"
)

// TestPromptsOfMixturesAreLessSure holds that a prompt of a mixture by llama.cpp has a wider interval than one of a dense model, since
// constants of dense kernels price its experts, and that a token, whose kernels take single rows, does not become less sure by that.
func TestPromptsOfMixturesAreLessSure(t *testing.T) {
	width := func(model string) (prompt, token float64) {
		w := analytic.Workload{Batch: 1, PromptLen: 2048, GenLen: 128}
		e := predict(t, casetest.AtHome(t, model, "q4_k_m", "h200", "h200-vm", w))
		return float64(e.TTFT.High / e.TTFT.Low), float64(e.TPOT.High / e.TPOT.Low)
	}
	densePrompt, denseToken := width("llama3.1-8b")
	prompt, token := width("qwen3-30b-a3b")
	if prompt < 1.5*densePrompt {
		t.Errorf("a prompt of a mixture has an interval of %.2f times, one of a dense model of %.2f: want 1.5 times that", prompt, densePrompt)
	}
	if token > 1.5*denseToken {
		t.Errorf("a token of a mixture has an interval of %.2f times, one of a dense model of %.2f", token, denseToken)
	}
}
