package analytic_test

import (
	"math"
	"testing"

	"llmprof/analytic"
	"llmprof/analytic/breakdown"
	"llmprof/roofline"
	"llmprof/unit"
)

// Figures that follow from others, each worked out from the shape of Llama-3.1-8B (32
// layers, hidden 4096, 8 KV heads of 128, a vocabulary of 128256, an MLP of 14336), the
// data sheet and the constants alone.

// Each rank of TP sends its part of the stream to the next stage, so that a hop's bytes
// over all ranks are those of the stream once.
func TestHopIsSharedByRanks(t *testing.T) {
	for _, x := range []struct {
		tp, pp, node int
		name         string
		hops         float64
	}{{1, 2, 8, "pipeline_send", 1}, {2, 4, 8, "pipeline_send", 3}, {4, 2, 4, "pipeline_send_node", 1}} {
		c := testCase(t, "llama3.1-8b", "h100", 4, x.tp)
		c.Parallel.PP, c.Parallel.GPUsPerNode = x.pp, x.node
		r := explain(t, c)
		near(t, "hop of a prefill", float64(line(t, r.PrefillOps, x.name).Wire), x.hops*4*1024*4096*2/float64(x.tp), 1e-12)
		near(t, "hop of a step", float64(line(t, r.DecodeOps, x.name).Wire), x.hops*4*4096*2/float64(x.tp), 1e-12)
	}
}

// A pipeline of one micro-batch has one of its stages at work at a time, the others wait:
// they draw the power of waiting, and the work adds its energy once.
func TestEnergyOverStages(t *testing.T) {
	quiet := func(k *roofline.Constants) { // hops take and draw nothing to speak of
		inBurst(k)
		k[roofline.PowerNetwork] = 0
	}
	one := with(t, testCase(t, "llama3.1-8b", "h100", 4, 1), quiet)
	four := *one
	four.Parallel.PP = 4
	a, b := predict(t, one), predict(t, &four)
	waiting := one.Machine.Waiting
	work := func(joules unit.Joules, time unit.Seconds, gpus float64) unit.Joules { // beyond waiting, of the batch
		return joules.Times(4) - waiting.For(time).Times(gpus)
	}
	// What is left over is the fixed time of the hops.
	near(t, "energy of a prefill's work", work(b.Energy.PerPrompt, b.TTFT.Expected, 4), work(a.Energy.PerPrompt, a.TTFT.Expected, 1), 0.003)
	near(t, "energy of a step's work", work(b.Energy.PerToken, b.TPOT.Expected, 4), work(a.Energy.PerToken, a.TPOT.Expected, 1), 0.01)
	near(t, "energy of a request", b.Energy.PerRequest, b.Energy.PerPrompt+b.Energy.PerToken.Times(127), 1e-12)
}

func inBurst(k *roofline.Constants) { k[roofline.GEMMSustained] = k[roofline.GEMMCompute] }

// The input rate counts the tokens that are prefilled, not those of a cached prefix, and
// the throughput every generated token, the first one included, over the whole time.
func TestRatesByHand(t *testing.T) {
	c := testCase(t, "llama3.1-8b", "h200", 6, 1)
	c.Workload.CachedPrefix, c.Parallel.DP = 1000, 3
	e := predict(t, c)
	near(t, "input rate", e.InputRate, 3*6*24/float64(e.TTFT.Expected), 1e-12)
	near(t, "throughput", e.Throughput, 3*6*128/float64(e.TTFT.Expected+e.TPOT.Expected.Times(127)), 1e-12)
	c.Workload.GenLen = 1
	e = predict(t, c)
	near(t, "throughput of the first token alone", e.Throughput, 3*6/float64(e.TTFT.Expected), 1e-12)
}

// The interval reaches as far down as up, but never below the floor.
func TestLowerHalfOfTheInterval(t *testing.T) {
	e := predict(t, testCase(t, "llama3.1-8b", "h200", 1, 1))
	for _, x := range []struct {
		what  string
		span  analytic.Span
		error float64
	}{{"TTFT", e.TTFT, e.Prefill.KernelHigh}, {"TPOT", e.TPOT, e.Decode.KernelHigh}} {
		near(t, x.what+": low", x.span.Low, x.span.Expected.Times(1-x.error), 1e-12)
		near(t, x.what+": high", x.span.High, x.span.Expected.Times(1+x.error), 1e-12)
	}
	near(t, "TTLT: low", e.TTLT.Low, e.TTFT.Low+e.TPOT.Low.Times(127), 1e-9)
	wide := *testCase(t, "llama3.1-8b", "h200", 1, 1)
	wide.Machine.Cal.Board, wide.Machine.Cal.DecodeError, wide.Machine.Cal.PrefillError = 0, 0.9, 0.9
	if e = predict(t, &wide); e.TPOT.Low != e.TPOT.Floor || e.TTFT.Low != e.TTFT.Floor {
		t.Errorf("±90 %%: TTFT %+v, TPOT %+v", e.TTFT, e.TPOT)
	}
}

// All all-reduces of a step send the same message, those of the embedding and of layers with a window and without one too, so that the law
// is off by the same share in all: where nothing else is uncertain, the half-width is that share of their time.
func TestAlikeKernelsAreOffAlike(t *testing.T) {
	for _, model := range []string{"llama3.1-8b", "gpt-oss-120b", "gemma3-27b"} {
		c := testCase(t, model, "h200", 1, 4)
		const off = 0.3
		c.Machine.Cal.Residuals = roofline.Constants{}
		c.Machine.Cal.Residuals[roofline.OneShotSlicedShare] = off
		p, err := analytic.NewPredictor(c)
		if err != nil {
			t.Fatal(err)
		}
		var sent unit.Seconds
		s := p.Step(1, 8192, 0, 1)
		p.Walk(&s, func(l *analytic.Lowering, costs []roofline.Cost) {
			for i := range costs {
				if l.Kernels[i].Class == roofline.OneShotAllReduce && costs[i].Leads == roofline.OneShotSlicedShare {
					sent += costs[i].Time
				}
			}
		})
		if sent == 0 {
			t.Fatalf("%s: no all-reduce is bound by the link", model)
		}
		near(t, model+": half-width", p.Scatter(1, 8192, 0, 1), sent.Times(off), 1e-9)
	}
}

// A residual of the fixed time of decode attention is a time: it is as wide after a long context as after a short one, by hand the share
// of that time.
func TestDecodeAttentionIsOffByATime(t *testing.T) {
	c := testCase(t, "llama3.1-8b", "h200", 1, 1)
	const off = 0.38
	c.Machine.Cal.Residuals = roofline.Constants{}
	c.Machine.Cal.Residuals[roofline.AttentionFixed] = off
	p, err := analytic.NewPredictor(c)
	if err != nil {
		t.Fatal(err)
	}
	for _, past := range []float64{100, 10000} {
		var fixed unit.Seconds
		s := p.Step(1, 1, past, 1)
		p.Walk(&s, func(_ *analytic.Lowering, costs []roofline.Cost) {
			for i := range costs {
				if costs[i].Class == roofline.AttentionDecode {
					fixed += costs[i].Times[roofline.Fixed]
				}
			}
		})
		near(t, "half-width", p.Scatter(1, 1, past, 1), fixed.Times(off), 1e-9)
	}
}

// While its links send, a GPU draws its share of the power for the network besides.
func TestNetworkPowerByHand(t *testing.T) {
	c := with(t, testCase(t, "llama3.1-8b", "a100", 4, 4), inBurst)
	off := with(t, c, func(k *roofline.Constants) { k[roofline.PowerNetwork] = 0 })
	a, b := explain(t, c), explain(t, off)
	share := c.Machine.Cal.Constants[roofline.PowerNetwork]
	if share == 0 {
		t.Fatal("the network draws nothing")
	}
	var sent unit.Seconds
	for i := range a.PrefillOps {
		sent += a.PrefillOps[i].Network
	}
	near(t, "prefill", float64(a.Energy.PerPrompt-b.Energy.PerPrompt)*4, 4*share*float64(c.Machine.Rest.For(sent)), 1e-9)
	if a.TTFT != b.TTFT {
		t.Errorf("TTFT %v, %v where the network draws nothing", a.TTFT, b.TTFT)
	}
}

// A step by itself takes what the estimate of that step does, the power limit included.
func TestStepTimeIsTheEstimate(t *testing.T) {
	for _, batch := range []int{1, 17, 64, 300} {
		c := testCase(t, "llama3.1-8b", "h200", batch, 1)
		c.Workload.GenLen = 2
		p, err := analytic.NewPredictor(c)
		if err != nil {
			t.Fatal(err)
		}
		e := predict(t, c)
		near(t, "decode", p.StepTime(float64(batch), 1, 1024, 1), e.TPOT.Expected, 1e-12)
		near(t, "prefill", p.StepTime(float64(batch), 1024, 0, 1), e.TTFT.Expected, 1e-12)
		if batch > 1 && e.Prefill.Throttled == 0 {
			t.Error("no power limit holds in the prefill")
		}
	}
}

// Two walks of the same case agree: Explain's figures are Predict's, and its operators
// add up to the phases, for cases at random.
func TestExplainIsPredict(t *testing.T) {
	d := newDraw(t, 3)
	for range 300 {
		c := d.next()
		e, r := predict(t, c), explain(t, c)
		if r.Estimate != e {
			t.Errorf("%s: Explain has %+v, Predict %+v", describe(c), r.Estimate, e)
		}
		for _, x := range []struct {
			what  string
			lines []breakdown.Operator
			phase analytic.Phase
		}{{"prefill", r.PrefillOps, e.Prefill}, {"decode", r.DecodeOps, e.Decode}} {
			var time unit.Seconds
			share, off := 0.0, 1e-9
			for i := range x.lines {
				time += x.lines[i].Expected
				share += x.lines[i].Share
			}
			if c.Workload.GenLen > 2 || c.Workload.Chunk > 0 { // the mean of many steps is that of the middle one's operators
				off = 0.02
			}
			if len(x.lines) > 0 && (math.Abs(float64(time/x.phase.Expected)-1) > off || math.Abs(share-1) > off) {
				t.Errorf("%s: operators of the %s take %v of %v, shares %v", describe(c), x.what, time, x.phase.Expected, share)
			}
		}
		for _, s := range []analytic.Span{e.TTFT, e.TPOT, e.TTLT} {
			if !(0 <= s.Floor && s.Floor <= s.Low && s.Low <= s.Expected && s.Expected <= s.High) {
				t.Errorf("%s: out of order: %+v", describe(c), s)
			}
		}
	}
}
