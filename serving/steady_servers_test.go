package serving

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"llmprof/analytic"
	"llmprof/analytic/engine"
	"llmprof/internal/testkit"
	"llmprof/internal/testkit/casetest"
)

// Over servers of any kind the steady state is that of long simulations: the mean TTFT within 1 % at the median and 4 % at the 90th
// percentile, others nearer.
func TestSteadyOfManyServers(t *testing.T) {
	testkit.Long(t, "60 simulations")
	random := rand.New(rand.NewPCG(31, 77))
	off := map[string][]float64{}
	for i := range 60 {
		s, what := anyServer(t, random)
		prompt, gen := drawLengths(random, 50, 4000), drawLengths(random, 20, 600)
		share := 0.1 + 0.7*random.Float64()
		if s.Serves(prompt, gen) != nil {
			continue // the requests are too long for it
		}
		rate := loaded(s.queue(t, prompt, gen), share)
		st, err := s.SteadyRate(t.Context(), rate, prompt, gen)
		testkit.Must(t, err)
		seen := &answers{from: 2000}
		r := simulate(t, s, Load{Arrival: Arrival{Kind: "poisson", Rate: rate}, Prompt: prompt, Gen: gen, Requests: 40000, Seed: uint64(i)},
			Options{Warmup: seen.from, Each: seen.add})
		for name, x := range map[string][2]float64{
			"TTFT": {float64(st.TTFT), r.TTFT.Mean()}, "TPOT": {float64(st.TPOT), r.TPOT.Mean()}, "E2E": {float64(st.E2E), r.E2E.Mean()},
			"energy": {float64(st.Energy), float64(r.Energy) / float64(r.Completed)}, "KV cache": {st.Cache, r.MeanCache},
		} {
			by := math.Abs(x[0]/x[1] - 1)
			off[name] = append(off[name], by)
			if by > 0.05 {
				t.Logf("%s, %.2f of the capacity, %v + %v tokens: %s %.1f %% off; TTFT is uncertain by %.1f", what, share, &prompt, &gen, name,
					100*by, 200*uncertainty(seen.ttft))
			}
		}
	}
	for name, most := range map[string][2]float64{"TTFT": {0.01, 0.04}, "TPOT": {0.005, 0.02}, "E2E": {0.005, 0.02}, "energy": {0.005, 0.01},
		"KV cache": {0.015, 0.04}} {
		all := off[name]
		slices.Sort(all)
		median, most90 := all[len(all)/2], all[len(all)*9/10]
		t.Logf("%s of %d servers: median %.2f %%, 90th percentile %.2f %%, most %.1f %%", name, len(all), 100*median, 100*most90,
			100*all[len(all)-1])
		if median > most[0] || most90 > most[1] {
			t.Errorf("%s: want at most %g and %g", name, most[0], most[1])
		}
	}
}

// answers are the times of the answers from some request on, in the order of their ends.
type answers struct {
	from            int
	ttft, tpot, e2e []float64
}

func (a *answers) add(r *Record) {
	if r.Index < a.from {
		return
	}
	a.ttft, a.e2e = append(a.ttft, float64(r.TTFT())), append(a.e2e, float64(r.E2E()))
	if tpot, ok := r.TPOT(); ok {
		a.tpot = append(a.tpot, float64(tpot))
	}
}

// uncertainty is the standard error of the mean of times, over that mean: by the means of ten parts in their order.
func uncertainty(times []float64) float64 {
	const parts = 10
	if len(times) < parts {
		return 0
	}
	var sum, squares float64
	for i := range parts {
		part, mean := times[i*len(times)/parts:(i+1)*len(times)/parts], 0.0
		for _, v := range part {
			mean += v / float64(len(part))
		}
		sum, squares = sum+mean, squares+mean*mean
	}
	mean := sum / parts
	return math.Sqrt(max(squares/parts-mean*mean, 0)/(parts-1)) / mean
}

// anyServer draws a model, GPUs, an engine and its scheduler until they go together.
func anyServer(t *testing.T, r *rand.Rand) (*Server, string) {
	models := []string{
		"llama3.1-8b", "llama3.2-1b", "qwen3-8b", "qwen3-32b", "gemma2-9b", "gemma3-12b", "qwen3-30b-a3b", "gpt-oss-20b", "llama3.3-70b",
		"mixtral-8x7b",
		"mistral-7b-v0.3", "deepseek-v2-lite", "falcon-mamba-7b", "nemotron-h-8b",
	}
	gpus := []string{"h100", "h200", "a100", "b200", "l40s", "rtx-4090", "h100-pcie", "rtx-pro-6000"}
	engines := [][]string{{"vllm", "vllm", "vllm-2024"}, {"vllm", "vllm"}, {"sglang", "sglang", "sglang-mixed"},
		{"trtllm", "tensorrt-llm", "tensorrt-llm-max-utilization"}, {"llamacpp", "llama.cpp"}}
	for {
		model, gpu, tp := models[r.IntN(len(models))], gpus[r.IntN(len(gpus))], 1<<r.IntN(4)
		e := engines[r.IntN(len(engines))]
		policy, synchronous, hit, drafts := e[1+r.IntN(len(e)-1)], r.IntN(4) == 0, float64(r.IntN(4)/3)/2, max(r.IntN(12)-8, 0)
		c := casetest.Case(t, model, gpu, 1, tp)
		c.Machine = casetest.Machine(t, gpu, e[0])
		p, err := analytic.NewPredictor(c)
		if err != nil {
			continue
		}
		rules, err := engine.SchedulerOf(policy, c.Machine.Engine, c.Machine.GPU)
		testkit.Must(t, err)
		rules.Async = rules.Async && !synchronous
		s := &Server{Predictor: p, Scheduler: rules, Layout: Layout{Replicas: 1}, Caching: Caching{HitRate: hit},
			Speculation: Speculation{Drafts: drafts, Acceptance: 0.7}}
		if s.Check() == nil {
			return s, fmt.Sprintf("%s on %d × %s, %s, asynchronous %v, hit rate %g, %d drafts", model, tp, gpu, policy, rules.Async, hit, drafts)
		}
	}
}

// The mean step of sequences on both sides of a window has the costs of those that are drawn.
func TestStepsBesideWindows(t *testing.T) {
	s, prompt, gen := server(t, "gemma3-12b", "h100", 8, "vllm"), Lengths{Kind: "lognormal", Mean: 548, Spread: 0.77},
		Lengths{Kind: "uniform", Low: 243, High: 730}
	f := s.queue(t, prompt, gen)
	random, sum := rand.New(rand.NewPCG(1, 1)), Cost{}
	const draws, n = 50, 260
	for range draws {
		var b batch
		b.reset(len(f.prices.windows))
		for b.decodes < n { // answers are met in proportion to their length
			if g := gen.draw(random); random.IntN(int(gen.High)) < g {
				b.decode(f.prices.windows, prompt.draw(random)+random.IntN(g))
			}
		}
		c := f.prices.cost(&b, 0)
		sum = plus(&sum, &c, 1.0/draws)
	}
	c := f.pass(n, 0)
	agree(t, "time", float64(c.Time), float64(sum.Time), 0.01)
	agree(t, "energy", float64(c.Energy), float64(sum.Energy), 0.01)
}
