package plots

import (
	"testing"

	"llmprof/analytic"
	"llmprof/analytic/breakdown"
	"llmprof/internal/testkit"
	"llmprof/internal/testkit/casetest"
	"llmprof/models"
)

// testCase is a model in its checkpoint's format on tp GPUs of a kind.
func testCase(t testing.TB, model, gpu string, batch, tp int) *analytic.Case {
	t.Helper()
	m, machine := casetest.Model(t, model), casetest.Machine(t, gpu, "native")
	g := machine.GPU
	return &analytic.Case{
		Model: m, Machine: machine, Scheme: models.StoredScheme(m).For(g),
		Workload: analytic.Workload{Batch: batch, PromptLen: 1024, GenLen: 128},
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

// reviewed is how many of the subjects, the first ones, have pictures in testdata that were looked at: one model as most are, and one
// that is odd.
const reviewed = 2

// subjects are the reviewed ones and, in long tests, more whose pictures are held to the rules of layout and style.
func subjects() []subject {
	return []subject{
		{"llama2-70b", "a100", 32, 8}, {"nemotron-h-8b", "a100", 8, 1},
		{"qwen3-30b-a3b", "h100", 16, 1}, {"deepseek-v3", "h200", 32, 8}, {"llama3.2-1b", "orin-nano", 1, 1},
	}[:testkit.Cases(reviewed, 5)]
}
