package validate

import (
	"testing"

	"llmprof/hardware"
	"llmprof/internal/testkit/casetest"
)

// scorer scores with the tables that come with the program.
func scorer(t testing.TB) *Scorer {
	t.Helper()
	table, gpus := casetest.Tables(t)
	return &Scorer{
		Model: table.Model,
		GPU:   func(name string) (*hardware.GPU, error) { g, err := gpus.GPU(name); return &g, err },
	}
}

func embedded(t testing.TB) []Observation {
	t.Helper()
	all, err := Embedded()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// observation is one that can be scored.
func observation() Observation {
	return Observation{
		Config: Config{
			Model: "llama3.1-8b", GPU: "h200-sxm-141gb", Engine: "native", TP: 1, Batch: 1, Prompt: 1024, Gen: 128, Weights: "bf16", Load: Static,
		},
		Source: "test", ID: "a", Metric: TPOT, Value: 0.005,
	}
}
