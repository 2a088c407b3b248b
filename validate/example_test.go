package validate_test

import (
	"fmt"

	"llmprof"
	"llmprof/hardware"
	"llmprof/models"
	"llmprof/validate"
)

// Two made-up figures are held against their predictions.
func ExampleScorer() {
	table, err := models.Load(llmprof.ModelsJSON)
	if err != nil {
		fmt.Println(err)
		return
	}
	gpus, err := hardware.Load(llmprof.HardwareTOML)
	if err != nil {
		fmt.Println(err)
		return
	}
	s := &validate.Scorer{
		Model: table.Model,
		GPU:   func(name string) (*hardware.GPU, error) { g, err := gpus.GPU(name); return &g, err },
	}
	c := validate.Config{
		Model: "llama3.1-8b", GPU: "h100", Engine: "native", TP: 1, Batch: 1, Prompt: 1024, Gen: 128, Weights: "bf16", Load: validate.Static,
	}
	unknown := c
	unknown.GPU = "abacus"
	score := s.Score([]validate.Observation{
		{Config: c, Source: "lab", ID: "1", Metric: validate.TPOT, Value: 0.0035},
		{Config: unknown, Source: "lab", ID: "2", Metric: validate.TPOT, Value: 0.0035},
	})
	for _, r := range score.Rows {
		fmt.Println(r.Metric, r.String(), r.FasterThanFloor)
	}
	for _, k := range score.Skipped {
		fmt.Println(k.Reason)
	}
	for _, f := range score.Findings {
		fmt.Println(f.Kind)
	}
	// Output:
	// tpot_s llama3.1-8b on h100-sxm-80gb, native, batch 1, 1024+128 true
	// unknown GPU
	// faster than the floor
}
