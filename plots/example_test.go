package plots_test

import (
	"fmt"
	"os"

	"llmprof"
	"llmprof/analytic"
	"llmprof/analytic/breakdown"
	"llmprof/analytic/engine"
	"llmprof/hardware"
	"llmprof/models"
	"llmprof/plots"
)

// exampleCase is llama2-70b on eight A100s.
func exampleCase() (*analytic.Case, error) {
	table, err := models.Load(llmprof.ModelsJSON)
	if err != nil {
		return nil, err
	}
	model, err := table.Model("llama2-70b")
	if err != nil {
		return nil, err
	}
	gpu, err := hardware.Find(llmprof.HardwareTOML, "a100")
	if err != nil {
		return nil, err
	}
	engine, err := engine.Parse("native")
	if err != nil {
		return nil, err
	}
	machine, err := analytic.NewMachine(&gpu, hardware.DefaultCalibration(&gpu), engine)
	if err != nil {
		return nil, err
	}
	return &analytic.Case{
		Model: model, Machine: machine, Scheme: models.StoredScheme(model).For(&gpu),
		Workload: analytic.Workload{Batch: 32, PromptLen: 1024, GenLen: 128},
		Parallel: analytic.Parallelism{TP: 8, GPUsPerNode: 8},
	}, nil
}

func ExampleRoofline() {
	c, err := exampleCase()
	if err != nil {
		fmt.Println(err)
		return
	}
	report, err := breakdown.Explain(c)
	if err != nil {
		fmt.Println(err)
		return
	}
	figure, err := plots.Roofline(c, &report, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(figure.Caption)
	if err := figure.Write(os.Stdout, "gif"); err != nil {
		fmt.Println(err)
	}
	// Output:
	// llama2-70b · 8 × A100 SXM 80GB · native engine · TP 8 · batch 32 · prompt 1024, context 1152 · weights, KV, activations bf16 · llmprof
	// drawing "Roofline of one GPU": unknown picture format "gif" (known: svg, png, pdf)
}

func ExampleLatency() {
	c, err := exampleCase()
	if err != nil {
		fmt.Println(err)
		return
	}
	curve, err := plots.Sweep(c, plots.ByTP, plots.Doublings(1, 8), "A100")
	if err != nil {
		fmt.Println(err)
		return
	}
	figure, err := plots.Latency(plots.SweepCaption(plots.ByTP, c), plots.ByTP, []plots.Curve{curve})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(figure.Title)
	fmt.Println(figure.Caption)
	// Output:
	// Latency by tensor parallelism
	// llama2-70b · A100 SXM 80GB · native engine · TP varied · batch 32 · prompt 1024, context 1152 · weights, KV, activations bf16 · llmprof
}
