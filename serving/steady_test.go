package serving

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"llmprof/internal/testkit"
	"llmprof/unit"
)

// Answers of one token end with their prompt, so that no number of them fills a replica.
func TestSteadyOfOneToken(t *testing.T) {
	st, err := server(t, "llama3.1-8b", "h200", 1, "vllm").SteadyRate(t.Context(), 2, Fixed(1024), Fixed(1))
	if err != nil || st.Capacity.Bound != "prefill" || !(st.Capacity.Rate > 2) || math.IsInf(st.Capacity.Rate, 0) {
		t.Errorf("%+v, %v", st, err)
	}
}

// Prompts whose answers have one token wait for those before them alone.
func TestSteadyOfPromptsAlone(t *testing.T) {
	for _, scheduler := range []string{"vllm", "sglang"} {
		s := server(t, "llama3.1-8b", "h200", 1, scheduler)
		for _, rate := range []float64{8, 20} {
			st, err := s.SteadyRate(t.Context(), rate, Fixed(1024), Fixed(1))
			testkit.Must(t, err)
			r := simulate(t, s, poisson(rate, 1024, 1, 10000), Options{Warmup: 500})
			what := fmt.Sprintf("%s at %g/s: ", scheduler, rate)
			agree(t, what+"TTFT", float64(st.TTFT), r.TTFT.Mean(), 0.03)
			agree(t, what+"energy", float64(st.Energy), float64(r.Energy)/float64(r.Completed), 0.02)
			agree(t, what+"utilization", st.Utilization, r.Busy, 0.03)
		}
	}
}

// A state whose times are no numbers is refused.
func TestSteadyOfNoTime(t *testing.T) {
	f := server(t, "llama3.1-8b", "h200", 1, "vllm").queue(t, Fixed(1024), Fixed(128))
	for _, st := range []Steady{{TTFT: 1, E2E: unit.Seconds(math.NaN()), Energy: 1}, {TTFT: 1, E2E: 2, Energy: -1},
		{TTFT: 1, E2E: unit.Seconds(math.Inf(1)), Energy: 1}} {
		if got, err := f.complete(&st, 1, 1); err == nil {
			t.Errorf("%+v is a state", got)
		}
	}
}

// Many sequences leave so few tokens of a step to prompts that these take further steps, whose launches are hidden: the largest rate is
// still a number.
func TestSteadyOfFurtherSteps(t *testing.T) {
	s := engineServer(t, "falcon-mamba-7b", "b200", 8, "sglang", "sglang-mixed")
	s.Drafts, s.Acceptance = 2, 0.7
	st, err := s.SteadyRate(t.Context(), 1.6, Fixed(4738), Lengths{Kind: "uniform", Low: 1, High: 467})
	testkit.Must(t, err)
	if c := st.Capacity.Rate; !(c > 1.6) || math.IsInf(c, 0) {
		t.Errorf("the largest rate is %g", c)
	}
}

// Where prompts have steps of their own and these are formed ahead, every other step depends on the same ones before: the chain settles
// all the same.
func TestSteadyOfStepsApart(t *testing.T) {
	testkit.Long(t, "a simulation of 24,000 requests")
	s := engineServer(t, "mistral-7b-v0.3", "rtx-pro-6000", 8, "sglang", "sglang")
	st, err := s.SteadyRate(t.Context(), 15, Fixed(830), Fixed(335))
	testkit.Must(t, err)
	r := simulate(t, s, poisson(15, 830, 335, 24000), Options{Warmup: 4000})
	agree(t, "TTFT", float64(st.TTFT), r.TTFT.Mean(), 0.05)
	agree(t, "E2E", float64(st.E2E), r.E2E.Mean(), 0.05)
}

// The steady state agrees with the simulation within 5 %, up to 80 % of the capacity. Above 60 % the means of the simulation are uncertain
// themselves, by twice their standard error.
func TestSteadyAgreesWithSimulation(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 7))
	models := []struct {
		name, gpu string
		tp        int
	}{{"llama3.1-8b", "h200", 1}, {"llama3.1-8b", "a100", 1}, {"qwen3-30b-a3b", "h200", 1}, {"llama2-70b", "h100", 8}}
	for i := range testkit.Cases(1, 40) {
		m := models[random.IntN(len(models))]
		s := server(t, m.name, m.gpu, m.tp, []string{"vllm", "vllm", "tensorrt-llm", "sglang"}[random.IntN(4)])
		s.Scheduler.Async = random.IntN(2) == 0
		if random.IntN(4) == 0 {
			s.HitRate = 0.5
		}
		prompt, gen := drawLengths(random, 200, 2000), drawLengths(random, 50, 400)
		f := s.queue(t, prompt, gen)
		share := 0.1 + 0.7*random.Float64()
		rate := loaded(f, share)
		what := fmt.Sprintf("%d: %s %s %s async %v, %+v + %+v at %.3g of %.3g/s", i, m.name, m.gpu, s.Scheduler.Name, s.Scheduler.Async, prompt,
			gen, rate, f.capacity().Rate)
		st, err := s.SteadyRate(t.Context(), rate, prompt, gen)
		if err != nil {
			t.Fatal(err)
		}
		seen := &answers{from: 500 + int(5*st.Running)}
		l := Load{Arrival: Arrival{Kind: "poisson", Rate: rate}, Prompt: prompt, Gen: gen, Requests: 24000 + int(30*st.Running), Seed: uint64(i)}
		r := simulate(t, s, l, Options{Warmup: seen.from, Each: seen.add})
		within := func(of []float64) float64 {
			if share <= 0.6 {
				return 0.05
			}
			return 0.05 + 2*uncertainty(of)
		}
		agree(t, what+": TTFT", float64(st.TTFT), r.TTFT.Mean(), within(seen.ttft))
		agree(t, what+": TPOT", float64(st.TPOT), r.TPOT.Mean(), within(seen.tpot))
		agree(t, what+": E2E", float64(st.E2E), r.E2E.Mean(), within(seen.e2e))
		agree(t, what+": energy", float64(st.Energy), float64(r.Energy)/float64(r.Completed), 0.05)
		agree(t, what+": utilization", st.Utilization, r.Busy, 0.05)
		agree(t, what+": KV cache", st.Cache, r.MeanCache, within(seen.e2e))
	}
}

func drawLengths(r *rand.Rand, low, high int) Lengths {
	mean := low + r.IntN(high-low)
	switch r.IntN(3) {
	case 0:
		return Fixed(mean)
	case 1:
		return Lengths{Kind: "uniform", Low: float64(mean / 2), High: float64(mean * 3 / 2)}
	}
	return Lengths{Kind: "lognormal", Mean: float64(mean), Spread: 0.2 + 0.6*r.Float64()}
}

// A closed loop agrees too, whether answers differ or have one length, which makes clients
// run in waves.
func TestSteadyConcurrencyAgrees(t *testing.T) {
	random := rand.New(rand.NewPCG(9, 7))
	for i := range testkit.Cases(5, 30) {
		s := server(t, "llama3.1-8b", []string{"h200", "a100"}[random.IntN(2)], 1,
			[]string{"vllm", "vllm", "tensorrt-llm", "sglang"}[random.IntN(4)])
		s.Scheduler.Async = random.IntN(2) == 0
		prompt, gen := drawLengths(random, 200, 2000), drawLengths(random, 50, 400)
		clients := 1 << random.IntN(7)
		what := fmt.Sprintf("%d: %s async %v, %+v + %+v by %d", i, s.Scheduler.Name, s.Scheduler.Async, prompt, gen, clients)
		st, err := s.SteadyConcurrency(clients, prompt, gen)
		if err != nil {
			t.Fatal(err)
		}
		l := Load{Arrival: Arrival{Kind: "closed", Concurrency: clients}, Prompt: prompt, Gen: gen, Requests: 2000 + 60*clients, Seed: uint64(i)}
		r := simulate(t, s, l, Options{Warmup: 100 + 10*clients})
		agree(t, what+": rate", st.Rate, r.Rate(), 0.05)
		if gen.Kind != "fixed" || prompt.Kind == "fixed" { // prompts of various lengths never settle into the same waves
			agree(t, what+": TTFT", float64(st.TTFT), r.TTFT.Mean(), 0.05)
		}
		agree(t, what+": TPOT", float64(st.TPOT), r.TPOT.Mean(), 0.05)
		agree(t, what+": E2E", float64(st.E2E), r.E2E.Mean(), 0.05)
		agree(t, what+": energy", float64(st.Energy), float64(r.Energy)/float64(r.Completed), 0.05)
	}
}

// Fewer clients than replicas leave some of them idle.
func TestSteadyConcurrencyOfReplicas(t *testing.T) {
	for _, x := range []struct {
		clients, replicas int
		gen               Lengths
	}{{3, 8, Lengths{Kind: "uniform", Low: 20, High: 80}}, {3, 8, Fixed(50)}, {2, 8, Fixed(50)}, {12, 4, Fixed(50)}, {31, 4, Fixed(50)}} {
		s := server(t, "llama3.1-8b", "h200", 1, "vllm")
		s.Replicas = x.replicas
		st, err := s.SteadyConcurrency(x.clients, Fixed(500), x.gen)
		testkit.Must(t, err)
		l := Load{Arrival: Arrival{Kind: "closed", Concurrency: x.clients}, Prompt: Fixed(500), Gen: x.gen, Requests: 200 * x.clients}
		r := simulate(t, s, l, Options{Warmup: 50 * x.clients})
		what := fmt.Sprintf("%+v: ", x)
		agree(t, what+"rate", st.Rate, r.Rate(), 0.05)
		agree(t, what+"E2E", float64(st.E2E), r.E2E.Mean(), 0.05)
		agree(t, what+"utilization", st.Utilization, r.Busy, 0.05)
		agree(t, what+"energy", float64(st.Energy), float64(r.Energy)/float64(r.Completed), 0.05)
	}
}

// Steps of mixtures read nearly all experts whatever they compute, and their launches take as long with one prompt as with many: what
// prompts leave to the next step costs little.
func TestSteadyOfMixtures(t *testing.T) {
	for _, x := range []struct {
		model, gpu  string
		tp          int
		prompt, gen int
	}{{"qwen3-30b-a3b", "h200", 2, 2317, 125}, {"qwen3-30b-a3b", "h200", 1, 1024, 128}, {"mixtral-8x7b", "h100", 2, 1500, 200},
		{"gpt-oss-20b", "h100", 1, 700, 150}}[:testkit.Cases(2, 4)] {
		s := server(t, x.model, x.gpu, x.tp, "vllm")
		all, err := s.Steadies(t.Context(), Fixed(x.prompt), Fixed(x.gen))
		testkit.Must(t, err)
		for _, share := range []float64{0.6, 0.1, 0.35, 0.8}[:testkit.Cases(1, 4)] {
			rate := loaded(all.flow, share)
			st, err := all.Rate(rate, Layout{Replicas: 1})
			testkit.Must(t, err)
			r := simulate(t, s, poisson(rate, x.prompt, x.gen, 12000), Options{Warmup: 1000})
			what := fmt.Sprintf("%+v at %.3g/s, the API server busy for %.2f of the time: ", x, rate, all.flow.front.load(rate, float64(x.gen)))
			agree(t, what+"TTFT", float64(st.TTFT), r.TTFT.Mean(), 0.05)
			agree(t, what+"TPOT", float64(st.TPOT), r.TPOT.Mean(), 0.05)
		}
	}
}

// Prompts that take several steps, alone and among others. Where they take more of the time, E2E is up to 6 % short, for their number
// varies more than that of groups.
func TestSteadyOfLongPrompts(t *testing.T) {
	testkit.Long(t, "simulations beside TestSteadyAgreesWithSimulation, of long prompts")
	s := server(t, "gpt-oss-20b", "l40s", 4, "vllm")
	for _, rate := range []float64{0.3, 0.05, 0.6}[:testkit.Cases(1, 3)] {
		st, err := s.SteadyRate(t.Context(), rate, Fixed(6000), Fixed(128))
		testkit.Must(t, err)
		r := simulate(t, s, poisson(rate, 6000, 128, testkit.Cases(15_000, 40_000)), Options{Warmup: 200})
		agree(t, fmt.Sprintf("%g/s: TTFT", rate), float64(st.TTFT), r.TTFT.Mean(), 0.05)
		agree(t, fmt.Sprintf("%g/s: E2E", rate), float64(st.E2E), r.E2E.Mean(), 0.05)
		agree(t, fmt.Sprintf("%g/s: energy", rate), float64(st.Energy), float64(r.Energy)/float64(r.Completed), 0.05)
	}
}

// BenchmarkSteadyRate is the steady state from nothing, and at a further rate.
func BenchmarkSteadyRate(b *testing.B) {
	s := server(b, "llama3.1-8b", "h200", 1, "vllm")
	for _, prompt := range []Lengths{Fixed(1024), {Kind: "lognormal", Mean: 1024, Spread: 0.8}} {
		b.Run(prompt.Kind, func(b *testing.B) {
			for b.Loop() {
				if _, err := s.SteadyRate(b.Context(), 10, prompt, Fixed(128)); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(prompt.Kind+"-prepared", func(b *testing.B) {
			all, err := s.Steadies(b.Context(), prompt, Fixed(128))
			if err != nil {
				b.Fatal(err)
			}
			for i := 0; b.Loop(); i++ {
				if _, err := all.Rate(5+float64(i%100)/10, Layout{Replicas: 1}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// Clients that prompts keep busy are answered no faster than the largest rate, and as fast as in the simulation within 5 %.
func TestSteadyConcurrencyOfPrompts(t *testing.T) {
	s := server(t, "gemma2-9b", "rtx-pro-6000", 2, "vllm")
	s.Drafts, s.Acceptance = 4, 0.7
	prompt, gen := Lengths{Kind: "uniform", Low: 1294, High: 3882}, Lengths{Kind: "uniform", Low: 46, High: 138}
	for _, clients := range []int{64, 80} {
		st, err := s.SteadyConcurrency(clients, prompt, gen)
		if err != nil {
			t.Fatal(err)
		}
		if st.Rate > st.Capacity.Rate {
			t.Errorf("%.3g requests a second are answered where %.3g is the largest rate", st.Rate, st.Capacity.Rate)
		}
		l := Load{Arrival: Arrival{Kind: "closed", Concurrency: clients}, Prompt: prompt, Gen: gen, Requests: 2500}
		r := simulate(t, s, l, Options{Warmup: 320})
		agree(t, "rate", st.Rate, r.Rate(), 0.05)
		agree(t, "E2E", float64(st.E2E), r.E2E.Mean(), 0.05)
		agree(t, "TPOT", float64(st.TPOT), r.TPOT.Mean(), 0.05)
	}
}

// Of clients whose prompts fill all steps as many decode as such steps have room for, and the others wait.
func TestSteadyConcurrencyOfFullSteps(t *testing.T) {
	for _, x := range []struct {
		gpu, scheduler string
		clients        int
		prompt, gen    Lengths
	}{
		{"a100", "vllm", 343, Lengths{Kind: "uniform", Low: 1412, High: 3000}, Lengths{Kind: "uniform", Low: 20, High: 170}},
		{"h100", "vllm", 296, Lengths{Kind: "uniform", Low: 1987, High: 3000}, Lengths{Kind: "uniform", Low: 20, High: 83}},
		{"h200", "tensorrt-llm", 337, Lengths{Kind: "uniform", Low: 1693, High: 3000}, Lengths{Kind: "uniform", Low: 20, High: 117}},
	} {
		s := server(t, "llama3.1-8b", x.gpu, 1, x.scheduler)
		st, err := s.SteadyConcurrency(x.clients, x.prompt, x.gen)
		testkit.Must(t, err)
		l := Load{Arrival: Arrival{Kind: "closed", Concurrency: x.clients}, Prompt: x.prompt, Gen: x.gen, Requests: 12 * x.clients}
		r := simulate(t, s, l, Options{Warmup: 4 * x.clients})
		what := fmt.Sprintf("%+v: ", x)
		agree(t, what+"TTFT", float64(st.TTFT), r.TTFT.Mean(), 0.05)
		agree(t, what+"TPOT", float64(st.TPOT), r.TPOT.Mean(), 0.05)
		agree(t, what+"E2E", float64(st.E2E), r.E2E.Mean(), 0.05)
		agree(t, what+"energy", float64(st.Energy), float64(r.Energy)/float64(r.Completed), 0.05)
	}
}

// The largest stable rate is what a server answers that twice as many clients keep busy as it runs at once, within 5 %.
func TestCapacity(t *testing.T) {
	for _, x := range []struct {
		model, gpu  string
		tp          int
		scheduler   string
		prompt, gen Lengths
	}{
		{"llama3.1-8b", "h200", 1, "vllm", Fixed(1024), Fixed(128)},
		{"llama3.1-8b", "h200", 1, "vllm", Fixed(1024), Fixed(32)},
		{"llama3.1-8b", "h200", 1, "vllm", Fixed(4096), Fixed(16)},
		{"llama3.2-1b", "l40s", 1, "vllm", Fixed(4000), Fixed(50)},
		{"llama3.2-1b", "h100", 2, "vllm", Fixed(416), Lengths{Kind: "uniform", Low: 74, High: 223}},
		{"gpt-oss-20b", "b200", 4, "tensorrt-llm-max-utilization", Lengths{Kind: "uniform", Low: 1189, High: 3567}, Fixed(85)},
		{"llama3.1-8b", "h100", 1, "llama.cpp", Fixed(1024), Fixed(128)},
	} {
		s := server(t, x.model, x.gpu, x.tp, x.scheduler)
		st, err := s.Steadies(t.Context(), x.prompt, x.gen)
		testkit.Must(t, err)
		c := st.flow.capacity()
		var ends [2]float64
		answered := 0
		l := Load{Arrival: Arrival{Kind: "closed", Concurrency: 2 * c.Running}, Prompt: x.prompt, Gen: x.gen, Requests: 6000 + 2*c.Running}
		simulate(t, s, l, Options{Each: func(q *Record) {
			if answered++; answered == 2000 || answered == 6000 {
				ends[answered/6000] = float64(q.Last)
			}
		}})
		agree(t, fmt.Sprintf("%+v: %+v", x, c), c.Rate, 4000/(ends[1]-ends[0]), 0.05)
	}
}

// A short answer decodes beside the prompts that came while its own was computed for its steps alone, however many they are.
func TestSteadyOfShortAnswers(t *testing.T) {
	s := server(t, "llama3.1-8b", "h100", 1, "vllm")
	for _, x := range []struct {
		prompt, gen int
		rate        float64
	}{{8000, 2, 1}, {30000, 3, 0.27}, {100000, 2, 0.08}, {100000, 8, 0.08}} {
		st, err := s.SteadyRate(t.Context(), x.rate, Fixed(x.prompt), Fixed(x.gen))
		testkit.Must(t, err)
		l := Load{Arrival: Arrival{Kind: "poisson", Rate: x.rate}, Prompt: Fixed(x.prompt), Gen: Fixed(x.gen), Requests: 3000, Seed: 1}
		r := simulate(t, s, l, Options{Warmup: 100})
		if off := float64(st.E2E)/r.E2E.Mean() - 1; math.Abs(off) > 0.05 {
			t.Errorf("%d + %d tokens at %g/s: E2E %v, simulated %g", x.prompt, x.gen, x.rate, st.E2E, r.E2E.Mean())
		}
		// The first steps of a long prompt are shorter than those with most of it before them, which count alike here.
		if tpot := r.TPOT.Mean(); float64(st.TPOT) > 2.2*tpot || float64(st.TPOT) < 0.6*tpot {
			t.Errorf("%d + %d tokens at %g/s: TPOT %v, simulated %g", x.prompt, x.gen, x.rate, st.TPOT, tpot)
		}
	}
}

// By Little's law requests wait for their first token, and decode, for as long as their times say.
func TestSteadyLittle(t *testing.T) {
	s := server(t, "llama3.1-8b", "h100", 1, "vllm")
	s.Replicas = 2
	for _, gen := range []Lengths{Fixed(1), Fixed(128), {Kind: "uniform", Low: 100, High: 156}} {
		open, err := s.SteadyRate(t.Context(), 8, Fixed(1024), gen)
		testkit.Must(t, err)
		one, err := s.SteadyConcurrency(1, Fixed(1024), gen)
		testkit.Must(t, err)
		many, err := s.SteadyConcurrency(64, Fixed(1024), gen)
		testkit.Must(t, err)
		loads := map[string]*Steady{"8/s": open, "1 client": one, "64 clients": many}
		if gen.MeanLength() > 1 {
			apart := *s
			apart.Prefillers, apart.Link = 2, 1e9
			loads["8/s, handed over"], err = apart.SteadyRate(t.Context(), 8, Fixed(1024), gen)
			testkit.Must(t, err)
		}
		for load, st := range loads {
			decoding := st.Rate * float64(st.E2E-st.TTFT)
			if off := st.Running - decoding; math.Abs(off) > 0.02*decoding {
				t.Errorf("%s, answers of %v: %g sequences decode, by Little's law %g", load, &gen, st.Running, decoding)
			}
			waiting := st.Rate * float64(st.TTFT)
			if off := st.Waiting - waiting; math.Abs(off) > 0.02*(waiting+decoding) {
				t.Errorf("%s, answers of %v: %g requests wait, by Little's law %g", load, &gen, st.Waiting, waiting)
			}
		}
	}
}
