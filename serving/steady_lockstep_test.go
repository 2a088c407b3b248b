package serving

import (
	"fmt"
	"math"
	"testing"

	"llmprof/analytic"
	"llmprof/analytic/engine"
	"llmprof/internal/testkit"
	"llmprof/internal/testkit/casetest"
)

// sharing is a server whose replicas share their experts.
func sharing(t *testing.T, model, gpu, policy string, tp, replicas, group int) *Server {
	t.Helper()
	c := casetest.Case(t, model, gpu, 1, tp)
	c.Parallel.DP, c.Parallel.EP = group, tp*group
	c.Machine = casetest.Machine(t, gpu, policy)
	p, err := analytic.NewPredictor(c)
	testkit.Must(t, err)
	rules, err := engine.SchedulerOf(policy, c.Machine.Engine, c.Machine.GPU)
	testkit.Must(t, err)
	return &Server{Predictor: p, Scheduler: rules, Layout: Layout{Replicas: replicas}}
}

// A prompt lengthens the steps of all replicas that share experts: the steady state of these is that of the simulation.
func TestSteadyOfSharedExperts(t *testing.T) {
	for _, x := range []struct {
		model, gpu, policy  string
		tp, replicas, group int
		rate                float64
		prompt, gen         Lengths
	}{
		{"qwen3-235b-a22b", "b200", "vllm", 1, 8, 8, 10, Fixed(1024), Fixed(256)},
		{"qwen3-235b-a22b", "b200", "vllm", 1, 8, 8, 2, Fixed(1024), Fixed(256)},
		{"qwen3-30b-a3b", "h200", "vllm", 1, 2, 2, 10, Fixed(1024), Fixed(256)},
		{"qwen3-30b-a3b", "h200", "vllm", 1, 4, 4, 20, Lengths{Kind: "lognormal", Mean: 1024, Spread: 0.8},
			Lengths{Kind: "uniform", Low: 64, High: 512}},
		{"gpt-oss-120b", "h100", "vllm", 2, 4, 4, 10, Fixed(2048), Fixed(512)},
		{"qwen3-235b-a22b", "h200", "sglang", 1, 8, 8, 8, Fixed(1024), Fixed(256)},
	}[:testkit.Cases(1, 6)] {
		t.Run(fmt.Sprintf("%s %s %s %d %v", x.model, x.gpu, x.policy, x.replicas, x.rate), func(t *testing.T) {
			s := sharing(t, x.model, x.gpu, x.policy, x.tp, x.replicas, x.group)
			st, err := s.SteadyRate(t.Context(), x.rate, x.prompt, x.gen)
			testkit.Must(t, err)
			l := Load{Arrival: Arrival{Kind: "poisson", Rate: x.rate}, Prompt: x.prompt, Gen: x.gen, Requests: 3000 + int(10*st.Running), Seed: 1}
			r := simulate(t, s, l, Options{Warmup: 500 + int(5*st.Running)})
			for _, y := range []struct {
				name              string
				steady, simulated float64
			}{
				{"TTFT", float64(st.TTFT), r.TTFT.Mean()}, {"TPOT", float64(st.TPOT), r.TPOT.Mean()}, {"E2E", float64(st.E2E), r.E2E.Mean()},
				{"energy", float64(st.Energy), float64(r.Energy) / float64(r.Completed)}, {"utilization", st.Utilization, r.Busy},
			} {
				e := y.steady/y.simulated - 1
				t.Logf("%s %+.1f %%", y.name, 100*e)
				if math.Abs(e) > 0.08 {
					t.Errorf("%s %g, simulated %g", y.name, y.steady, y.simulated)
				}
			}
		})
	}
}
