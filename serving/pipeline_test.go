package serving

import (
	"testing"

	"llmprof/analytic"
	"llmprof/analytic/operator"
	"llmprof/internal/testkit"
	"llmprof/internal/testkit/casetest"
	"llmprof/unit"
)

// pipelined is a replica of a model whose layers are in stages, with so many batches under way.
func pipelined(t *testing.T, model, gpu string, stages, parts int) *Server {
	t.Helper()
	s := server(t, model, gpu, 1, "vllm")
	c := casetest.Case(t, model, gpu, 1, 1)
	c.Machine = casetest.Machine(t, gpu, "vllm")
	c.Parallel.PP, c.Parallel.MicroBatches = stages, parts
	p, err := analytic.NewPredictor(c)
	testkit.Must(t, err)
	s.Predictor = p
	return s
}

// A request alone takes as long whatever the number of batches that could be under way.
func TestPipelineAlone(t *testing.T) {
	l := Load{Arrival: Arrival{Kind: "closed", Concurrency: 1}, Prompt: Fixed(1000), Gen: Fixed(50), Requests: 20, Seed: 1}
	for _, stages := range []int{2, 4, 8} {
		one := simulate(t, pipelined(t, "llama3.1-8b", "h100", stages, 1), l, Options{InEngine: true})
		for _, parts := range []int{2, stages} {
			r := simulate(t, pipelined(t, "llama3.1-8b", "h100", stages, parts), l, Options{InEngine: true})
			casetest.Near(t, "TTFT", unit.Seconds(r.TTFT.Mean()), unit.Seconds(one.TTFT.Mean()), 0.01)
			casetest.Near(t, "TPOT", unit.Seconds(r.TPOT.Mean()), unit.Seconds(one.TPOT.Mean()), 0.01)
			casetest.Near(t, "energy", r.Energy, one.Energy, 0.01)
			if r.Busy > 1 || r.Completed != 20 {
				t.Errorf("%d stages: busy for %v of the time, %d answers", stages, r.Busy, r.Completed)
			}
		}
	}
}

// Prompts that fill a step begin in batches of their own. Batches that only decode follow each other as closely as the longest stage lets
// them, or as one goes through all stages.
func TestPipelineOfDecodes(t *testing.T) {
	for _, x := range []struct {
		model                  string
		stages, parts, clients int
	}{{"llama3.1-8b", 2, 2, 64}, {"llama3.1-8b", 4, 4, 128}, {"llama3.1-8b", 4, 2, 64}, {"gemma2-9b", 3, 3, 96}} {
		s := pipelined(t, x.model, "h100", x.stages, x.parts)
		l := Load{Arrival: Arrival{Kind: "closed", Concurrency: x.clients}, Prompt: Fixed(256), Gen: Fixed(2000), Requests: x.clients, Seed: 1}
		r := simulate(t, s, l, Options{InEngine: true})
		batch := []operator.Group{{Batch: float64(x.clients) / float64(x.parts), New: 1, Past: 1256, Logits: 1}}
		c := s.Predictor.OneBatch().StepCost(batch, 0)
		casetest.Near(t, x.model+": TPOT", unit.Seconds(r.TPOT.Mean()), max(c.Time, c.Stage.Times(float64(x.parts))), 0.03)
		turn := s.Predictor.StepCost([]operator.Group{{Batch: float64(x.clients), New: 1, Past: 1256, Logits: 1}}, 0)
		casetest.Near(t, x.model+": time of a turn", turn.Time, max(c.Time, c.Stage.Times(float64(x.parts))), 0.001)
		casetest.Near(t, x.model+": energy of an answer", r.Energy.Times(1/float64(x.clients)), turn.Energy.Times(2000/float64(x.clients)), 0.05)
	}
}

// Two stages let two batches of prompts follow each other, and no more tokens come than both stages can work for.
func TestPipelineThroughput(t *testing.T) {
	rate := func(stages, parts int) float64 {
		l := Load{Arrival: Arrival{Kind: "closed", Concurrency: 400}, Prompt: Fixed(2000), Gen: Fixed(2), Requests: 4000, Seed: 1}
		r := simulate(t, pipelined(t, "llama3.1-8b", "h100", stages, parts), l, Options{})
		return float64(r.Completed) / float64(r.Duration)
	}
	one, full := rate(2, 1), rate(2, 2)
	if full < 1.5*one || full > 2*one {
		t.Errorf("%v requests a second by one batch, %v by two", one, full)
	}
}

// The steady state of a pipeline is that of a shorter simulation.
func TestSteadyPipeline(t *testing.T) {
	for _, x := range []struct {
		model            string
		stages           int
		rate, ttft, tpot float64
	}{
		{"llama3.1-8b", 2, 10, 0.05, 0.02}, {"llama3.1-8b", 4, 2, 0.05, 0.05},
		{"llama3.1-8b", 2, 2, 0.05, 0.01}, {"llama3.1-8b", 2, 25, 0.1, 0.05}, {"llama3.1-8b", 2, 35, 0.1, 0.06},
		{"llama3.1-8b", 4, 10, 0.05, 0.02}, {"llama3.1-8b", 4, 25, 0.1, 0.05},
		{"qwen3-32b", 2, 3, 0.05, 0.02}, {"qwen3-32b", 4, 6, 0.1, 0.05},
	}[:testkit.Cases(2, 9)] {
		s := pipelined(t, x.model, "h100", x.stages, x.stages)
		st, err := s.SteadyRate(t.Context(), x.rate, Fixed(1024), Fixed(128))
		testkit.Must(t, err)
		r := simulate(t, s, poisson(x.rate, 1024, 128, 4000), Options{Warmup: 500})
		casetest.Near(t, x.model+": TTFT", st.TTFT, unit.Seconds(r.TTFT.Mean()), x.ttft)
		casetest.Near(t, x.model+": TPOT", st.TPOT, unit.Seconds(r.TPOT.Mean()), x.tpot)
		casetest.Near(t, x.model+": energy", st.Energy, unit.Joules(float64(r.Energy)/float64(r.Completed)), 0.05)
		if w := st.Warning(); w != nil {
			t.Errorf("%s: %g requests/s of %d stages warn of %v", x.model, x.rate, x.stages, w)
		}
	}
}

// Long answers that come rarely hardly wait for each other, and take more events than a steady state simulates.
func TestSteadyPipelineOfLongAnswers(t *testing.T) {
	testkit.Long(t, "a steady state of answers of 5,000 tokens; TestSteadyPipeline has shorter ones")
	s := pipelined(t, "llama3.1-8b", "h100", 4, 4)
	for _, gen := range []int{5000, 20000}[:testkit.Cases(1, 2)] {
		rate := 200 / float64(gen)
		all, err := s.Steadies(t.Context(), Fixed(1024), Fixed(gen))
		testkit.Must(t, err)
		left := 1 << 20
		all.Within(&left)
		st, err := all.Rate(rate, Layout{Replicas: 1})
		testkit.Must(t, err)
		if left != 1<<20 {
			t.Errorf("an open loop takes %d of the events of closed loops", 1<<20-left)
		}
		r := simulate(t, s, poisson(rate, 1024, gen, 250), Options{Warmup: 50})
		casetest.Near(t, "TTFT", st.TTFT, unit.Seconds(r.TTFT.Mean()), 0.1)
		casetest.Near(t, "TPOT", st.TPOT, unit.Seconds(r.TPOT.Mean()), 0.06)
	}
}

// Replicas that share experts have pipelines side by side.
func TestPipelinesShareExperts(t *testing.T) {
	c := casetest.Case(t, "qwen3-30b-a3b", "h100", 1, 1)
	c.Machine = casetest.Machine(t, "h100", "vllm")
	c.Parallel.PP, c.Parallel.MicroBatches, c.Parallel.DP, c.Parallel.EP = 2, 2, 2, 2
	p, err := analytic.NewPredictor(c)
	testkit.Must(t, err)
	s := server(t, "qwen3-30b-a3b", "h100", 1, "vllm")
	s.Predictor, s.Replicas = p, 2
	r := simulate(t, s, poisson(10, 1000, 100, 500), Options{})
	if r.Completed != 500 || r.Busy > 1 || r.TPOT.Mean() <= 0 {
		t.Errorf("%d answers, busy for %v of the time, TPOT %v", r.Completed, r.Busy, r.TPOT.Mean())
	}
}
