package serving

import (
	"fmt"
	"math"
	"testing"

	"llmprof/internal/testkit"
)

// A router that gives requests to replicas in turn brings them to each more evenly than to one: the steady state of several is that of the
// simulation.
func TestSteadyOfReplicasInTurn(t *testing.T) {
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
	if testkit.Brief() {
		all = all[:2]
	}
	for _, x := range all {
		t.Run(fmt.Sprintf("%d %s %s %.2f", x.replicas, x.model, x.scheduler, x.share), func(t *testing.T) {
			s := server(t, x.model, x.gpu, x.tp, x.scheduler)
			s.Replicas = x.replicas
			f, err := s.flow(x.prompt, x.gen)
			testkit.Must(t, err)
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
			if ttft := float64(st.TTFT); !(ttft > last*(1-1e-6)) || last > 0 && rate < 0.01 && ttft > last*1.001 {
				t.Errorf("%d replicas: a TTFT of %g s at %g requests a second, of %g s at fewer", replicas, ttft, rate, last)
			} else {
				last = ttft
			}
		}
	}
}

// Numbers of arrivals have the mean that they are asked for, and the variance of renewals with Erlang intervals: 1/R of a Poisson process
// in long times.
func TestRenewals(t *testing.T) {
	moments := func(chances []float64) (sum, mean, variance float64) {
		for k, chance := range chances {
			sum, mean, variance = sum+chance, mean+float64(k)*chance, variance+float64(k*k)*chance
		}
		return sum, mean, variance - mean*mean
	}
	for _, stages := range []int{1, 2, 3, 8, 16} {
		for _, m := range []float64{0.1, 1, 30} {
			sum, mean, variance := moments(stationary(nil, m, stages))
			if math.Abs(sum-1) > 1e-4 || math.Abs(mean/m-1) > 1e-3 {
				t.Errorf("%d stages, %g on average: probabilities of %g with a mean of %g", stages, m, sum, mean)
			}
			if r := float64(stages); m == 30 && math.Abs(variance-(m/r+(r*r-1)/(6*r*r))) > 0.01*m/r { // Cox, Renewal Theory, 1962, section 4.5
				t.Errorf("%d stages: a variance of %g", stages, variance)
			}
		}
		_, beside, _ := moments(besides(stationary(nil, 3, stages), 3))
		if stages == 1 && math.Abs(beside-3) > 1e-3 || stages > 1 && !(beside < 3-0.2) {
			t.Errorf("%d stages: an arrival meets %g others", stages, beside)
		}
	}
}

// The numbers of sequences of a server without contention are the numbers of arrivals in the time of an answer.
func TestBirthsOfRenewals(t *testing.T) {
	f := &flow{stages: 4, traffic: traffic{shorter: 1}}
	chances := stationary(nil, 6, 4)
	for n := 1; n < 12; n++ {
		if got, want := f.birth(n, 6), chances[n]/chances[n-1]; math.Abs(got/want-1) > 1e-6 {
			t.Errorf("%d sequences: %g, want %g", n, got, want)
		}
	}
}
