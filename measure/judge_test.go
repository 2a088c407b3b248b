package measure

import (
	"slices"
	"strings"
	"testing"

	"llmprof/measure/experiment"
	"llmprof/measure/result"
)

// A run of which as many requests failed as may is a result with a mark; one more makes it none.
func TestJudgeAtTheLimit(t *testing.T) {
	p := experiment.Default()
	for failed, want := range map[int]string{0: "", 1: someFailed, 2: tooMany} {
		r := &result.Result{Serving: &result.Serving{Requests: 100, Completed: 100 - failed, Failures: map[string]int{"timeout": failed}}}
		results, err := judge(t.Context(), &p, []*result.Result{r}, nil)
		if len(results) != 1 || (err != nil) != (want == tooMany) || err != nil && !strings.Contains(err.Error(), "2 of 100 requests failed") {
			t.Errorf("%d failed: %v", failed, err)
		}
		if marked := slices.Contains(r.Marks, want); want != "" && !marked || want == "" && len(r.Marks) > 0 {
			t.Errorf("%d failed: marks %v", failed, r.Marks)
		}
	}
}
