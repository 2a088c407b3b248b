package analytic_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"llmprof"
	"llmprof/analytic"
	"llmprof/analytic/engine"
	"llmprof/hardware"
	"llmprof/internal/testkit"
	"llmprof/internal/testkit/casetest"
	"llmprof/models"
	"llmprof/unit"
)

// A draw makes cases at random.
type draw struct {
	*rand.Rand
	t      testing.TB
	models []*models.Model
}

func newDraw(t testing.TB, seed uint64) *draw {
	return &draw{rand.New(rand.NewPCG(seed, 19)), t, casetest.Models(t)}
}

func pick[T any](d *draw, from ...T) T { return from[d.IntN(len(from))] }

// machine is one of the table's GPUs, by the constants of its generation or of the
// calibration that comes with the program.
func (d *draw) machine(g *hardware.GPU, name string) *analytic.Machine {
	e := casetest.Engine(d.t, name)
	f, err := hardware.BuiltIn(llmprof.Calibrations, g, name)
	if err != nil {
		d.t.Fatal(err)
	}
	cal, err := analytic.Constants(g, e, f)
	if err != nil {
		d.t.Fatal(err)
	}
	m, err := analytic.NewMachine(g, cal, e)
	if err != nil {
		d.t.Fatal(err)
	}
	return m
}

// next is a case at random that can be predicted.
func (d *draw) next() *analytic.Case {
	for {
		names := engine.Names()
		c := &analytic.Case{
			Model: pick(d, d.models...),
			Workload: analytic.Workload{
				Batch: 1 + d.IntN(1<<d.IntN(9)), PromptLen: 1 + d.IntN(1<<d.IntN(14)), GenLen: pick(d, 1, 2, 2, 100),
				Chunk: pick(d, 0, 0, 0, 300), AllLogits: d.IntN(4) == 0,
			},
			Parallel: analytic.Parallelism{
				TP: pick(d, 1, 1, 1, 2, 4, 8), PP: pick(d, 1, 1, 1, 2, 4), DP: pick(d, 1, 1, 2), EP: pick(d, 1, 1, 1, 2, 8),
				SP: d.IntN(8) == 0, MicroBatches: pick(d, 1, 1, 1, 2, 4), GPUsPerNode: 8,
			},
		}
		c.Workload.Batch *= max(c.Parallel.MicroBatches, 1)
		gpus := casetest.GPUs(d.t)
		g := casetest.GPU(d.t, pick(d, append(gpus, "h200", "h200", "h200", "h200", "l40s", "h100")...))
		c.Scheme = casetest.Scheme(d.t, pick(d, append(models.SchemeNames(), "w16a16", "w16a16", "w16a16", "w16a16")...), g)
		name := pick(d, append(names, "native", "native", "native", "native", "native")...)
		c.Machine = d.machine(g, name)
		if c.Check() == nil {
			return c
		}
	}
}

func describe(c *analytic.Case) string {
	return fmt.Sprintf("%s on %s, %s, %s, %+v, %+v", c.Model.Name, c.Machine.GPU.Key, c.Machine.Engine.Profile().Name, c.Scheme.Name,
		c.Workload, c.Parallel)
}

// least is what of two times of which one should be no less is allowed for rounding.
const least = 1 - 1e-9

// A larger batch and a longer context shorten no decode step, whatever the model, the
// GPU, the engine and the split, but for batches that fill the tiles of GEMMs.
func TestMoreWorkShortensNoStep(t *testing.T) {
	d := newDraw(t, 1)
	for range 600 {
		c := d.next()
		p, err := analytic.NewPredictor(c)
		if err != nil {
			t.Fatal(err)
		}
		batch, past := float64(c.Workload.Batch), float64(c.Workload.PromptLen)
		step := func(batch, past float64) unit.Seconds { return p.StepTime(batch, 1, past, 1) }
		base := step(batch, past)
		for _, more := range []float64{batch + 1, 2 * batch, 16, 17, 32, 33, 64, 65, 128} {
			if got := step(more, past); more > batch && got < base.Times(least) && !tiled(c) {
				t.Errorf("%s: a step of batch %v takes %v, of batch %v %v", describe(c), batch, base, more, got)
			}
		}
		if c.Model.Family == "llama4_text" {
			continue // its attention starts anew at every chunk
		}
		for _, more := range []float64{past + 1, past + 100, 2 * past} {
			if got := step(batch, more); got < base.Times(least) {
				t.Errorf("%s: a step at context %v takes %v, at %v %v", describe(c), past, base, more, got)
			}
		}
	}
}

// A better GPU lengthens no phase: neither more bandwidth, nor more peak of all formats
// alike, nor faster links, nor a higher power limit.
func TestBetterHardwareLengthensNothing(t *testing.T) {
	d := newDraw(t, 2)
	better := map[string]*hardware.GPU{}
	for range testkit.Cases(200, 600) {
		c := d.next()
		g, name := c.Machine.GPU, c.Machine.Engine.Profile().Name
		c.Machine = casetest.MachineOf(t, g, name)
		base := predict(t, c)
		for _, what := range []string{"bandwidth", "peak", "link", "tdp"} {
			x := pick(d, 1.02, 1.5, 4)
			key := fmt.Sprint(g.Key, what, x)
			if better[key] == nil {
				better[key] = casetest.Upgrade(t, g.Key, what, x)
			}
			other := *c
			other.Machine = casetest.MachineOf(t, better[key], name)
			slack := 1 / least
			if what == "bandwidth" {
				slack = inferred
			}
			e := predict(t, &other)
			if e.TTFT.Expected > base.TTFT.Expected.Times(slack) || e.TPOT.Expected > base.TPOT.Expected.Times(slack) {
				t.Errorf("%s: TTFT %v and TPOT %v, with %v times the %s %v and %v", describe(c), base.TTFT.Expected, base.TPOT.Expected, x, what,
					e.TTFT.Expected, e.TPOT.Expected)
			}
		}
	}
}

// inferred is by how much more bandwidth may lengthen a phase at the power limit. What
// arithmetic draws is inferred from the rate that a square product sustains beside its
// memory traffic: at the same rate, a faster memory leaves more of the limit to it.
const inferred = 1.02

// Cases that were found by eye, each with the batch at which other kernels decode.
func TestMoreSequencesAtSwitches(t *testing.T) {
	d := newDraw(t, 0)
	for _, x := range []struct {
		model, scheme   string
		tp, prompt, gen int
		batch           int
	}{
		{"llama2-70b", "fp16", 2, 1024, 600, 16}, {"llama4-scout", "w16a16", 8, 8192, 128, 64}, {"llama3.1-8b", "w8a16-fp8", 1, 512, 64, 32},
		{"qwen3-30b-a3b", "w16a16", 1, 512, 64, 1}, {"llama3.1-8b", "w16a16", 1, 1024, 128, 64},
	} {
		c := testCase(t, x.model, "h200", x.batch, x.tp)
		c.Machine = d.machine(c.Machine.GPU, "native")
		c.Scheme = casetest.Scheme(t, x.scheme, c.Machine.GPU)
		c.Workload.PromptLen, c.Workload.GenLen = x.prompt, x.gen
		small := predict(t, c)
		for more := x.batch + 1; more <= x.batch+4; more++ {
			c.Workload.Batch = more
			if large := predict(t, c); large.TPOT.Expected < small.TPOT.Expected.Times(least) {
				t.Errorf("%s: TPOT %v, of batch %d %v", describe(c), large.TPOT.Expected, x.batch, small.TPOT.Expected)
			}
		}
	}
}

// TestPromptsInChunksOfOneToken checks that the steps of such a prompt are summed one by one: the first is eager, and the
// others are decode steps of a CUDA graph. They were taken to be linear where both waited for the same resources.
func TestPromptsInChunksOfOneToken(t *testing.T) {
	d := newDraw(t, 0)
	for _, x := range []struct{ model, gpu, engine string }{{"stablelm-2-1.6b", "a30-24gb", "sglang"},
		{"olmo2-1b", "a100-sxm-40gb", "tensorrt-llm"}} {
		for _, faster := range []float64{1, 1.02, 2, 4} {
			c := testCase(t, x.model, x.gpu, 1, 1)
			c.Machine = d.machine(casetest.Upgrade(t, x.gpu, "bandwidth", faster), x.engine)
			c.Parallel.PP = 2
			p, err := analytic.NewPredictor(c)
			if err != nil {
				t.Fatal(err)
			}
			var want unit.Seconds
			for past := range 200 {
				want += p.OneStep(1, 1, float64(past), 1).Expected
			}
			near(t, fmt.Sprintf("%s, %v times the bandwidth", x.model, faster), p.Run(1, 1, 0, 1, 200).Expected, want, 1e-9)
		}
	}
}

// TestPromptOfOneToken checks that a longer prompt takes no less: a prompt of one token copied its cache for every query
// head, as decode steps do.
func TestPromptOfOneToken(t *testing.T) {
	for _, name := range []string{"transformers", "transformers-graph"} {
		w := analytic.Workload{Batch: 474, PromptLen: 1, GenLen: 100}
		short := predict(t, casetest.OnEngine(t, "tinyllama-1.1b", name, w))
		w.PromptLen++
		if long := predict(t, casetest.OnEngine(t, "tinyllama-1.1b", name, w)); long.TTFT.Expected < short.TTFT.Expected {
			t.Errorf("%s: TTFT of a prompt of one token is %v, of two %v", name, short.TTFT.Expected, long.TTFT.Expected)
		}
	}
}

// TestPaddingReadsNoWeights checks that a decode step in a CUDA graph of 8 rows reads the weights of products ahead of the
// layers once, whatever its batch.
func TestPaddingReadsNoWeights(t *testing.T) {
	c := casetest.OnEngine(t, "gemma4-e4b", "vllm", analytic.Workload{Batch: 5, PromptLen: 11, GenLen: 2})
	few := predict(t, c)
	for c.Workload.Batch++; c.Workload.Batch <= 8; c.Workload.Batch++ {
		if more := predict(t, c); more.TPOT.Expected < few.TPOT.Expected.Times(least) {
			t.Errorf("batch %d: TPOT %v, of batch 5 %v", c.Workload.Batch, more.TPOT.Expected, few.TPOT.Expected)
		}
	}
}

// An L40S with more peak, as a user's table may have one, is no slower, though the rate
// that its power limit leaves is a smaller share of that peak.
func TestStrongerL40S(t *testing.T) {
	c := testCase(t, "llama3.1-8b", "l40s", 4, 1)
	last := predict(t, c)
	for x := 1.01; x < 4; x *= 1.01 {
		c.Machine = casetest.MachineOf(t, casetest.Upgrade(t, "l40s-48gb", "peak", x), "native")
		e := predict(t, c)
		if e.TTFT.Expected > last.TTFT.Expected.Times(1/least) || e.TPOT.Expected > last.TPOT.Expected.Times(1/least) {
			t.Errorf("%.2f times the peak: TTFT %v and TPOT %v, with less %v and %v", x, e.TTFT.Expected, e.TPOT.Expected, last.TTFT.Expected,
				last.TPOT.Expected)
		}
		last = e
	}
}

// Arithmetic that memory hides at one clock of the power limit and not at the next takes
// its time bit by bit: 1 % more bandwidth made a step 11 % longer where it did not.
func TestHiddenArithmeticAtThePowerLimit(t *testing.T) {
	for _, x := range []struct {
		model, engine, scheme string
		w                     analytic.Workload
		p                     analytic.Parallelism
	}{
		{"mixtral-8x7b", "elana", "fp32", analytic.Workload{Batch: 82, PromptLen: 2, GenLen: 2}, analytic.Parallelism{TP: 2, GPUsPerNode: 8}},
		{"llama2-70b", "tensorrt-llm", "w8a16-fp8", analytic.Workload{Batch: 3, PromptLen: 23, GenLen: 1},
			analytic.Parallelism{PP: 2, GPUsPerNode: 8}},
	} {
		c := testCase(t, x.model, "h200", 1, 1)
		c.Workload, c.Parallel = x.w, x.p
		last := unit.Seconds(math.Inf(1))
		for more := 0.9; more < 1.6; more += 0.01 {
			c.Machine = casetest.MachineOf(t, casetest.Upgrade(t, "h200-nvl-141gb", "bandwidth", more), x.engine)
			c.Scheme = casetest.Scheme(t, x.scheme, c.Machine.GPU)
			e := predict(t, c)
			if e.TTLT.Expected > last.Times(1.0005) { // see inferred
				t.Errorf("%s: TTLT %v, with 1 %% less bandwidth %v", describe(c), e.TTLT.Expected, last)
			}
			last = e.TTLT.Expected
		}
	}
}
