package analytic

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"llmprof/hardware"
	"llmprof/unit"
)

// withCalibration is a case on a machine with other constants.
func withCalibration(t *testing.T, c *Case, change func(*hardware.Calibration)) *Case {
	t.Helper()
	cal := c.Machine.Cal
	change(&cal)
	m, err := NewMachine(c.Machine.GPU, cal, c.Machine.Engine)
	if err != nil {
		t.Fatal(err)
	}
	other := *c
	other.Machine = m
	return &other
}

// TestMixtureByHand works out what the mixtures of a decode step of Qwen3-30B-A3B take by
// the engine's own kernels: 48 layers, 8 of 128 experts of 2048 × 768. Beyond 64
// sequences, in a prefill, with quantized weights and where a calibration has no
// constants of them, it is what it was.
func TestMixtureByHand(t *testing.T) {
	const layers, hidden, width, experts, top = 48.0, 2048.0, 768.0, 128.0, 8.0
	k := hardware.Mixture{Memory: 0.8, Row: 0.02, Fixed: 12e-6, Several: 20e-6}
	for _, batch := range []int{1, 2, 16, 17, 64, 65} {
		was := onEngine(t, "qwen3-30b-a3b", "native", Workload{Batch: batch, Prompt: 512, Gen: 2})
		c := withCalibration(t, was, func(cal *hardware.Calibration) { cal.Mixture = k })
		r, before := explain(t, c), explain(t, was)
		b := float64(batch)
		hit := experts * (1 - math.Pow(1-top/experts, b))
		of := func(weights, met float64) float64 { // read once, and met by rows
			fixed := k.Several
			if batch == 1 {
				fixed = k.Fixed
			}
			return layers * (float64(fixed)/4 + 2*weights/(k.Memory*4.8e12) + 2*met*k.Row/4.8e12)
		}
		want := map[string]float64{
			"router": of(experts*hidden, b*experts*hidden), "top_k": of(0, 0),
			"experts_gate_up": of(hit*2*hidden*width, b*top*2*hidden*width), "experts_down": of(hit*hidden*width, b*top*hidden*width),
		}
		for i := range r.DecodeOps {
			l := &r.DecodeOps[i]
			w, own := want[l.Name]
			if !own || batch > 64 {
				w = float64(before.DecodeOps[i].Expected)
			}
			tolerance := 1e-9
			if l.Name == "top_k" {
				tolerance = 1e-3 // its arithmetic, which is next to nothing
			}
			near(t, fmt.Sprintf("batch %d: %s", batch, l.Name), l.Expected, unit.Seconds(w), tolerance)
		}
		if r.TTFT != before.TTFT || predict(t, c).TPOT != r.TPOT {
			t.Errorf("batch %d: TTFT %v, was %v; TPOT %v, %v when it is predicted alone", batch, r.TTFT, before.TTFT, r.TPOT, predict(t, c).TPOT)
		}
		was.Scheme = scheme(t, "w8a16-fp8", was.Machine.GPU)
		c.Scheme = was.Scheme
		if got, want := predict(t, c), predict(t, was); got != want {
			t.Errorf("batch %d: quantized experts are priced as others: %+v, %+v", batch, got.Decode, want.Decode)
		}
	}
}

// TestMixtureAgainByHand works out the same where a calibration knows of what comes again: an expert's
// weights for every group of eight pairs, but those of gate and up up to 16 sequences, which every pair
// reads.
func TestMixtureAgainByHand(t *testing.T) {
	const layers, hidden, width, experts, top, bandwidth = 32.0, 4096.0, 14336.0, 8.0, 2.0, 4.8e12
	k := hardware.Mixture{Memory: 0.8, Again: 0.3, Row: 0.02, Fixed: 12e-6, Several: 20e-6}
	for _, batch := range []int{1, 4, 16, 17, 64} {
		c := withCalibration(t, onEngine(t, "mixtral-8x7b", "native", Workload{Batch: batch, Prompt: 512, Gen: 2}), func(cal *hardware.Calibration) { cal.Mixture = k })
		b := float64(batch)
		pairs, hit, groups, fixed := b*top, experts*(1-math.Pow(1-top/experts, b)), Groups(experts, top, b, 8), k.Several
		if batch == 1 {
			hit, groups, fixed = top, top, k.Fixed
		}
		of := func(read, again float64) float64 { // values
			return layers * (float64(fixed)/4 + 2*read/(k.Memory*bandwidth) + k.Again*2*again/bandwidth)
		}
		up, again := groups, 0.0
		if batch <= 16 {
			up, again = hit, pairs-hit
		}
		want := map[string]float64{"router": of(experts*hidden, 0), "experts_gate_up": of(up*2*hidden*width, again*2*hidden*width), "experts_down": of(groups*hidden*width, 0)}
		r := explain(t, c)
		for i := range r.DecodeOps {
			if w, ok := want[r.DecodeOps[i].Name]; ok {
				near(t, fmt.Sprintf("batch %d: %s", batch, r.DecodeOps[i].Name), r.DecodeOps[i].Expected, unit.Seconds(w), 1e-9)
			}
		}
		near(t, fmt.Sprintf("batch %d: TPOT", batch), predict(t, c).TPOT.Expected, r.TPOT.Expected, 1e-9)
	}
}

// TestPostedByHand holds which all-reduces take the latency of sums within products: two
// a layer of a dense model's decode steps of up to 64 sequences on an H200, the attention's
// alone of a mixture's, none of a prefill; over more GPUs those of few sequences.
func TestPostedByHand(t *testing.T) {
	const less = 3e-6 // by which a posted sum is faster than another
	for _, x := range []struct {
		model     string
		tp, batch int
		sums      float64
	}{
		{"llama3.1-8b", 2, 1, 64}, {"llama3.1-8b", 2, 16, 64}, {"llama3.1-8b", 2, 64, 64}, {"llama3.1-8b", 2, 65, 0}, {"llama3.1-8b", 4, 64, 64}, {"llama3.1-8b", 4, 65, 0},
		{"llama3.1-8b", 8, 17, 0},
		{"llama3.1-8b", 8, 5, 64}, {"llama3.1-8b", 8, 6, 0}, {"qwen3-30b-a3b", 2, 16, 48}, {"qwen3-30b-a3b", 4, 1, 48}, {"qwen3-30b-a3b", 2, 17, 0},
	} {
		was := onEngine(t, x.model, "native", Workload{Batch: x.batch, Prompt: 512, Gen: 2})
		was.Parallel = Parallelism{TP: x.tp, GPUsPerNode: 8}
		was = withCalibration(t, was, func(cal *hardware.Calibration) {
			cal.OneShotBase, cal.OneShotPerGPU, cal.PostedBase, cal.PostedPerGPU = 5e-6, 0, 5e-6, 0
		})
		c := withCalibration(t, was, func(cal *hardware.Calibration) { cal.PostedBase -= less })
		got, before := predict(t, c), predict(t, was)
		near(t, fmt.Sprintf("%s, TP %d, batch %d", x.model, x.tp, x.batch), before.TPOT.Expected-got.TPOT.Expected, unit.Seconds(x.sums*less), 1e-9)
		if got.TTFT != before.TTFT || explain(t, c).TPOT != got.TPOT {
			t.Errorf("%s, TP %d, batch %d: TTFT %v, was %v; TPOT %v, %v by its operators", x.model, x.tp, x.batch, got.TTFT, before.TTFT, got.TPOT, explain(t, c).TPOT)
		}
	}
}

// TestGroups holds the expected groups to those of drawn choices, to Distinct where a group
// has room for all, and to the pairs where it has room for one.
func TestGroups(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, x := range []struct{ experts, k, tokens int }{{128, 8, 64}, {8, 2, 16}, {8, 2, 64}, {64, 6, 40}, {4, 4, 20}, {8, 2, 1}} {
		count, k, tokens := float64(x.experts), float64(x.k), float64(x.tokens)
		near(t, fmt.Sprintf("%+v: whole experts", x), Groups(count, k, tokens, x.tokens), Distinct(count, k, tokens), 1e-9)
		near(t, fmt.Sprintf("%+v: pairs", x), Groups(count, k, tokens, 1), k*tokens, 1e-9)
		const draws = 4000
		sum := 0
		for range draws {
			n := make([]int, x.experts)
			for range x.tokens {
				for _, e := range random.Perm(x.experts)[:x.k] {
					n[e]++
				}
			}
			for _, n := range n {
				sum += (n + 7) / 8
			}
		}
		near(t, fmt.Sprintf("%+v: groups of 8", x), Groups(count, k, tokens, 8), float64(sum)/draws, 0.01)
	}
	near(t, "between", Groups(8, 2, 16.5, 8), (Groups(8, 2, 16, 8)+Groups(8, 2, 17, 8))/2, 1e-9)
}
