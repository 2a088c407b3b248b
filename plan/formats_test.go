package plan

import (
	"context"
	"slices"
	"strings"
	"testing"

	"llmprof/internal/testkit"
)

// llama.cpp has weights in 4 bits of its own alone: the search takes them where they are asked for, with the types of each
// matrix, and passes over those of other engines.
func TestSearchOfMixes(t *testing.T) {
	q := requestOn(t, "llama.cpp", "llama3.1-8b", "rtx-4090")
	c := &q.Cards[0]
	c.Formats = DefaultFormats(c.Model, c.GPU, []string{"w4a16-g128", "q4_k_m"}, 4)
	q.Splits, q.Batches, q.MaxGPUs = []Split{{1, 1, 1, 0}}, []int{1}, 1
	found, err := Search(context.Background(), q)
	testkit.Must(t, err)
	if len(found.Rows) == 0 || found.Rows[0].Scheme != "gguf Q4_K_M" {
		t.Fatalf("%+v", found.Rows)
	}
	row := found.Rows[0]
	if best := bruteForce(t, q); best.Scheme != row.Scheme || best.TPOT != row.TPOT {
		t.Errorf("%v, estimated alone %v", &row, best)
	}
	if by := row.Same(q); by.Weights != "q4_k_m" {
		t.Errorf("%v", by)
	}
	for _, r := range found.Rows {
		if r.Formats.Weights == "w4a16-g128" {
			t.Errorf("%v: llama.cpp has no such weights", &r)
		}
	}
	all := Launches(&row, q, "org/model")
	l := all[slices.IndexFunc(all, func(l Launch) bool { return l.Engine == "llama.cpp" })]
	if notes := strings.Join(l.Notes, "\n"); !strings.Contains(notes, "llama-quantize FILE Q4_K_M") {
		t.Error(notes)
	}
}
