package engine_test

import (
	"strings"
	"testing"

	"llmprof/analytic/engine"
)

// A misspelt engine is answered with the one that may have been meant.
func TestMisspeltEngine(t *testing.T) {
	for name, want := range map[string]string{"vlm": `did you mean "vllm"?`, "sg-lan": `did you mean "sglang"?`,
		"vllm+flashinfer": `did you mean "vllm"?`, "mlc": "known are vllm, sglang"} {
		if _, err := engine.Parse(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v: want one with %s", name, err, want)
		}
	}
}
