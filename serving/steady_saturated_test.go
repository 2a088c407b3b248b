package serving

import (
	"fmt"
	"strings"
	"testing"

	"llmprof/analytic"
	"llmprof/analytic/engine"
	"llmprof/internal/testkit"
	"llmprof/internal/testkit/casetest"
)

// A fullCache is a server whose KV cache bounds its rate.
type fullCache struct {
	model, gpu, scheduler string
	tokens                int // of the KV cache; 0 for what the GPU has
	prompt, gen           Lengths
	budget                int // tokens of a step; 0 for the scheduler's
}

func (x *fullCache) server(t testing.TB) *Server {
	t.Helper()
	c := casetest.Case(t, x.model, x.gpu, 1, 1)
	c.Machine = casetest.Machine(t, x.gpu, "vllm")
	c.Scheme = casetest.Scheme(t, "fp8", c.Machine.GPU)
	p, err := analytic.NewPredictor(c)
	testkit.Must(t, err)
	rules, err := engine.SchedulerOf(x.scheduler, c.Machine.Engine, c.Machine.GPU)
	testkit.Must(t, err)
	if x.budget > 0 {
		rules.Budget = x.budget
	}
	return &Server{Predictor: p, Scheduler: rules, Layout: Layout{Replicas: 1}, Caching: Caching{CacheTokens: x.tokens}}
}

// answered is the rate of answers where requests come faster than they are answered, without those that fill the server.
func (x *fullCache) answered(t testing.TB, rate float64, running int) float64 {
	t.Helper()
	var begin, end float64
	n, first, last := 0, 15*running, 35*running
	l := Load{Arrival: Arrival{Kind: "poisson", Rate: rate}, Prompt: x.prompt, Gen: x.gen, Requests: 45 * running, Seed: 1}
	simulate(t, x.server(t), l, Options{Each: func(q *Record) {
		switch n++; n {
		case first:
			begin = float64(q.Last)
		case last:
			end = float64(q.Last)
		}
	}})
	return float64(last-first) / (end - begin)
}

// Sequences that outgrow the KV cache are computed again, so that a full server answers less than one of as many sequences that fit. The
// largest stable rate is what it answers then, and up to nine tenths of it TTFT is that of the simulation.
func TestSteadyOfFullCache(t *testing.T) {
	all := []fullCache{
		{"llama3.1-8b", "h100", "vllm", 100000, Fixed(2000), Fixed(300), 0},
		{"llama3.1-70b", "h200", "vllm", 0, Fixed(1024), Fixed(900), 0},
		{"llama3.1-70b", "h200", "vllm", 0, Fixed(1024), Lengths{Kind: "lognormal", Mean: 900, Spread: 0.8}, 0},
		{"llama3.1-8b", "h100", "vllm", 100000, Fixed(1024), Fixed(900), 0},
		{"llama3.1-8b", "h100", "vllm", 100000, Fixed(300), Fixed(1500), 0},
		{"qwen3-32b", "h100", "vllm", 0, Fixed(1000), Lengths{Kind: "uniform", Low: 100, High: 900}, 0},
		{"llama3.1-8b", "l40s", "vllm", 60000, Lengths{Kind: "lognormal", Mean: 1000, Spread: 0.5}, Fixed(400), 0},
		// 12 sequences.
		{"llama3.1-8b", "h100", "vllm", 30000, Lengths{Kind: "uniform", Low: 1147, High: 3442}, Lengths{Kind: "uniform", Low: 152, High: 457}, 0},
		{"gemma3-12b", "h100", "vllm", 359750, Fixed(1500), Fixed(500), 0}, // 3750 pages, of which a sequence takes 126
		{"llama3.1-70b", "h200", "vllm-2024", 0, Fixed(1024), Fixed(900), 0},
		{"llama3.1-70b", "h200", "sglang", 0, Fixed(1024), Fixed(900), 0},
		{"llama3.1-8b", "a100", "tensorrt-llm-max-utilization", 100000, Fixed(700), Fixed(700), 0},
		{"llama3.1-70b", "h200", "tensorrt-llm", 0, Fixed(1024), Fixed(900), 0},
	}
	all = all[:testkit.Cases(1, len(all))]
	for _, x := range all {
		t.Run(fmt.Sprintf("%s %s %s %v+%v", x.model, x.gpu, x.scheduler, &x.prompt, &x.gen), func(t *testing.T) { x.agrees(t) })
	}
}

func (x *fullCache) agrees(t *testing.T) {
	s := x.server(t)
	all, err := s.Steadies(t.Context(), x.prompt, x.gen)
	testkit.Must(t, err)
	c := all.flow.capacity()
	answered := x.answered(t, 1.5*c.Rate, c.Running)
	t.Logf("at most %.4g/s; a full server answers %.4g (%+.1f %%)", c.Rate, answered, 100*(c.Rate/answered-1))
	agree(t, "largest rate", c.Rate, answered, 0.09)
	for _, share := range []float64{0.8, 0.9} {
		st, err := s.SteadyRate(t.Context(), share*c.Rate, x.prompt, x.gen)
		testkit.Must(t, err)
		l := Load{Arrival: Arrival{Kind: "poisson", Rate: share * c.Rate}, Prompt: x.prompt, Gen: x.gen, Requests: 20000, Seed: 1}
		r := simulate(t, s, l, Options{Warmup: 1000})
		t.Logf("%.2f of it: TTFT %+.1f %%, TPOT %+.1f %%, %.3f preemptions a request", share, 100*(float64(st.TTFT)/r.TTFT.Mean()-1),
			100*(float64(st.TPOT)/r.TPOT.Mean()-1), float64(r.Preempted)/20000)
		within := 0.16
		if share > 0.85 {
			within = 0.4 // rare queues, which a simulation of this length has a few of; a warning says so from here on
		}
		agree(t, "TTFT", float64(st.TTFT), r.TTFT.Mean(), within)
		agree(t, "TPOT", float64(st.TPOT), r.TPOT.Mean(), 0.06)
	}
}

// Where few sequences fit, a request that waits begins as soon as the blocks of one that has ended are free, and not with the next one that
// ends: mean TTFTs at eight tenths of the largest rate were up to 9000 s.
func TestSteadyOfFewSequences(t *testing.T) {
	testkit.Long(t, "simulations beside TestSteadyAgreesWithSimulation, of servers with few sequences")
	for _, x := range []fullCache{{"llama3.1-8b", "h100", "vllm", 6000, Fixed(1500), Fixed(500), 0},
		{"gemma3-12b", "h100", "vllm", 60000, Fixed(1500), Fixed(500), 0}}[:testkit.Cases(1, 2)] {
		s := x.server(t)
		all, err := s.Steadies(t.Context(), x.prompt, x.gen)
		testkit.Must(t, err)
		c := all.flow.capacity()
		agree(t, fmt.Sprintf("%+v: largest rate", x), c.Rate, x.answered(t, 1.5*c.Rate, 40), 0.04)
		st, err := all.Rate(c.Rate/2, Layout{Replicas: 1})
		testkit.Must(t, err)
		l := Load{Arrival: Arrival{Kind: "poisson", Rate: c.Rate / 2}, Prompt: x.prompt, Gen: x.gen, Requests: 6000, Seed: 1}
		agree(t, fmt.Sprintf("%+v: TTFT", x), float64(st.TTFT), simulate(t, s, l, Options{Warmup: 200}).TTFT.Mean(), 0.1)
	}
}

// Steps too short for the prompts of as many sequences as fit leave most of the KV cache empty, however many requests wait: fewer
// sequences decode, and none outgrows the cache. A full cache was taken for the state of a busy server, at a twentieth of the rate.
func TestShortStepsFillNoCache(t *testing.T) {
	x := fullCache{"llama3.1-8b", "h100", "vllm", 0, Fixed(1024), Fixed(128), 0}
	for budget, running := range map[int]int{64: 8, 128: 15, 256: 30, 512: 57, 1024: 113, 2048: 227} {
		x.budget = budget
		all, err := x.server(t).Steadies(t.Context(), x.prompt, x.gen)
		testkit.Must(t, err)
		c, answered := all.flow.capacity(), x.answered(t, 100, running)
		t.Logf("steps of %d tokens: at most %.4g/s, bound by %s; simulated %.4g/s", budget, c.Rate, c.Bound, answered)
		agree(t, "largest rate", c.Rate, answered, 0.05)
		if c.Bound != "prefill" {
			t.Errorf("steps of %d tokens: bound by %s", budget, c.Bound)
		}
	}
}

// A rate beyond the largest with preemption is refused, though the server would answer it without, and the reason is named.
func TestSteadyRefusesPreemption(t *testing.T) {
	x := fullCache{"llama3.1-70b", "h200", "vllm", 0, Fixed(1024), Fixed(1100), 0}
	all, err := x.server(t).Steadies(t.Context(), x.prompt, x.gen)
	testkit.Must(t, err)
	if _, err = all.Rate(2, Layout{Replicas: 1}); err == nil || !strings.Contains(err.Error(), "preemption") {
		t.Errorf("2 requests a second: %v", err)
	}
}

// Where the numbers of sequences that are likely end between the least and the most that fit, some wait all the same.
func TestFittingBeyondLikelyNumbers(t *testing.T) {
	for _, tokens := range []int{60000, 20000, 30000, 100000, 200000}[:testkit.Cases(1, 5)] {
		x := fullCache{"llama3.1-8b", "h100", "vllm", tokens, Lengths{Kind: "uniform", Low: 200, High: 3442},
			Lengths{Kind: "uniform", Low: 52, High: 857}, 0}
		all, err := x.server(t).Steadies(t.Context(), x.prompt, x.gen)
		testkit.Must(t, err)
		before := 0.0
		for i := range 40 {
			rate := (float64(i) + 1) / 44 * all.flow.capacity().Rate
			st, err := all.Rate(rate, Layout{Replicas: 1})
			testkit.Must(t, err)
			if ttft := float64(st.TTFT); !(ttft > 0.95*before) {
				t.Errorf("%d tokens: TTFT falls from %g s to %g s at %g requests/s", tokens, before, ttft, rate)
			}
			before = float64(st.TTFT)
		}
	}
}

// Steps beside more sequences than are never preempted are interpolated, near what they cost.
func TestStepsBesidePreemptedSequences(t *testing.T) {
	for _, x := range []struct {
		model, gpu  string
		tp          int
		prompt, gen int
	}{{"llama3.1-8b", "h100", 1, 1024, 400}, {"qwen3-30b-a3b", "h200", 1, 1024, 900}, {"gemma2-9b", "rtx-pro-6000", 2, 2000, 900}} {
		f := server(t, x.model, x.gpu, x.tp, "vllm").queue(t, Fixed(x.prompt), Fixed(x.gen))
		most := f.server.Scheduler.MaxSeqs
		if f.most >= most-10 {
			t.Fatalf("%+v: want a cache that holds less than %d sequences", x, most)
		}
		for i := 1; i <= 4; i++ {
			n := f.most + i*(most-f.most)/5
			for _, tokens := range []float64{float64(x.prompt), 3 * float64(x.prompt)} {
				agree(t, fmt.Sprintf("%+v, %d sequences, %.0f tokens of prompts", x, n, tokens), float64(f.cost(n, tokens).Time),
					float64(f.pass(n, tokens).Time), 0.01)
			}
		}
	}
}
