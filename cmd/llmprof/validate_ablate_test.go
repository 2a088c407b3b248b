package main

import (
	"encoding/json"
	"math"
	"path/filepath"
	"testing"

	"llmprof/cmd/llmprof/internal/view"
	"llmprof/internal/testkit"
)

// TestAblateSchema holds the JSON of an ablation to its schema, and its errors to
// those of the comparison itself.
func TestAblateSchema(t *testing.T) {
	s := schema(t, "ablate")
	for _, args := range [][]string{
		{"--engine", "transformers"}, {"--model", "llama3.1-8b", "--gpu", "h200"}, {filepath.Join("..", "..", "experiments", "h200")},
	}[:testkit.Cases(1, 3)] {
		got := try(t, append([]string{"validate", "--ablate", "--format", "json"}, args...)...)
		if got.code != 0 {
			t.Fatalf("%v: exit %d: %s", args, got.code, got.stderr)
		}
		checkSchema(t, s, got.stdout)
		var a view.AblationDocument
		if err := json.Unmarshal([]byte(got.stdout), &a); err != nil {
			t.Fatal(err)
		}
		c := readComparison(t, append([]string{"--by", "source"}, args...)...)
		if a.Observations != len(c.Rows) || a.Observations+a.Skipped != c.Observations {
			t.Errorf("%v: %d observations and %d skipped, the comparison has %d of %d", args, a.Observations, a.Skipped, len(c.Rows), c.Observations)
		}
		for _, e := range a.Constants[0].Effects {
			var errors []float64
			for _, r := range c.Rows {
				if r.Metric == string(e.Metric) && r.Fitted == e.Fitted {
					errors = append(errors, math.Abs(r.Error))
				}
			}
			below := 0
			for _, x := range errors {
				if x <= e.Median {
					below++
				}
			}
			if len(errors) != e.N || below < e.N/2 || below > e.N/2+1 {
				t.Errorf("%v: %+v: %d of %d errors are up to the median", args, e, below, len(errors))
			}
		}
	}
}
