package analytic_test

import (
	"fmt"
	"log"

	"llmprof"
	"llmprof/analytic"
	"llmprof/analytic/engine"
	"llmprof/hardware"
	"llmprof/models"
)

// What does a token of Llama-3.1-8B cost on an H200, and what may it cost at
// least?
func Example() {
	known, err := models.Load(llmprof.ModelsJSON)
	if err != nil {
		log.Fatal(err)
	}
	model, err := known.Model("llama3.1-8b")
	if err != nil {
		log.Fatal(err)
	}
	gpus, err := hardware.Load(llmprof.HardwareTOML)
	if err != nil {
		log.Fatal(err)
	}
	gpu, err := gpus.GPU("h200")
	if err != nil {
		log.Fatal(err)
	}
	native, err := engine.Parse("native")
	if err != nil {
		log.Fatal(err)
	}
	constants, err := analytic.Constants(&gpu, native, nil)
	if err != nil {
		log.Fatal(err)
	}
	machine, err := analytic.NewMachine(&gpu, constants, native)
	if err != nil {
		log.Fatal(err)
	}
	estimate, err := analytic.Predict(&analytic.Case{
		Model: model, Machine: machine,
		Scheme:   models.StoredScheme(model).For(&gpu),
		Workload: analytic.Workload{Batch: 1, PromptLen: 1024, GenLen: 128},
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("floor", estimate.TPOT.Floor, "bound by", estimate.Decode.Bound)
	fmt.Println("weights", estimate.Memory.Weights)
	// Output:
	// floor 3.157 ms bound by memory
	// weights 16.06 GB
}
