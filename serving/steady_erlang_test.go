package serving

import (
	"fmt"
	"testing"

	"llmprof/internal/testkit"
)

// A router that gives requests to replicas in turn brings them to each more evenly than to one: the steady state of several is that of the
// simulation.
func TestSteadyOfReplicasInTurn(t *testing.T) {
	testkit.Long(t, "simulations beside TestSteadyAgreesWithSimulation, of replicas in turn")
	varied, answers := Lengths{Kind: "lognormal", Mean: 1024, Spread: 0.8}, Lengths{Kind: "uniform", Low: 64, High: 512}
	all := []struct {
		model, gpu, scheduler string
		tp, replicas          int
		share, within         float64
		prompt, gen           Lengths
	}{
		{"llama3.1-8b", "h100", "vllm", 1, 4, 0.17, 0.03, Fixed(1024), Fixed(128)},
		{"llama3.1-70b", "h200", "vllm", 2, 2, 0.59, 0.03, Fixed(1024), Fixed(128)},
		{"llama3.1-8b", "h100", "vllm", 1, 4, 0.43, 0.03, Fixed(1024), Fixed(128)},
		{"llama3.1-70b", "h200", "vllm", 2, 8, 0.59, 0.08, Fixed(1024), Fixed(128)},
		{"llama3.1-70b", "h200", "vllm", 2, 8, 0.3, 0.05, Fixed(1024), Fixed(128)},
		{"llama3.1-8b", "h100", "sglang", 1, 4, 0.43, 0.03, Fixed(1024), Fixed(128)},
		{"qwen3-30b-a3b", "h200", "vllm", 1, 4, 0.3, 0.08, varied, answers}, // 5 % of one replica
		{"llama3.1-8b", "a100", "vllm", 1, 3, 0.5, 0.05, varied, answers},
		{"llama3.1-8b", "h100", "llama.cpp", 1, 4, 0.5, 0.1, Fixed(1024), Fixed(128)}, // four slots, whose waiting is rare
		{"llama3.1-8b", "h200", "tensorrt-llm", 1, 12, 0.4, 0.06, Fixed(512), Fixed(256)},
	}
	all = all[:testkit.Cases(1, len(all))]
	for _, x := range all {
		t.Run(fmt.Sprintf("%d %s %s %.2f", x.replicas, x.model, x.scheduler, x.share), func(t *testing.T) {
			s := server(t, x.model, x.gpu, x.tp, x.scheduler)
			s.Replicas = x.replicas
			f := s.queue(t, x.prompt, x.gen)
			rate := x.share * f.capacity().Rate * float64(x.replicas)
			st, err := s.SteadyRate(t.Context(), rate, x.prompt, x.gen)
			testkit.Must(t, err)
			l := Load{Arrival: Arrival{Kind: "poisson", Rate: rate}, Prompt: x.prompt, Gen: x.gen, Requests: 5000 * x.replicas, Seed: 1}
			r := simulate(t, s, l, Options{Warmup: 500 * x.replicas})
			t.Logf("TTFT %+.1f %%, E2E %+.1f %%", 100*(float64(st.TTFT)/r.TTFT.Mean()-1), 100*(float64(st.E2E)/r.E2E.Mean()-1))
			agree(t, "TTFT", float64(st.TTFT), r.TTFT.Mean(), x.within)
			agree(t, "TPOT", float64(st.TPOT), r.TPOT.Mean(), 0.05)
			agree(t, "E2E", float64(st.E2E), r.E2E.Mean(), 0.05)
			agree(t, "energy", float64(st.Energy), float64(r.Energy)/float64(r.Completed), 0.05)
			agree(t, "utilization", st.Utilization, r.Busy, 0.05)
		})
	}
}

// However seldom requests come, each replica answers them as if it were alone, and the more come the longer they wait.
func TestSteadyOfSeldomRequestsInTurn(t *testing.T) {
	for _, replicas := range []int{2, 4, 16} {
		s := server(t, "llama3.1-8b", "a100", 1, "vllm")
		s.Replicas = replicas
		last := 0.0
		for _, rate := range []float64{1e-9, 1e-6, 1e-4, 1e-3, 0.0118, 0.03, 0.1, 0.3} {
			st, err := s.SteadyRate(t.Context(), rate, Fixed(1024), Fixed(256))
			if err != nil {
				t.Fatalf("%d replicas: %v", replicas, err)
			}
			if ttft := float64(st.TTFT); !(ttft > last*(1-1e-4)) || last > 0 && rate < 0.01 && ttft > last*1.001 {
				t.Errorf("%d replicas: a TTFT of %g s at %g requests a second, of %g s at fewer", replicas, ttft, rate, last)
			} else {
				last = ttft
			}
		}
	}
}
