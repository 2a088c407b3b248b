package analytic_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"llmprof/analytic"
	"llmprof/analytic/engine"
	"llmprof/internal/testkit/casetest"
	"llmprof/models"
	"llmprof/roofline"
	"llmprof/unit"
)

// Work that is slowed draws the limit, and what is not slowed draws no more.
func TestPowerBalances(t *testing.T) {
	seen := [2]int{}
	for _, engine := range []string{"native", "transformers", "transformers-graph"} {
		for _, batch := range []int{1, 8, 64, 256} {
			for _, prompt := range []int{16, 128, 700, 4096, 30000} {
				c := onEngine(t, "llama3.1-8b", engine, analytic.Workload{Batch: batch, PromptLen: prompt, GenLen: 2})
				if prompt%2 == 0 {
					c = hungry(t, c)
				}
				e := predict(t, c)
				for _, p := range []struct {
					analytic.Phase
					drawn unit.Watts
				}{{e.Prefill, e.Energy.Prefill}, {e.Decode, e.Energy.Decode}} {
					switch {
					case p.Clock > 1:
						seen[0]++
						near(t, "power", p.drawn, c.Machine.GPU.TDP, 1e-9)
					case p.Throttled != 0 || p.drawn > c.Machine.GPU.TDP || p.drawn < c.Machine.Waiting:
						t.Errorf("%s %+v: at %v, %v of its time for the power limit", engine, c.Workload, p.drawn, p.Throttled)
					default:
						seen[1]++
					}
				}
			}
		}
	}
	if seen[0] < 20 || seen[1] < 20 {
		t.Errorf("%d phases at the limit, %d below: want both", seen[0], seen[1])
	}
}

// hungry is the case with skinny GEMMs that draw more than the limit, and attention
// that draws less than other products do.
func hungry(t *testing.T, c *analytic.Case) *analytic.Case {
	t.Helper()
	return with(t, c, func(k *roofline.Constants) { k[roofline.PowerSkinnyGEMM], k[roofline.PowerAttention] = 1.3, 0.4 })
}

// What skinny GEMMs draw beyond other products counts for steps that they are in, and
// for no others; it costs no time that a lower clock of the multiprocessors does not,
// which is none while the step waits for its memory.
func TestSkinnyGEMMsDraw(t *testing.T) {
	for _, c := range []struct {
		engine string
		batch  int
		skinny bool
	}{{"native", 1, true}, {"native", 16, true}, {"native", 17, false}, {"transformers-graph", 1, false}} {
		plain := onEngine(t, "llama3.1-8b", c.engine, analytic.Workload{Batch: c.batch, PromptLen: 64, GenLen: 2})
		more := with(t, plain, func(k *roofline.Constants) { k[roofline.PowerSkinnyGEMM] = 0.9 })
		a, b := predict(t, plain), predict(t, more)
		if grows := b.Energy.PerToken > a.Energy.PerToken.Times(1.1); grows != c.skinny || b.Energy.PerPrompt != a.Energy.PerPrompt ||
			b.TPOT != a.TPOT {
			t.Errorf("%s, batch %d: %v a token, %v before; %v a prompt, %v before; TPOT %v, %v", c.engine, c.batch,
				b.Energy.PerToken, a.Energy.PerToken, b.Energy.PerPrompt, a.Energy.PerPrompt, b.TPOT, a.TPOT)
		}
	}
	c := onEngine(t, "llama3.1-8b", "native", analytic.Workload{Batch: 1, PromptLen: 64, GenLen: 2})
	a, b := predict(t, c), predict(t, hungry(t, c))
	near(t, "power of hungry products", b.Energy.Decode, c.Machine.GPU.TDP, 1e-9)
	if b.Decode.Clock <= 1 || b.TPOT.Expected > a.TPOT.Expected.Times(1.001) {
		t.Errorf("slowed %v, %v after %v", b.Decode.Clock, b.TPOT.Expected, a.TPOT.Expected)
	}
	for _, share := range []float64{-0.1, math.NaN(), roofline.MaxBurst + 0.1} {
		cal := c.Machine.Cal
		cal.Constants[roofline.PowerSkinnyGEMM] = share
		if _, err := analytic.NewMachine(c.Machine.GPU, cal, c.Machine.Engine); err == nil {
			t.Errorf("a power of %v is taken", share)
		}
	}
}

// atClock is the machine of a case with arithmetic that takes x times as long and that
// nothing slows further.
func atClock(t *testing.T, c *analytic.Case, x float64) *analytic.Case {
	return with(t, c, func(k *roofline.Constants) {
		for _, share := range []roofline.Constant{roofline.GEMMCompute, roofline.AttentionCompute, roofline.ElementwiseCompute} {
			k[share] /= x
		}
		k[roofline.GEMMSustained] = k[roofline.GEMMCompute]
	})
}

// The power balance in closed form is that found by trying clocks one by one,
// every operator priced anew.
func TestLimitIsTheBalanceOfClocks(t *testing.T) {
	for _, engine := range []string{"native", "transformers"} {
		for _, w := range []analytic.Workload{
			{Batch: 1, PromptLen: 128, GenLen: 1}, {Batch: 1, PromptLen: 300, GenLen: 1}, {Batch: 1, PromptLen: 1024, GenLen: 1},
			{Batch: 8, PromptLen: 4096, GenLen: 1},
			{Batch: 1, PromptLen: 65536, GenLen: 1}, {Batch: 4, PromptLen: 512, GenLen: 2}, {Batch: 32, PromptLen: 512, GenLen: 2},
			{Batch: 128, PromptLen: 512, GenLen: 2}, {Batch: 300, PromptLen: 512, GenLen: 2},
		} {
			c := onEngine(t, "llama3.1-8b", engine, w)
			if w.Batch == 8 || w.GenLen == 2 {
				c = hungry(t, c)
			}
			slowly := func(x float64) (time, drawn float64) {
				p, err := analytic.NewPredictor(atClock(t, c, x))
				if err != nil {
					t.Fatal(err)
				}
				return p.AtClock(c.Machine, &w, x)
			}
			low, high := 1.0, 16.0
			for range 40 {
				x := (low + high) / 2
				if time, drawn := slowly(x); drawn > time {
					low = x
				} else {
					high = x
				}
			}
			want, _ := slowly(low)
			e := predict(t, c)
			got := e.Prefill
			if w.GenLen > 1 {
				got = e.Decode
			}
			near(t, engine+": slowed", got.Clock, low, 0.01)
			near(t, engine+": time", float64(got.Expected), want, 0.005)
		}
	}
}

// No phase is faster than its floor or draws more than its limit, and more work is
// never done sooner, whatever is asked of whatever machine.
func TestEveryMachineIsSane(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 9))
	var cases []*analytic.Case
	for _, name := range variety {
		cases = append(cases, testCase(t, name, "h200", 1, 1))
	}
	var machines []*analytic.Machine
	for _, name := range []string{"h200", "h100-pcie-80gb", "gh200-96gb", "b200", "a100", "l4", "t4", "agx-thor-128gb", "mi300x", "h20-96gb"} {
		for _, engine := range engine.Names() {
			machines = append(machines, casetest.Machine(t, name, engine))
		}
	}
	seen := 0
	for range 3000 {
		c := *cases[rng.IntN(len(cases))]
		c.Machine = machines[rng.IntN(len(machines))]
		c.Scheme = scheme(t, models.SchemeNames()[rng.IntN(len(models.SchemeNames()))], c.Machine.GPU)
		c.Workload = analytic.Workload{Batch: 1 + rng.IntN(1<<rng.IntN(10)), PromptLen: 1 + rng.IntN(1<<rng.IntN(14)),
			GenLen: 1 + rng.IntN(1<<rng.IntN(9)), AllLogits: rng.IntN(2) == 0}
		if rng.IntN(3) == 0 {
			c.Parallel = analytic.Parallelism{TP: 1, PP: 2, MicroBatches: 1 + rng.IntN(c.Workload.Batch), GPUsPerNode: 8}
		}
		e, err := analytic.Predict(&c)
		if err != nil {
			continue
		}
		seen++
		sane(t, &c, &e)
		for _, p := range []analytic.Phase{e.Prefill, e.Decode} {
			if p.Expected < p.Floor.Times(1-1e-9) || p.Throttled < 0 || (p.Expected > 0 && p.Clock < 1) {
				t.Fatalf("%s on %s, %s, %+v %+v: %+v", c.Model.Name, c.Machine.GPU.Name, c.Machine.Engine.Profile().Name, c.Workload, c.Parallel, p)
			}
		}
		if most := unit.Watts(float64(c.Machine.GPU.TDP) * (1 + 1e-9)); e.Energy.Prefill > most || e.Energy.Decode > most {
			t.Fatalf("%s on %s: %v and %v", c.Model.Name, c.Machine.GPU.Name, e.Energy.Prefill, e.Energy.Decode)
		}
		for _, w := range []analytic.Workload{
			{Batch: 2 * c.Workload.Batch, PromptLen: c.Workload.PromptLen, GenLen: c.Workload.GenLen},
			{Batch: c.Workload.Batch, PromptLen: c.Workload.PromptLen, GenLen: c.Workload.GenLen + 1},
			{Batch: c.Workload.Batch, PromptLen: c.Workload.PromptLen + 1, GenLen: c.Workload.GenLen},
		} {
			if w.PromptLen > c.Workload.PromptLen && (c.Model.Family == "llama4_text" || c.Workload.PromptLen == 1) {
				continue // attention starts anew at every chunk; scans of one token take no parallel form
			}
			more := c
			w.AllLogits = c.Workload.AllLogits
			more.Workload = w
			if grown, err := analytic.Predict(&more); err == nil {
				notLess(t, &c, &w, &e, &grown)
			}
		}
	}
	if seen < 1500 {
		t.Errorf("%d estimates", seen)
	}
}

// The energies of the operators and what the GPUs draw waiting add up to the
// energy of the prefill.
func TestLinesAddUpToEnergy(t *testing.T) {
	for _, tp := range []int{1, 2} {
		for _, gpu := range []string{"h200", "a100"} {
			for _, prompt := range []int{1, 64, 512, 4096} {
				c := hungry(t, testCase(t, "llama3.1-8b", gpu, 4, tp))
				c.Workload.PromptLen = prompt
				r := explain(t, c)
				sum := c.Machine.Waiting.For(r.TTFT.Expected).Times(float64(tp))
				for i := range r.PrefillOps {
					sum += r.PrefillOps[i].Energy
				}
				near(t, "J/prompt of all", r.Energy.PerPrompt.Times(float64(c.Workload.Batch)), sum, 1e-9)
			}
		}
	}
}
