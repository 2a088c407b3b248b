package serving

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"llmprof/analytic"
	"llmprof/analytic/engine"
	"llmprof/analytic/operator"
	"llmprof/internal/testkit"
	"llmprof/internal/testkit/casetest"
	"llmprof/unit"
)

// Tabulated decode steps are within 0.1 % of the evaluator's, wherever a bound changes.
func TestTabulatedSteps(t *testing.T) {
	for _, x := range []struct {
		model, gpu string
		tp         int
	}{{"llama3.1-8b", "h200", 1}, {"llama2-70b", "a100", 8}, {"qwen3-30b-a3b", "rtx-4090", 4}, {"deepseek-v3", "h200", 8}} {
		p := casetest.Predictor(t, x.model, x.gpu, x.tp)
		prices := newPrices(p, 0, false)
		for _, n := range []int{1, 3, 16, 17, 64, 255, 700} {
			for context := 3.0; context < 200000; context *= 1.37 {
				want, energy := p.MixedStep([]operator.Group{{Batch: float64(n), New: 1, Past: context, Logits: 1}})
				b := batch{decodes: n, byWin: []operator.Group{{Batch: float64(n), Past: float64(n) * context}}}
				got := prices.cost(&b, 0)
				casetest.Near(t, x.model+": time", got.Time, want, 1e-3)
				casetest.Near(t, x.model+": energy", got.Energy, energy, 1e-2)
			}
		}
	}
}

// One request alone takes its prefill and its decode steps.
func TestOneRequest(t *testing.T) {
	s := server(t, "llama3.1-8b", "h200", 1, "vllm")
	r := simulate(t, s, poisson(1, 1000, 50, 1), Options{})
	p := s.Predictor
	e, err := p.Predict(&analytic.Workload{Batch: 1, PromptLen: 1000, GenLen: 1})
	testkit.Must(t, err)
	ttft := e.TTFT.Expected
	casetest.Near(t, "TTFT", unit.Seconds(r.TTFT.Mean()), ttft, 1e-9)
	var decode unit.Seconds
	for past := 1000.0; past < 1049; past++ {
		decode += p.StepTime(1, 1, past, 1)
	}
	casetest.Near(t, "E2E", unit.Seconds(r.E2E.Mean()), ttft+decode, 1e-3)
}

// A request alone has the TTFT of an estimate, and its energy: the power limit is held over a step and the host's time
// beside it, in which the GPU waits.
func TestLoneRequestIsEstimate(t *testing.T) {
	for _, x := range []struct {
		model, gpu, engine, scheduler string
		tp                            int
	}{
		{"llama3.1-8b", "h200", "vllm", "vllm", 1}, {"qwen3-32b", "h100", "vllm", "vllm", 2}, {"qwen3-30b-a3b", "h200", "vllm", "vllm", 1},
		{"llama3.1-8b", "b200", "sglang", "sglang", 1}, {"llama3.1-8b", "a100", "trtllm", "tensorrt-llm", 1},
		{"llama3.1-8b", "h100", "llamacpp", "llama.cpp", 1},
	} {
		s := engineServer(t, x.model, x.gpu, x.tp, x.engine, x.scheduler)
		for _, prompt := range []int{64, 1024, 2000} {
			e, err := s.Predictor.Predict(&analytic.Workload{Batch: 1, PromptLen: prompt, GenLen: 1})
			testkit.Must(t, err)
			all, err := s.Steadies(t.Context(), Fixed(prompt), Fixed(2))
			testkit.Must(t, err)
			var first unit.Seconds
			r := simulate(t, s, Load{Arrival: Arrival{Kind: "constant", Rate: 2}, Prompt: Fixed(prompt), Gen: Fixed(1), Requests: 40},
				Options{Each: func(q *Record) { first = q.TTFT() }})
			between := s.idle().For(r.Duration - first.Times(40))
			what := fmt.Sprintf("%+v, %d tokens: ", x, prompt)
			exact := 1e-4
			if s.Scheduler.Pass > 0 { // passes of one step balance apart
				exact = 1e-3
			}
			casetest.Near(t, what+"TTFT", first, e.TTFT.Expected, exact)
			casetest.Near(t, what+"TTFT of the steady state", all.idle().TTFT, e.TTFT.Expected, exact)
			casetest.Near(t, what+"energy", (r.Energy - between).Times(1.0/40), e.Energy.PerPrompt, 3e-3)
		}
	}
}

// Whatever the scheduler, all requests are answered, no sequence is left, all blocks are
// free again, and no more steps are drawn than the tokens need.
func TestEveryRequestIsAnswered(t *testing.T) {
	for _, name := range engine.SchedulerNames() {
		for _, cache := range []int{0, 6000} {
			s := server(t, "llama3.1-8b", "h200", 1, name)
			s.CacheTokens = cache
			l := Load{
				Arrival: Arrival{Kind: "poisson", Rate: 30}, Requests: 500, Seed: 3,
				Prompt: Lengths{Kind: "lognormal", Mean: 400, Spread: 0.7}, Gen: Lengths{Kind: "uniform", Low: 1, High: 300},
			}
			source, err := l.Source()
			if err != nil {
				t.Fatal(err)
			}
			c := newCluster(s, source, &Options{})
			for c.step() {
			}
			r := c.mixed[0]
			if got := c.result.Completed + c.result.Refused; got != 500 {
				t.Errorf("%s, %d tokens of cache: %d of 500 requests answered", name, cache, got)
			}
			if r.pool.free != r.pool.total || int(r.cache.due) != 0 || int(r.cache.planned) != 0 || len(r.running) != 0 || r.waiting.len() != 0 {
				t.Errorf("%s, %d tokens of cache: %d of %d blocks free, %d tokens due, %d blocks planned, %d running, %d waiting",
					name, cache, r.pool.free, r.pool.total, int(r.cache.due), int(r.cache.planned), len(r.running), r.waiting.len())
			}
			never := s.Scheduler.Admission == engine.ForAll || s.Scheduler.Admission == engine.ForSlot
			if never && r.preempted > 0 || cache > 0 && r.preempted == 0 && s.Scheduler.Admission == engine.ForPrompt {
				t.Errorf("%s: %d preemptions in a cache of %d tokens", name, r.preempted, cache)
			}
		}
	}
}

// No step has more tokens than its budget, nor more sequences than may run.
func TestBudget(t *testing.T) {
	s := server(t, "llama3.1-8b", "h200", 1, "vllm")
	s.Scheduler.Budget, s.Scheduler.MaxSeqs = 700, 20
	l := poisson(40, 3000, 80, 200)
	source, _ := l.Source()
	c := newCluster(s, source, &Options{})
	for c.step() {
		r := c.mixed[0]
		tokens := float64(r.batch.decodes)
		for _, g := range r.batch.chunks {
			tokens += g.New * g.Batch
		}
		if tokens > 700 || len(r.running) > 20 {
			t.Fatalf("a step of %g tokens with %d running", tokens, len(r.running))
		}
	}
}

// The same seed gives the same result, another one another.
func TestSeed(t *testing.T) {
	s := server(t, "llama3.1-8b", "h200", 1, "vllm")
	l := poisson(8, 700, 90, 300)
	a, b := simulate(t, s, l, Options{}), simulate(t, s, l, Options{})
	l.Seed = 2
	c := simulate(t, s, l, Options{})
	if a.E2E.Sum != b.E2E.Sum || a.Energy != b.Energy || a.E2E.Sum == c.E2E.Sum {
		t.Errorf("E2E in all: %v and %v with one seed, %v with another", a.E2E.Sum, b.E2E.Sum, c.E2E.Sum)
	}
}

// Little's law: the mean of the requests in the system is the rate times the mean time.
func TestLittle(t *testing.T) {
	s := server(t, "llama3.1-8b", "h200", 1, "vllm")
	s.Scheduler.Async = false
	r := simulate(t, s, poisson(10, 1024, 128, 3000), Options{})
	want := float64(r.Completed) / float64(r.Duration) * (r.E2E.Mean() - r.TTFT.Mean())
	if got := r.MeanRunning; math.Abs(got-want) > 0.15*want+0.6 {
		t.Errorf("%g running on average, Little's law has %g that decode", got, want)
	}
}

// Every option of a server changes the result.
func TestEveryOptionCounts(t *testing.T) {
	base := func() (*Server, Load) {
		s := server(t, "llama3.1-8b", "h200", 1, "vllm")
		s.CacheTokens, s.ToHost, s.Link = 9000, 50e9, 400e9
		return s, poisson(14, 900, 160, 400)
	}
	s, l := base()
	plain := simulate(t, s, l, Options{})
	for name, change := range map[string]func(*Server){
		"budget":    func(s *Server) { s.Scheduler.Budget = 512 },
		"sequences": func(s *Server) { s.Scheduler.MaxSeqs = 3 },
		"block":     func(s *Server) { s.Scheduler.Block = 256 },
		"watermark": func(s *Server) { s.Scheduler.Watermark = 0.3 },
		"mixed":     func(s *Server) { s.Scheduler.Mixed = false },
		"whole":     func(s *Server) { s.Scheduler.Budget, s.Scheduler.Whole = 1000, true },
		"pass":      func(s *Server) { s.Scheduler.Pass = 256 },
		"swap":      func(s *Server) { s.Scheduler.Swap = true },
		"async":     func(s *Server) { s.Scheduler.Async = false },
		"admission": func(s *Server) { s.Scheduler.Admission = engine.ForAll },
		"receives":  func(s *Server) { s.Scheduler.Receives = 20 },
		"hit rate":  func(s *Server) { s.HitRate = 0.5 },
		"drafts":    func(s *Server) { s.Drafts, s.Acceptance = 3, 0.7 },
		"drafter": func(s *Server) {
			s.Drafts, s.Acceptance, s.Drafter = 3, 0.7, casetest.Predictor(t, "llama3.2-1b", "h200", 1)
		},
		"replicas":    func(s *Server) { s.Replicas = 2 },
		"least":       func(s *Server) { s.Replicas, s.Routing = 2, "least-loaded" },
		"prefillers":  func(s *Server) { s.Prefillers = 1 },
		"slower link": func(s *Server) { s.Prefillers, s.Link = 1, 1e9 },
	} {
		s, l := base()
		change(s)
		r := simulate(t, s, l, Options{})
		if r.Completed != 400 || r.E2E.Sum == plain.E2E.Sum {
			t.Errorf("%s: %d answered, E2E %g s in all, %g without", name, r.Completed, r.E2E.Sum, plain.E2E.Sum)
		}
	}
}

// Tokens that are sent ten at a time come ten times as rarely, and the last one no later.
func TestStreamInterval(t *testing.T) {
	of := func(streams int) *Result {
		s := server(t, "llama3.1-8b", "h200", 1, "vllm")
		s.Scheduler.Streams = streams
		return simulate(t, s, poisson(1, 900, 161, 100), Options{})
	}
	one, ten := of(1), of(10)
	casetest.Near(t, "gaps of ten tokens", ten.ITL.Mean(), 10*one.ITL.Mean(), 0.01)
	casetest.Near(t, "TTFT", ten.TTFT.Mean(), one.TTFT.Mean(), 1e-3)
	casetest.Near(t, "E2E", ten.E2E.Mean(), one.E2E.Mean(), 1e-3)
}

// A request that comes while sequences decode waits for half of the steps after which the scheduler receives it.
func TestReceiveInterval(t *testing.T) {
	of := func(steps int) *Result {
		s := server(t, "llama3.1-8b", "h200", 1, "sglang")
		s.Scheduler.Receives = steps
		return simulate(t, s, poisson(2, 64, 1000, 400), Options{})
	}
	one, many := of(1), of(64)
	wait := 64 * one.TPOT.Mean() / 2
	casetest.Near(t, "wait for half of 64 steps", many.TTFT.Mean()-one.TTFT.Mean(), wait, 0.15)
	steady := func(steps int) float64 {
		s := server(t, "llama3.1-8b", "h200", 1, "sglang")
		s.Scheduler.Receives = steps
		all, err := s.Steadies(context.Background(), Fixed(64), Fixed(1000))
		testkit.Must(t, err)
		st, err := all.Rate(2, s.Layout)
		testkit.Must(t, err)
		return float64(st.TTFT)
	}
	casetest.Near(t, "the same of a steady state", steady(64)-steady(1), wait, 0.15)
}

// What cannot be is refused in words.
func TestRefusals(t *testing.T) {
	for want, change := range map[string]func(*Server){
		"hit rate":          func(s *Server) { s.HitRate = 1 },
		"link":              func(s *Server) { s.Prefillers = 1 },
		"host":              func(s *Server) { s.Scheduler.Swap = true },
		"acceptance":        func(s *Server) { s.Drafts, s.Acceptance = 1, 1.5 },
		"routing":           func(s *Server) { s.Routing = "random" },
		"replicas":          func(s *Server) { s.Replicas = 0 },
		"at most 0":         func(s *Server) { s.Scheduler.Budget = 0 },
		"takes at most 100": func(s *Server) { s.Context = 100 },
		"watermark":         func(s *Server) { s.Scheduler.Watermark = 1 },
		"for a KV cache":    func(s *Server) { s.Scheduler.Budget = 1 << 25 },
		"sequences: want":   func(s *Server) { s.Scheduler.MaxSeqs = 0 },
	} {
		s := server(t, "llama3.1-8b", "h200", 1, "vllm")
		change(s)
		l := poisson(1, 900, 16, 10)
		source, _ := l.Source()
		if _, err := Simulate(context.Background(), s, source, Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// A context that ends leaves what was answered.
func TestInterrupted(t *testing.T) {
	s := server(t, "llama3.1-8b", "h200", 1, "vllm")
	ctx, stop := context.WithCancel(context.Background())
	l := poisson(10, 900, 100, 100000)
	source, _ := l.Source()
	r, err := Simulate(ctx, s, source, Options{Progress: func(answered int, _ unit.Seconds) {
		if answered > 50 {
			stop()
		}
	}})
	if err != nil || !r.Interrupted || r.Completed < 50 || r.Completed > 5000 {
		t.Fatalf("%+v, %v", r, err)
	}
}

// The host launches a step while the one before runs: its kernels wait for launches so much less, and a step
// of the GPU never ends before it is launched.
func TestLaunchedAhead(t *testing.T) {
	s := server(t, "llama3.1-8b", "h200", 1, "vllm")
	for _, x := range []struct {
		what           string
		cost           Cost
		ahead          unit.Seconds
		ends, launched unit.Seconds
	}{
		{"nothing runs before it", Cost{Time: 24, Launch: 24, Waits: 10}, 0, 24, 24},
		{"some of the launches are done", Cost{Time: 24, Launch: 24, Waits: 10}, 6, 18, 18},
		{"the kernels are what takes longest", Cost{Time: 24, Launch: 24, Waits: 10}, 15, 14, 9},
		{"kernels hide all launches", Cost{Time: 27, Launch: 24}, 6, 27, 18},
		{"the host is late", Cost{Time: 24, Launch: 24, Waits: 10}, -2, 26, 26},
	} {
		r := &replica{server: s, stepping: stepping{cost: x.cost}}
		r.run(100, 100-x.ahead)
		if r.end != 100+x.ends || r.launched != 100+x.launched {
			t.Errorf("%s: ends after %g and is launched after %g, want %g and %g", x.what, float64(r.end-100), float64(r.launched-100),
				float64(x.ends), float64(x.launched))
		}
	}
}

// With asynchronous scheduling a request that comes while the host launches a prompt is in the next step, and
// the host takes the first token of that prompt when it has launched that step.
func TestRequestDuringLaunch(t *testing.T) {
	s := server(t, "llama3.1-8b", "h100", 1, "vllm")
	p := s.Predictor
	alone := p.StepTime(1, 1024, 0, 1)
	launch := p.StepCost([]operator.Group{{Batch: 1, New: 1024, Logits: 1}}, 0).Launch
	if launch < alone.Times(0.5) {
		t.Fatalf("a prompt of %g s is launched within %g s: nothing to show", float64(alone), float64(launch))
	}
	firsts := func(at unit.Seconds) (first, second unit.Seconds) {
		var all [2]unit.Seconds
		_, err := Simulate(context.Background(), s, Replay([]Request{{Prompt: 1024, Gen: 20}, {At: at, Prompt: 1024, Gen: 20}}),
			Options{Each: func(r *Record) { all[r.Index] = r.First }})
		if err != nil {
			t.Fatal(err)
		}
		return all[0], all[1]
	}
	idle, _ := firsts(1)
	held, during := firsts(launch.Times(0.5))
	_, after := firsts(launch.Times(1.05)) // it reaches the engine when the next step is formed already
	if more := held - idle; more < launch.Times(0.7) {
		t.Errorf("the first token comes %g s later for the launch of the next prompt of %g s", float64(more), float64(launch))
	}
	step := p.StepTime(1, 1, 1024, 1)
	if wait := after - during; wait < step.Times(0.5) {
		t.Errorf("a request that comes later than the launch has its token %g s after one that comes during it, want a step of %g s",
			float64(wait), float64(step))
	}
}

// Replicas that share experts step together: the decodes of one take as long as the prompts of the other.
func TestPeersStepTogether(t *testing.T) {
	c := casetest.Case(t, "qwen3-30b-a3b", "h200", 1, 1)
	c.Parallel.DP, c.Parallel.EP = 2, 2
	c.Machine = casetest.Machine(t, "h200", "vllm")
	p, err := analytic.NewPredictor(c)
	if err != nil {
		t.Fatal(err)
	}
	s := server(t, "qwen3-30b-a3b", "h200", 1, "vllm")
	s.Predictor, s.Replicas, s.Routing = p, 2, "round-robin"
	ends := func(prompt int) (first unit.Seconds) {
		requests := []Request{{Prompt: 16, Gen: 200}, {At: 0.1, Prompt: prompt, Gen: 1}}
		o := Options{InEngine: true, Each: func(r *Record) {
			if r.Index == 0 {
				first = r.Last
			}
		}}
		if _, err := Simulate(t.Context(), s, Replay(requests), o); err != nil {
			t.Fatal(err)
		}
		return first
	}
	step := p.StepCost([]operator.Group{{Batch: 1, New: 8000, Logits: 1}}, 8001).Time
	if longer := ends(8000) - ends(1); longer < step.Times(0.7) || longer > step.Times(1.1) {
		t.Errorf("a prompt on the other replica lengthens decodes by %v, its step takes %v", longer, step)
	}
}

// Replicas that share experts answer every request: the outputs of a step that a replica holds while it launches prompts are given out
// before those of the next one, whichever replica comes first.
func TestSharedStepsLoseNothing(t *testing.T) {
	c := casetest.Case(t, "gpt-oss-120b", "b200", 1, 2)
	c.Parallel.DP, c.Parallel.EP = 2, 4
	c.Machine = casetest.Machine(t, "b200", "vllm")
	p, err := analytic.NewPredictor(c)
	testkit.Must(t, err)
	s := server(t, "gpt-oss-120b", "b200", 2, "vllm")
	s.Predictor, s.Replicas = p, 2
	r := simulate(t, s, Load{Arrival: Arrival{Kind: "closed", Concurrency: 64}, Prompt: Fixed(2048), Gen: Fixed(512), Requests: 256},
		Options{})
	if r.Completed != 256 {
		t.Errorf("%d of 256 requests are answered", r.Completed)
	}
}

// Requests go round the replicas that prefill, and their caches round those that decode, each in turn.
func TestPoolsTakeTurns(t *testing.T) {
	s := server(t, "llama3.1-8b", "h100", 1, "vllm")
	s.Replicas, s.Prefillers, s.Link = 2, 2, casetest.GPU(t, "h100").LinkAmong(4)
	var requests []Request
	for i := range 8 {
		requests = append(requests, Request{At: unit.Seconds(10 * i), Prompt: 100, Gen: 10})
	}
	c := newCluster(s, Replay(requests), &Options{InEngine: true})
	worked := map[int]bool{}
	for c.step() {
		for _, r := range slices.Concat(c.first, c.mixed) {
			worked[r.index] = worked[r.index] || r.busy
		}
	}
	if len(worked) != 4 || !worked[0] || !worked[1] || !worked[2] || !worked[3] {
		t.Errorf("one request at a time: replicas that work: %v", worked)
	}
}
