package view

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"llmprof/analytic/operator"
)

// TestFlat checks which values of a document have a column, under which names, and that a missing document
// leaves its columns empty.
func TestFlat(t *testing.T) {
	type inner struct {
		Mean float64  `json:"mean"`
		Of   []string `json:"of"`
	}
	type row struct {
		operator.Workload
		Times  *inner   `json:"ttft_s"`
		Marks  []string `json:"marks"`
		Bins   []int    `json:"bins"`
		Done   bool     `json:"done"`
		Hidden int      `json:"-"`
		text   string
	}
	rows := []row{{Workload: operator.Workload{Batch: 8}, Times: &inner{Mean: 1.5}, Marks: []string{"a", "b"}, Done: true, text: "x"}, {}}
	for _, c := range []struct {
		columns, want []string
		cells         [][]any
	}{
		{nil, []string{"batch", "prompt_len", "gen_len", "ttft_s.mean", "done"}, [][]any{{8, 0, 0, 1.5, "true"}, {0, 0, 0, nil, "false"}}},
		{[]string{"marks", "ttft_mean_s=ttft_s.mean"}, []string{"marks", "ttft_mean_s"}, [][]any{{"a b", 1.5}, {nil, nil}}},
	} {
		got := flat(rows, c.columns...)
		for i, column := range got.Columns {
			if column.Key != c.want[i] {
				t.Errorf("column %d is %q, want %q", i, column.Key, c.want[i])
			}
		}
		for i, r := range got.Rows {
			if diff := cmp.Diff(c.cells[i], r.Cells); diff != "" {
				t.Error(diff)
			}
		}
	}
}
