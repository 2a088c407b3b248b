package served_test

import (
	"context"
	"testing"

	"llmprof/analytic"
	"llmprof/analytic/casetest"
	"llmprof/analytic/engine"
	"llmprof/measure/result"
	"llmprof/serving"
	"llmprof/validate/served"
)

// The runs are whole: every request has its times, and throughputs are those of the results.
func TestRuns(t *testing.T) {
	runs, err := served.Runs()
	if err != nil {
		t.Fatal(err)
	}
	if len(runs) != 29 {
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
	if want := 2*(24+96+192+80+150) + 4*300 + (320 + 512 + 320 + 400 + 400 + 600 + 60) + (131 + 306 + 476 + 587 + 724 + 264 + 379 + 480); n != want {
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
		rules, err := engine.SchedulerOf("vllm", casetest.GPU(t, r.GPU).Memory)
		if err != nil {
			t.Fatal(err)
		}
		s := &serving.Server{Predictor: casetest.Predictor(t, r.Model, r.GPU, r.TP), Scheduler: rules, Replicas: 1}
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

// The logs of vLLM 0.19 on other cards, of which no constant was fitted, are within 10 %.
func TestLogs(t *testing.T) {
	runs, err := served.Runs()
	if err != nil {
		t.Fatal(err)
	}
	for i := range runs {
		r := &runs[i]
		if r.Load() != "log" {
			continue
		}
		c := casetest.Case(t, r.Model, r.GPU, 1, r.TP)
		c.Parallel.DP, c.Parallel.EP = r.DP, r.EP
		c.Machine = casetest.Machine(t, r.GPU, "vllm")
		if r.NoP2P {
			if c.Machine, err = c.Machine.With(c.Machine.Cal.WithoutP2P()); err != nil {
				t.Fatal(err)
			}
		}
		p, err := analytic.NewPredictor(c)
		if err != nil {
			t.Fatal(err)
		}
		rules, err := engine.SchedulerOf("vllm", c.Machine.GPU.Memory)
		if err != nil {
			t.Fatal(err)
		}
		s := &serving.Server{Predictor: p, Scheduler: rules, Replicas: 1}
		r.Apply(s)
		scored, err := r.Score(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"ttft_p50", "ttft_p99", "tpot_p50", "e2e_p50", "e2e_p99"} {
			if off := scored.Figure(name).Error(); max(off, -off) > 0.1 {
				t.Errorf("%s: %s is %.1f %% off", r.Name, name, 100*off)
			}
		}
	}
}

// A result of a server is a run with the arrivals and the tokens of its records.
func TestFromResult(t *testing.T) {
	d, err := result.Read("../../experiments/vllm-load/h100/rate16.json")
	if err != nil {
		t.Fatal(err)
	}
	r, err := served.FromResult("rate16.json", d, "h100")
	if err != nil {
		t.Fatal(err)
	}
	if r.Rate != 16 || r.Concurrency != 0 || r.CacheTokens != 462944 || len(r.Requests) != 320 || r.Requests[319].At < 15 || r.Requests[0].Prompt != 1024 {
		t.Errorf("%g/s, %d clients, %d tokens of cache, %d requests, the last at %g", r.Rate, r.Concurrency, r.CacheTokens, len(r.Requests), float64(r.Requests[319].At))
	}
	d.Serving.Completed--
	if _, err := served.FromResult("rate16.json", d, "h100"); err == nil {
		t.Error("a run with a failure is taken")
	}
}
