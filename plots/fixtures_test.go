package plots

import (
	"testing"

	"llmprof"
	"llmprof/analytic"
	"llmprof/analytic/breakdown"
	"llmprof/analytic/engine"
	"llmprof/hardware"
	"llmprof/models"
)

// testCase is a model in its checkpoint's format on tp GPUs of a kind.
func testCase(t testing.TB, model, gpu string, batch, tp int) *analytic.Case {
	t.Helper()
	table, err := models.Load(llmprof.ModelsJSON)
	if err != nil {
		t.Fatal(err)
	}
	m, err := table.Model(model)
	if err != nil {
		t.Fatal(err)
	}
	g, err := hardware.Find(llmprof.HardwareTOML, gpu)
	if err != nil {
		t.Fatal(err)
	}
	e, err := engine.Parse("native")
	if err != nil {
		t.Fatal(err)
	}
	constants, err := analytic.Constants(&g, e, nil)
	if err != nil {
		t.Fatal(err)
	}
	machine, err := analytic.NewMachine(&g, constants, e)
	if err != nil {
		t.Fatal(err)
	}
	return &analytic.Case{
		Model: m, Machine: machine, Scheme: models.StoredScheme(m).For(&g),
		Workload: analytic.Workload{Batch: batch, Prompt: 1024, Gen: 128},
		Parallel: analytic.Parallelism{TP: tp, GPUsPerNode: max(g.GPUsPerNode, tp)},
	}
}

func explain(t testing.TB, c *analytic.Case) *breakdown.Report {
	t.Helper()
	r, err := breakdown.Explain(c)
	if err != nil {
		t.Fatal(err)
	}
	return &r
}

// A subject is a case that every picture is drawn of.
type subject struct {
	model, gpu string
	batch, tp  int
}

func subjects() []subject {
	return []subject{
		{"llama2-70b", "a100", 32, 8}, {"qwen3-30b-a3b", "h100", 16, 1}, {"deepseek-v3", "h200", 32, 8},
		{"nemotron-h-8b", "a100", 8, 1}, {"llama3.2-1b", "orin-nano", 1, 1},
	}
}
