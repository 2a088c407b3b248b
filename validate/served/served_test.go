package served_test

import (
	"context"
	"testing"

	"llmprof/analytic"
	"llmprof/analytic/casetest"
	"llmprof/serving"
	"llmprof/validate/served"
)

// The runs are whole: every request has its times, and throughputs are those of the results.
func TestRuns(t *testing.T) {
	runs, err := served.Runs()
	if err != nil {
		t.Fatal(err)
	}
	if len(runs) != 14 {
		t.Errorf("%d runs", len(runs))
	}
	n := 0
	for i := range runs {
		r := &runs[i]
		n += len(r.Requests)
		if r.Source == "" || r.Licence == "" || len(r.Requests) == 0 {
			t.Errorf("%s: %d requests, source %q, licence %q", r.Name, len(r.Requests), r.Source, r.Licence)
		}
		for _, q := range r.Requests {
			if q.TTFT <= 0 || q.E2E < q.TTFT || q.Prompt < 1 || q.Gen < 1 {
				t.Errorf("%s: %+v", r.Name, q)
			}
		}
	}
	if want := 2*(24+96+192+80+150) + 4*300; n != want {
		t.Errorf("%d requests, want %d", n, want)
	}
}

// The servers of vLLM 0.25.1 are within what users are told, at every load.
func TestScore(t *testing.T) {
	runs, err := served.Runs()
	if err != nil {
		t.Fatal(err)
	}
	var all []*served.Scored
	for i := range runs {
		r := &runs[i]
		if r.Load() == "log" {
			continue
		}
		c := casetest.Case(t, r.Model, r.GPU, 1, r.TP)
		c.Machine = casetest.Machine(t, r.GPU, "vllm")
		p, err := analytic.NewPredictor(c)
		if err != nil {
			t.Fatal(err)
		}
		rules, err := serving.Defaults("vllm", c.Machine.GPU.Memory)
		if err != nil {
			t.Fatal(err)
		}
		s := &serving.Server{Predictor: p, Scheduler: rules, Replicas: 1}
		r.Apply(s)
		scored, err := r.Score(context.Background(), s)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, scored)
	}
	for name, most := range map[string]float64{"ttft_p50": 0.12, "ttft_p99": 0.2, "tpot_p50": 0.05, "e2e_p50": 0.06, "requests_s": 0.04} {
		if got := served.Median(all, name); got > most {
			t.Errorf("%s: median error %.1f %%, want at most %.0f %%", name, 100*got, 100*most)
		}
	}
}
