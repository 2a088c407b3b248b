package serving

import (
	"testing"

	"llmprof/internal/testkit"
	"llmprof/internal/testkit/casetest"
)

// The steady state of a disaggregated server is what a simulation of it comes to.
func TestSteadyDisaggregated(t *testing.T) {
	for _, scheduler := range []string{"vllm", "sglang"}[:testkit.Cases(1, 2)] {
		t.Run(scheduler, func(t *testing.T) { steadyDisaggregated(t, scheduler) })
	}
}

// Several that prefill take turns, so that prompts come to each more evenly than to one.
func TestSteadyOfPrefillersInTurn(t *testing.T) {
	s := server(t, "llama3.1-8b", "h100", 1, "vllm")
	s.Replicas, s.Prefillers, s.Link = 4, 3, casetest.GPU(t, "h100").LinkAmong(7)
	l := Load{Arrival: Arrival{Kind: "poisson", Rate: 30}, Prompt: Fixed(2048), Gen: Fixed(200), Requests: 6000, Seed: 3}
	st, err := s.SteadyRate(t.Context(), l.Arrival.Rate, l.Prompt, l.Gen)
	testkit.Must(t, err)
	if ttft := simulate(t, s, l, Options{Warmup: 300}).TTFT.Mean(); float64(st.TTFT) > 1.03*ttft || float64(st.TTFT) < 0.97*ttft {
		t.Errorf("TTFT %v, simulated %g", st.TTFT, ttft)
	}
}

func steadyDisaggregated(t *testing.T, scheduler string) {
	s := server(t, "llama3.1-8b", "h100", 1, scheduler)
	s.Replicas, s.Prefillers, s.Link = 2, 1, casetest.GPU(t, "h100").LinkAmong(3)
	prompt, gen := Fixed(2048), Fixed(256)
	for _, rate := range []float64{6, 1, 12}[:testkit.Cases(2, 3)] {
		st, err := s.SteadyRate(t.Context(), rate, prompt, gen)
		if err != nil {
			t.Fatal(err)
		}
		l := Load{Arrival: Arrival{Kind: "poisson", Rate: rate}, Prompt: prompt, Gen: gen, Requests: 3000, Seed: 3}
		r := simulate(t, s, l, Options{Warmup: 300})
		for _, x := range []struct {
			what                    string
			steady, simulation, off float64
		}{
			{"TTFT", float64(st.TTFT), r.TTFT.Mean(), 0.05}, {"TPOT", float64(st.TPOT), r.TPOT.Mean(), 0.05},
			{"E2E", float64(st.E2E), r.E2E.Mean(), 0.05},
			{"KV cache", st.Cache, r.MeanCache, 0.06},
		} {
			if ratio := x.steady / x.simulation; ratio > 1+x.off || ratio < 1-x.off {
				t.Errorf("%g/s: %s %g, simulated %g", rate, x.what, x.steady, x.simulation)
			}
		}
	}
	if st, err := s.SteadyRate(t.Context(), 1e5, prompt, gen); err == nil {
		t.Errorf("a rate beyond any server has the state %+v", st)
	}
	if st, err := s.SteadyRate(t.Context(), 1, prompt, Fixed(1)); err == nil {
		t.Errorf("answers of one token have the state %+v", st)
	}
}

// Sequences whose cache is handed over have no prompt to compute, so that those which decode already do not wait for them.
func TestHandedOverSequencesJoinTheOthers(t *testing.T) {
	s := engineServer(t, "gpt-oss-20b", "b200", 2, "sglang", "sglang")
	s.Prefillers, s.Link = 2, casetest.GPU(t, "b200").LinkAmong(4)
	l := Load{Arrival: Arrival{Kind: "poisson", Rate: 130}, Prompt: Fixed(1024), Gen: Fixed(16), Requests: 3000, Seed: 3}
	st, err := s.SteadyRate(t.Context(), l.Arrival.Rate, l.Prompt, l.Gen)
	testkit.Must(t, err)
	agree(t, "TPOT", float64(st.TPOT), simulate(t, s, l, Options{Warmup: 300}).TPOT.Mean(), 0.05)
}

// Replicas that decode send their tokens through API servers, which hold them up where they are busy.
func TestSteadyDisaggregatedWarnsOfBusyServer(t *testing.T) {
	s := engineServer(t, "llama3.2-1b", "b200", 2, "sglang", "sglang")
	s.Prefillers, s.Link = 2, casetest.GPU(t, "b200").LinkAmong(4)
	for rate, want := range map[float64]bool{20: false, 140: true} {
		st, err := s.SteadyRate(t.Context(), rate, Fixed(128), Fixed(128))
		testkit.Must(t, err)
		if got := st.Warning() != nil && st.Warning().Code == "frontend_busy"; got != want {
			t.Errorf("%g/s: the warning %v, want one of the API server: %v", rate, st.Warning(), want)
		}
	}
}
