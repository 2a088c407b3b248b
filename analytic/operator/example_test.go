package operator_test

import (
	"fmt"
	"log"

	"llmprof"
	"llmprof/analytic/operator"
	"llmprof/models"
)

// What does a decode step of Llama-3.1-8B have to do on one of two GPUs, for 8 sequences of 1024 tokens?
func Example() {
	known, err := models.Load(llmprof.ModelsJSON)
	if err != nil {
		log.Fatal(err)
	}
	model, err := known.Model("llama3.1-8b")
	if err != nil {
		log.Fatal(err)
	}
	rank := operator.NewRank(model, operator.Parallelism{TP: 2}, models.StoredScheme(model), nil)
	step := rank.Step(8, 1, 1024, 1)
	for _, o := range step.AppendOps(nil)[:6] {
		fmt.Printf("%-20s × %2.0f %v, %v\n", o.Name, o.Count, o.Work.FLOPs, o.Work.Traffic())
	}
	// Output:
	// embedding            ×  1 0 FLOP, 131.1 kB
	// embedding_all_reduce ×  1 0 FLOP, 0 B
	// input_layernorm      × 32 0 FLOP, 270.3 kB
	// qkv_proj             × 32 201.3 MFLOP, 25.28 MB
	// rotary               × 32 0 FLOP, 81.92 kB
	// kv_write             × 32 0 FLOP, 32.77 kB
}
