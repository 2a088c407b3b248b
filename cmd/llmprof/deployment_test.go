package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"llmprof/deployment"
	"llmprof/internal/testkit"
	"llmprof/measure/experiment"
)

// The same estimate is asked for by the command, by a program and by an experiment file, and is equal to the last digit.
func TestSameEstimateFromAnywhere(t *testing.T) {
	var command struct {
		TTFT struct{ Expected, Low, High float64 } `json:"ttft_s"`
		TPOT struct{ Expected, Low, High float64 } `json:"tpot_s"`
	}
	got := try(t, "estimate", "llama3.1-8b", "h200", "--engine", "native", "--weights", "bf16", "--tp", "2", "--batch", "4", "--prompt-len",
		"2048", "--format", "json")
	testkit.Must(t, json.Unmarshal([]byte(got.stdout), &command))

	file := filepath.Join(t.TempDir(), "experiment.toml")
	testkit.Must(t, os.WriteFile(file, []byte("model = \"llama3.1-8b\"\nengine = \"native\"\ntp = 2\nbatch = 4\nprompt_len = 2048\n"), 0o600))
	e, err := experiment.Load(file)
	testkit.Must(t, err)
	read, err := e.Points[0].Request("h200")
	testkit.Must(t, err)

	program := &deployment.Request{Model: "llama3.1-8b", GPU: "h200", Engine: "native", Weights: "bf16", TP: new(2), Batch: new(4),
		PromptLen: new(2048)}
	library := deployment.Within(nil)
	for name, q := range map[string]*deployment.Request{"experiment file": read, "program": program} {
		ans, err := library.Answer(t.Context(), q)
		testkit.Must(t, err)
		if c := &command; float64(ans.TTFT.Expected) != c.TTFT.Expected || float64(ans.TPOT.Expected) != c.TPOT.Expected ||
			float64(ans.TTFT.High) != c.TTFT.High || float64(ans.TPOT.Low) != c.TPOT.Low {
			t.Errorf("%s: TTFT %v, TPOT %v; by the command %+v", name, ans.TTFT, ans.TPOT, c)
		}
	}
}
