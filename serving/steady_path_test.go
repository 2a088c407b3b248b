package serving

import (
	"fmt"
	"testing"

	"llmprof/internal/testkit"
)

// Of answers that take no longer to decode than a few prompts the number that decodes changes with each step.
func TestSteadyOfBriefAnswers(t *testing.T) {
	all := []struct {
		model, gpu        string
		tp                int
		engine, scheduler string
		prompt, gen       Lengths
		drafts            int
	}{
		{"granite-4.0-h-small", "b300", 4, "vllm", "vllm", Fixed(4096), Fixed(8), 0},
		{"granite-4.0-h-small", "b300", 4, "vllm", "vllm", Fixed(1024), Fixed(4), 0},
		{"deepseek-v2-lite", "b200", 1, "vllm", "vllm", Fixed(9000), Fixed(20), 0},
		{"gemma3n-e4b", "a100", 4, "vllm", "vllm", Fixed(1024), Fixed(16), 0},
		{"gemma3n-e4b", "a100", 4, "vllm", "vllm", Fixed(4096), Fixed(16), 0},
		{"mistral-7b-v0.3", "a100", 8, "sglang", "sglang", Fixed(579), Lengths{Kind: "lognormal", Mean: 12, Spread: 0.7}, 0},
		{"llama3.1-70b", "h100", 8, "sglang", "sglang", Fixed(300), Lengths{Kind: "lognormal", Mean: 64, Spread: 0.7}, 0},
		{"qwen3-8b", "h200", 2, "sglang", "sglang", Lengths{Kind: "lognormal", Mean: 367, Spread: 0.3}, Fixed(49), 0},
		{"qwen3-30b-a3b", "rtx-4090", 8, "vllm", "vllm-2024", Fixed(66), Lengths{Kind: "lognormal", Mean: 12, Spread: 0.9}, 3},
		{"llama3.2-1b", "rtx-pro-6000", 1, "trtllm", "tensorrt-llm", Fixed(8410), Fixed(64), 0},
	}
	shares, requests := []float64{0.4, 0.2, 0.6, 0.8}[:testkit.Cases(1, 4)], testkit.Cases(8000, 20000)
	for i := range all[:testkit.Cases(2, len(all))] {
		x := &all[i]
		s := engineServer(t, x.model, x.gpu, x.tp, x.engine, x.scheduler)
		s.Drafts, s.Acceptance = x.drafts, 0.7
		states, err := s.Steadies(t.Context(), x.prompt, x.gen)
		testkit.Must(t, err)
		for _, share := range shares {
			rate := share * states.flow.capacity().Rate
			st, err := states.Rate(rate, Layout{Replicas: 1})
			testkit.Must(t, err)
			seen := &answers{from: 500 + int(3*st.Running)}
			l := Load{Arrival: Arrival{Kind: "poisson", Rate: rate}, Prompt: x.prompt, Gen: x.gen, Requests: requests + int(20*st.Running), Seed: 1}
			r := simulate(t, s, l, Options{Warmup: seen.from, Each: seen.add})
			what := fmt.Sprintf("%s on %s, %v + %v tokens at %.1f of the capacity: ", x.model, x.gpu, &x.prompt, &x.gen, share)
			off := 0.05
			if x.engine == "sglang" && share > 0.7 { // whose prompts have steps of their own, which a path of few answers has wait too little
				off = 0.2
			}
			agree(t, what+"TTFT", float64(st.TTFT), r.TTFT.Mean(), off+2*uncertainty(seen.ttft))
			agree(t, what+"TPOT", float64(st.TPOT), r.TPOT.Mean(), 0.05+2*uncertainty(seen.tpot))
			agree(t, what+"E2E", float64(st.E2E), r.E2E.Mean(), 0.05+2*uncertainty(seen.e2e))
			agree(t, what+"energy", float64(st.Energy), float64(r.Energy)/float64(r.Completed), 0.05)
			agree(t, what+"utilization", st.Utilization, r.Busy, 0.05)
			agree(t, what+"KV cache", st.Cache, r.MeanCache, 0.06+2*uncertainty(seen.e2e))
		}
	}
}

// Clients that wait for brief answers are followed too.
func TestSteadyConcurrencyOfBriefAnswers(t *testing.T) {
	testkit.Long(t, "simulations beside TestSteadyConcurrencyAgrees, of brief answers")
	for _, x := range []struct {
		model, gpu        string
		tp                int
		engine, scheduler string
		budget, clients   int
		prompt, gen       Lengths
	}{
		{"granite-4.0-h-small", "rtx-pro-6000", 4, "trtllm", "tensorrt-llm", 1024, 32, Fixed(2051),
			Lengths{Kind: "lognormal", Mean: 46, Spread: 0.23}},
		{"gpt-oss-20b", "rtx-pro-6000", 2, "llamacpp", "llama.cpp", 2048, 128, Lengths{Kind: "lognormal", Mean: 50, Spread: 0.68},
			Lengths{Kind: "lognormal", Mean: 6, Spread: 0.5}},
		{"falcon-mamba-7b", "l40s", 4, "sglang", "sglang-mixed", 4096, 8, Fixed(409), Lengths{Kind: "lognormal", Mean: 3, Spread: 0.54}},
	}[:testkit.Cases(1, 3)] {
		s := engineServer(t, x.model, x.gpu, x.tp, x.engine, x.scheduler)
		s.Scheduler.Budget = x.budget
		st, err := s.SteadyConcurrency(x.clients, x.prompt, x.gen)
		testkit.Must(t, err)
		l := Load{Arrival: Arrival{Kind: "closed", Concurrency: x.clients}, Prompt: x.prompt, Gen: x.gen, Requests: 4000}
		r := simulate(t, s, l, Options{Warmup: 10 * x.clients})
		what := fmt.Sprintf("%s on %s, %d clients: ", x.model, x.gpu, x.clients)
		agree(t, what+"TTFT", float64(st.TTFT), r.TTFT.Mean(), 0.05)
		agree(t, what+"TPOT", float64(st.TPOT), r.TPOT.Mean(), 0.05)
		agree(t, what+"E2E", float64(st.E2E), r.E2E.Mean(), 0.05)
		agree(t, what+"Little's law", st.Rate*float64(st.E2E), float64(x.clients), 0.02)
	}
}

// Steps with equal prompts are priced as they are, for how full the last wave of tiles is differs from number to number.
func TestEqualPromptsArePriced(t *testing.T) {
	f := engineServer(t, "mistral-7b-v0.3", "a100", 8, "sglang", "sglang").queue(t, Fixed(579), Fixed(12))
	for k := 1; k <= 8; k++ {
		tokens := float64(k) * 579
		agree(t, fmt.Sprintf("step with %d prompts", k), float64(f.cost(1, tokens).Time), float64(f.pass(1, tokens).Time), 1e-9)
	}
}

// A path passes over the steps that a prompt fills, and comes to what a simulation of each of them does.
func TestPathOfManyPromptSteps(t *testing.T) {
	for _, budget := range []int{1, 512} {
		s := server(t, "qwen3-8b", "h200", 1, "vllm")
		s.Scheduler.Budget = budget
		f := s.queue(t, Fixed(30000), Fixed(16))
		w, steps := f.newPath(f.come(100, f.capacity().Rate/2)), 0
		for w.next < len(w.jobs) {
			w.step()
			steps++
		}
		if steps > 60*len(w.jobs) {
			t.Errorf("steps of %d tokens: %d steps of a path of %d prompts are followed", budget, steps, len(w.jobs))
		}
		if budget == 1 { // whose attention is priced at the mean context, of which it is no linear function
			continue
		}
		l := poisson(f.capacity().Rate/2, 30000, 16, 4000)
		r := simulate(t, s, l, Options{Warmup: 100})
		st, _ := f.sample(l.Arrival.Rate, 20000)
		agree(t, "TTFT", float64(st.TTFT), r.TTFT.Mean(), 0.06)
	}
}

// TestStepsOfSlowHost holds that steps which wait for the host alike are taken at once: a path of answers of 4096 tokens one at a time
// forms a few steps for each, and takes as long as a simulation.
func TestStepsOfSlowHost(t *testing.T) {
	s := engineServer(t, "lfm2-1.2b", "rtx-4090", 1, "vllm", "vllm")
	const rate, jobs, few = 1e-3, 64, 20
	states, err := s.Steadies(t.Context(), Fixed(1024), Fixed(4096))
	testkit.Must(t, err)
	w := states.flow.newPath(states.flow.come(jobs, rate))
	steps := 0
	for w.next < len(w.jobs) {
		w.step()
		steps++
	}
	if steps > few*jobs {
		t.Errorf("%d steps of %d answers: want %d at most", steps, jobs, few*jobs)
	}
	l := Load{Arrival: Arrival{Kind: "poisson", Rate: rate}, Prompt: Fixed(1024), Gen: Fixed(4096), Requests: 16, Seed: 1}
	r, st := simulate(t, s, l, Options{}), w.steady(w.tally(), rate)
	agree(t, "TPOT", float64(st.TPOT), r.TPOT.Mean(), 0.01)
	agree(t, "E2E", float64(st.E2E), r.E2E.Mean(), 0.01)
}

// TestSeldomRequests holds that fewer requests are followed the more seldom they meet, whose times are those of many more.
func TestSeldomRequests(t *testing.T) {
	s := server(t, "pythia-70m", "a100", 1, "vllm")
	f := s.queue(t, Lengths{Kind: "uniform", Low: 100, High: 2000}, Lengths{Kind: "lognormal", Mean: 128, Spread: 2})
	last := 0
	for _, share := range []float64{1e-9, 1e-3, 0.01, 0.5} {
		rate := share * f.capacity().Rate
		n := f.jobs(rate)
		if n < last || share < 1e-6 && n > mostJobs/4 || share > 0.1 && n < mostJobs {
			t.Errorf("%d requests are followed at %g of the capacity, %d at less", n, share, last)
		}
		last = n
		got, _ := f.sample(rate, n)
		want, _ := f.sample(rate, mostJobs)
		what := fmt.Sprint(share, " of the capacity: ")
		agree(t, what+"TTFT", float64(got.TTFT), float64(want.TTFT), 0.01)
		agree(t, what+"TPOT", float64(got.TPOT), float64(want.TPOT), 0.01)
		agree(t, what+"E2E", float64(got.E2E), float64(want.E2E), 0.01)
	}
}

// TestNothingIsNegative holds that rounding leaves no figure of a steady state below 0, where answers have one token and hardly meet.
func TestNothingIsNegative(t *testing.T) {
	s := server(t, "llama3.1-8b", "h100", 1, "vllm")
	for _, gen := range []int{1, 2} {
		for _, rate := range []float64{1e-9, 1e-3, 1, 10} {
			st, err := s.SteadyRate(t.Context(), rate, Fixed(100), Fixed(gen))
			testkit.Must(t, err)
			for name, v := range map[string]float64{"running": st.Running, "waiting": st.Waiting, "utilization": st.Utilization, "cache": st.Cache,
				"TPOT": float64(st.TPOT), "energy": float64(st.Energy)} {
				if v < 0 {
					t.Errorf("%d tokens at %g/s: %s is %g", gen, rate, name, v)
				}
			}
		}
	}
}

// TestCacheOfPromptsInParts holds that a prompt of several steps takes its KV blocks with each of them.
func TestCacheOfPromptsInParts(t *testing.T) {
	s := engineServer(t, "mixtral-8x7b", "b200", 8, "llamacpp", "llama.cpp")
	states, err := s.Steadies(t.Context(), Fixed(3586), Fixed(84))
	testkit.Must(t, err)
	rate := 0.26 * states.flow.capacity().Rate
	st, err := states.Rate(rate, Layout{Replicas: 1})
	testkit.Must(t, err)
	r := simulate(t, s, poisson(rate, 3586, 84, 3000), Options{Warmup: 200})
	agree(t, "KV cache", st.Cache, r.MeanCache, 0.04)
}
