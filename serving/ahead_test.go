package serving

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"llmprof/analytic"
	"llmprof/analytic/casetest"
	"llmprof/internal/testkit"
	"llmprof/roofline"
)

// Steps that are worked out ahead have the times that the same steps have one by one, with the same sums: clients that wait, of
// servers with all schedulers, replicas that share experts, windows, caches that are too small, and uneven numbers of clients.
func TestStepsAhead(t *testing.T) {
	random, each := rand.New(rand.NewPCG(3, 4)), 12
	if testkit.Brief() {
		each = 3
	}
	for i, x := range []struct {
		model, gpu, scheduler string
		dp, ep                int
		token                 float64 // time of the API server for a token
	}{
		{"llama3.1-8b", "h100", "vllm", 1, 1, 0}, {"llama3.1-8b", "h200", "sglang", 1, 1, 0}, {"llama3.1-8b", "a100", "tensorrt-llm", 1, 1, 0},
		{"llama3.1-8b", "rtx-4090", "llama.cpp", 1, 1, 0}, {"llama3.1-8b", "h100", "vllm-2024", 1, 1, 0},
		{"llama3.1-8b", "rtx-4090", "vllm", 1, 1, 0},
		{"gpt-oss-20b", "b200", "vllm", 1, 1, 100e-6}, {"qwen3-30b-a3b", "h200", "vllm", 2, 2, 300e-6},
		{"gpt-oss-20b", "h100", "sglang", 4, 4, 0},
		{"gemma3-4b", "l40s", "vllm", 1, 1, 500e-6}, {"llama3.2-1b", "h200", "vllm", 1, 1, 100e-6}, {"llama3.2-1b", "h200", "vllm", 1, 1, 400e-6},
	} {
		for range each {
			c := casetest.Case(t, x.model, x.gpu, 1, 1)
			c.Parallel.DP, c.Parallel.EP = x.dp, x.ep
			c.Machine = casetest.Machine(t, x.gpu, engineOf(x.scheduler))
			if x.token > 0 {
				cal := c.Machine.Cal
				cal.Constants[roofline.HostToken], cal.Constants[roofline.HostIntake] = x.token, 10*x.token
				var err error
				c.Machine, err = c.Machine.With(cal)
				testkit.Must(t, err)
			}
			p, err := analytic.NewPredictor(c)
			testkit.Must(t, err)
			s := server(t, x.model, x.gpu, 1, x.scheduler)
			s.Predictor, s.Replicas = p, x.dp*(1+random.IntN(4))
			if random.IntN(3) == 0 {
				s.Scheduler.MaxSeqs = 1 + random.IntN(8)
			}
			clients := s.Replicas*(1+random.IntN(40)) + random.IntN(3)
			prompt, gen := Fixed(1+random.IntN(3000)), Fixed(2+random.IntN(400))
			if random.IntN(2) == 0 {
				gen = Lengths{Kind: "uniform", Low: 1, High: 2 * gen.Mean}
			}
			l := Load{Arrival: Arrival{Kind: "closed", Concurrency: clients}, Prompt: prompt, Gen: gen, Requests: 6 * clients, Seed: uint64(i)}
			what := fmt.Sprintf("%+v: %d clients of %d replicas, %v + %v", x, clients, s.Replicas, prompt, gen)
			equalAhead(t, what, s, &l)
		}
	}
}

// engineOf is the engine of a scheduler.
func engineOf(scheduler string) string {
	if scheduler == "vllm-2024" {
		return "vllm"
	}
	return scheduler
}

// equalAhead simulates with steps ahead, and one by one.
func equalAhead(t *testing.T, what string, s *Server, l *Load) {
	t.Helper()
	var runs [2][]Record
	var results [2]*Result
	for i := range runs {
		source, err := l.Source()
		testkit.Must(t, err)
		c := newCluster(s, source, &Options{sums: true, stepwise: i == 0, Each: func(r *Record) { runs[i] = append(runs[i], *r) }})
		for c.step() {
		}
		results[i] = c.result
	}
	a, b := results[0], results[1]
	if len(runs[0]) != len(runs[1]) || a.Steps != b.Steps || a.Completed != b.Completed {
		t.Errorf("%s: %d of %d answers in %d of %d steps", what, len(runs[1]), len(runs[0]), b.Steps, a.Steps)
		return
	}
	for i := range runs[0] {
		if x, y := &runs[0][i], &runs[1][i]; x.Index != y.Index || x.First != y.First || x.Last != y.Last || x.Replica != y.Replica ||
			x.Preempted != y.Preempted {
			t.Errorf("%s: answer %d is %+v, one by one %+v", what, i, *y, *x)
			return
		}
	}
	for _, x := range [][2]float64{{float64(a.Energy), float64(b.Energy)}, {a.busy, b.busy}, {a.running, b.running}} {
		if math.Abs(x[0]-x[1]) > 1e-9*x[0] {
			t.Errorf("%s: a sum of %g, one by one %g", what, x[1], x[0])
		}
	}
}

// Waves that are simulated with steps worked out ahead come to the steady state of waves that are simulated step by step.
func TestWavesAhead(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	for range testkit.Cases(20, 200) {
		s := engineServer(t, "llama3.1-8b", "h200", 1, "vllm", "vllm")
		clients, replicas := 1+random.IntN(40), 1+random.IntN(8)
		prompt, gen := Fixed(64+random.IntN(3000)), Fixed(2+random.IntN(200))
		var all [2]*Steady
		for i := range all {
			states, err := s.Steadies(t.Context(), prompt, gen)
			testkit.Must(t, err)
			states.stepwise = i == 0
			all[i], err = states.Concurrency(clients, replicas)
			testkit.Must(t, err)
		}
		want, got := all[0], all[1]
		if got.TTFT != want.TTFT || got.TPOT != want.TPOT || got.E2E != want.E2E || got.Rate != want.Rate {
			t.Errorf("%d clients of %d replicas, %v + %v: %+v, step by step %+v", clients, replicas, prompt, gen, got, want)
		}
		agree(t, "energy", float64(got.Energy), float64(want.Energy), 1e-9)
		agree(t, "running", got.Running, want.Running, 1e-9)
		agree(t, "utilization", got.Utilization, want.Utilization, 1e-9)
	}
}
