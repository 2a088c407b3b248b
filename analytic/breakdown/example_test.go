package breakdown_test

import (
	"fmt"
	"log"

	"llmprof"
	"llmprof/analytic"
	"llmprof/analytic/breakdown"
	"llmprof/analytic/engine"
	"llmprof/hardware"
	"llmprof/models"
)

// Which layers take the time of a token of Llama-3.1-8B on an H200?
func Example() {
	known, err := models.Load(llmprof.ModelsJSON)
	if err != nil {
		log.Fatal(err)
	}
	model, err := known.Model("llama3.1-8b")
	if err != nil {
		log.Fatal(err)
	}
	gpu, err := hardware.Find(llmprof.HardwareTOML, "h200")
	if err != nil {
		log.Fatal(err)
	}
	vllm, err := engine.Parse("vllm")
	if err != nil {
		log.Fatal(err)
	}
	machine, err := analytic.Calibrated(&gpu, vllm, nil)
	if err != nil {
		log.Fatal(err)
	}
	r, err := breakdown.Explain(&analytic.Case{
		Model: model, Machine: machine, Scheme: models.StoredScheme(model).For(&gpu),
		Workload: analytic.Workload{Batch: 1, PromptLen: 1024, GenLen: 128},
	})
	if err != nil {
		log.Fatal(err)
	}
	for _, l := range breakdown.Layers(r.DecodeOps) {
		fmt.Printf("%2.0f %-16s %3.0f %%\n", l.Count, l.Name, 100*l.Share)
	}
	// Output:
	// 1                    7 %
	// 32 attention + mlp   93 %
}
