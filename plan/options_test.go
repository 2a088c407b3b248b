package plan

import (
	"testing"

	"llmprof/deployment"
	"llmprof/internal/testkit"
)

// A program asks a search in the words of flags, and estimates what the best row has.
func TestAsked(t *testing.T) {
	library := deployment.Within(nil)
	asked := &Options{Models: []string{"llama3.1-8b"}, GPUs: []string{"h100", "l40s"}, TPOT: "30ms", MaxGPUs: new(2)}
	q, err := asked.Request(t.Context(), library)
	testkit.Must(t, err)
	found, err := Search(t.Context(), q)
	testkit.Must(t, err)
	if len(found.Rows) == 0 {
		t.Fatalf("%+v", found.Rejected)
	}
	row := &found.Rows[0]
	ans, err := library.Answer(t.Context(), row.Same(q))
	testkit.Must(t, err)
	if ans.TTFT != row.Estimate.TTFT || ans.TPOT != row.Estimate.TPOT || ans.TPOT.High > 30e-3 {
		t.Errorf("%v: TTFT %v, TPOT %v; its request has %v, %v", row, row.Estimate.TTFT, row.Estimate.TPOT, ans.TTFT, ans.TPOT)
	}
	for want, wrong := range map[string]Options{
		"tpot 30: want a unit, as 30ms or 30s":           {Models: asked.Models, TPOT: "30"},
		"max_gpus 0: want at least 1":                    {Models: asked.Models, MaxGPUs: new(0)},
		"acceptance changes nothing without rate or tps": {Models: asked.Models, Acceptance: new(0.7)},
	} {
		if _, err := wrong.Request(t.Context(), library); err == nil || err.Error() != want {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
