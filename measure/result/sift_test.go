package result

import (
	"math"
	"strings"
	"testing"

	"llmprof/internal/stats"
	"llmprof/internal/testkit"
)

// What was read beside the times and cannot be leaves the result, with a reason, and the times stay.
func TestSift(t *testing.T) {
	for key, spoil := range map[string]func(*Result){
		"energy":     func(r *Result) { r.Energy.Idle.Domains[0].MeanW = -3 },
		"energy.nan": func(r *Result) { r.Energy.PerRequest = new(math.NaN()) },
		"meter":      func(r *Result) { r.Meter.ReadS = math.Inf(1) },
		"conditions": func(r *Result) { r.Conditions[0].SMClockHz = &stats.Summary{N: 1, Mean: math.NaN()} },
		"conditions.busy": func(r *Result) {
			r.Conditions[0].Utilization = &stats.Summary{N: 1, Min: 17, Median: 17, Max: 17, Mean: 17}
		},
		"server_metrics": func(r *Result) {
			delete(r.Reasons, "serving")
			r.Serving = &Serving{Requests: 1, Completed: 1, Metrics: &ServerMetrics{Samples: []ServerSample{{Running: new(-5.)}}}}
		},
	} {
		r := fixture(t)
		before := *r
		spoil(r)
		if _, err := Encode(r); err == nil {
			t.Errorf("%s: it can be", key)
		}
		Sift(r)
		_, err := Encode(r)
		testkit.Must(t, err)
		said := strings.Join(r.Warnings, "\n")
		if r.TTFT != before.TTFT || r.TPOT != before.TPOT || !strings.Contains(said, "cannot be") {
			t.Errorf("%s: %s", key, said)
		}
	}
	r := fixture(t)
	Sift(r)
	if r.Energy == nil || r.Meter == nil || len(r.Conditions) == 0 {
		t.Error("figures that can be are left out")
	}
}
