package engine_test

import (
	"fmt"
	"math"
	"testing"

	"llmprof/analytic"
	"llmprof/analytic/engine"
	"llmprof/analytic/operator"
	"llmprof/hardware"
	"llmprof/roofline"
	"llmprof/unit"
)

// moeDecode are constants of mixtures in decode that are easy to tell from others.
func moeDecode(k *roofline.Constants) {
	k[roofline.MoEDecodeMemory], k[roofline.MoEDecodeReload] = 0.8, 0.02
	k[roofline.MoEDecodeFixed], k[roofline.MoEDecodeBatched] = 12e-6, 20e-6
}

// TestMoEDecodeByHand works out what the mixtures of a decode step take, from router to
// experts: of Qwen3-30B-A3B, 48 layers and 8 of 128 experts of 2048 × 768, and of Mixtral
// 8x7B, 32 layers and 2 of 8 experts of 4096 × 14336. An expert's weights are read for
// every group of eight pairs, those of gate and up of up to 16 sequences once from memory
// and again for every other pair. The norm ahead of the router adds its weights. Beyond 64
// sequences, in a prefill and with quantized experts the constants count for nothing.
func TestMoEDecodeByHand(t *testing.T) {
	for _, x := range []struct {
		model                               string
		layers, hidden, width, experts, top float64
	}{{"qwen3-30b-a3b", 48, 2048, 768, 128, 8}, {"mixtral-8x7b", 32, 4096, 14336, 8, 2}} {
		for _, batch := range []int{1, 2, 16, 17, 64, 65} {
			was := onEngine(t, x.model, "native", analytic.Workload{Batch: batch, PromptLen: 512, GenLen: 2})
			c := with(t, was, moeDecode)
			r := explain(t, c)
			name := fmt.Sprintf("%s, batch %d", x.model, batch)
			b := float64(batch)
			pairs, hit, groups, fixed := b*x.top, x.experts*(1-math.Pow(1-x.top/x.experts, b)), engine.Groups(x.experts, x.top, b, 8), 20e-6
			if batch == 1 {
				hit, groups, fixed = x.top, x.top, 12e-6
			}
			up, reload := groups, 0.0
			if batch <= 16 {
				up, reload = hit, pairs-hit
			}
			expert := x.hidden * x.width // values of one of the three matrices
			want := x.layers * (fixed + 2*(x.experts*x.hidden+up*2*expert+groups*expert)/(0.8*4.8e12) + 0.02*2*reload*2*expert/4.8e12)
			sum := unit.Seconds(0)
			for _, part := range []string{"router", "top_k", "experts_gate_up", "experts_activation", "experts_down"} {
				sum += line(t, r.DecodeOps, part).Expected
			}
			off := 1e-3
			if batch == 17 { // which takes no less than 16 sequences
				off = 0.015
			}
			if batch <= 64 {
				near(t, name, sum, unit.Seconds(want), off)
			} else if e := predict(t, was); e.TPOT.Expected > r.TPOT.Expected {
				t.Errorf("%s: TPOT %v, %v where nothing is known of mixtures", name, r.TPOT, e.TPOT)
			}
			if e := predict(t, was); r.TTFT != e.TTFT || predict(t, c).TPOT != r.TPOT {
				t.Errorf("%s: TTFT %v, was %v; TPOT %v", name, r.TTFT, e.TTFT, r.TPOT)
			}
			was.Scheme = scheme(t, "w8a16-fp8", was.Machine.GPU)
			c.Scheme = was.Scheme
			if got, want := predict(t, c), predict(t, was); got != want {
				t.Errorf("%s: quantized experts are priced as others: %+v, %+v", name, got.Decode, want.Decode)
			}
		}
	}
}

// TestMoEPrefillByHand works out what the choice and the experts of a prompt of
// Qwen3-30B-A3B take: 48 layers, 8 of 128 experts of 2048 × 768. Prompts of 64 tokens or
// fewer, quantized experts and other engines are as they were, and so is the rest of the prompt.
func TestMoEPrefillByHand(t *testing.T) {
	const layers, hidden, width, experts, top, peak, bandwidth = 48.0, 2048.0, 768.0, 128.0, 8.0, 989.4e12, 4.8e12
	moePrefill := func(k *roofline.Constants) {
		k[roofline.MoEPrefillCompute], k[roofline.MoEPrefillMemory], k[roofline.MoEPrefillPermute], k[roofline.MoEPrefillUnpermute] = 0.6, 0.8, 3,
			5
		k[roofline.RoutingFixed], k[roofline.RoutingPair], k[roofline.RoutingExpert] = 5e-6, 2e-9, 3e-8
	}
	for _, tokens := range []int{64, 65, 1024, 8192} {
		was := onEngine(t, "qwen3-30b-a3b", "native", analytic.Workload{Batch: 1, PromptLen: tokens, GenLen: 2})
		was = with(t, was, inBursts) // no power limit
		c := with(t, was, moePrefill)
		r, before := explain(t, c), explain(t, was)
		pairs := float64(tokens) * top
		hit := experts * (1 - math.Pow(1-top/experts, float64(tokens)))
		product := func(values, times float64) float64 { // values of an expert, which the L2 holds
			busy := math.Hypot(2*pairs*values/(0.6*peak), 2*hit*values/(0.8*bandwidth))
			return layers * (was.Machine.Cal.Constants[roofline.GEMMFixed] + busy + times*2*pairs*hidden/bandwidth)
		}
		want := map[string]float64{
			"top_k":           layers * (5e-6 + pairs*2e-9 + experts*3e-8),
			"experts_gate_up": product(2*hidden*width, 3), "experts_down": product(hidden*width, 5),
		}
		sum := 0.0
		for i := range r.PrefillOps {
			l := &r.PrefillOps[i]
			w, moe := want[l.Name]
			if !moe || tokens <= 64 {
				w = float64(before.PrefillOps[i].Expected)
			}
			got := l.Expected
			switch l.Name {
			case "experts_gate_up": // with the activation, which is a part of it
				got += line(t, r.PrefillOps, "experts_activation").Expected
				if tokens <= 64 {
					w += float64(line(t, before.PrefillOps, "experts_activation").Expected)
				}
			case "experts_activation":
				w = float64(got)
			}
			near(t, fmt.Sprintf("%d tokens: %s", tokens, l.Name), got, unit.Seconds(w), 1e-3)
			sum += float64(l.Expected)
		}
		near(t, fmt.Sprintf("%d tokens: TTFT", tokens), predict(t, c).TTFT.Expected, unit.Seconds(sum), 1e-9)
		if r.TPOT != before.TPOT {
			t.Errorf("%d tokens: TPOT %v, was %v", tokens, r.TPOT, before.TPOT)
		}
	}
	other := onEngine(t, "qwen3-30b-a3b", "vllm-2024", analytic.Workload{Batch: 1, PromptLen: 1024, GenLen: 2})
	all := func(k *roofline.Constants) {
		moePrefill(k)
		moeDecode(k)
		k[roofline.WGMMAMemory], k[roofline.WGMMAReload], k[roofline.WGMMAFixed] = 0.7, 20, 9e-6
	}
	if got, want := predict(t, with(t, other, all)), predict(t, other); got != want {
		t.Errorf("another engine has the native one's kernels: %+v, %+v", got, want)
	}
}

// TestRereadByHand checks that weights which the L2 cache does not hold come for every tile
// again, and those that it holds once: 160 pairs a tile on Hopper, 64 elsewhere.
func TestRereadByHand(t *testing.T) {
	for _, x := range []struct {
		capability              string
		l2, expert, pairs, want float64
	}{
		{"9.0", 50e6, 40e6, 1000, 0}, {"9.0", 50e6, 100e6, 100, 0}, {"9.0", 50e6, 100e6, 320, 0.5}, {"9.0", 50e6, 200e6, 480, 2 * 0.75},
		{"8.0", 50e6, 100e6, 320, 4 * 0.5}, {"9.0", 0, 100e6, 320, 0},
	} {
		g := hardware.GPU{ComputeCapability: x.capability, L2: unit.Bytes(x.l2)}
		k := roofline.Kernel{Format: unit.BF16, Work: roofline.Work{Weights: unit.Bytes(4 * x.expert)}}
		k.Shape.Hit, k.Shape.Pairs = 4, 4*x.pairs
		engine.MoEPrefillMoves(&k, &g, true)
		if got := float64(k.Reread) / (4 * x.expert); math.Abs(got-x.want) > 1e-9 {
			t.Errorf("%+v: weights are read %v times more", x, got)
		}
	}
}

// TestGroupsOfSharedExperts counts the groups of a step whose experts see the tokens of
// other ranks too: no expert that is hit is read less than once.
func TestGroupsOfSharedExperts(t *testing.T) {
	c := onEngine(t, "qwen3-30b-a3b", "native", analytic.Workload{Batch: 64, PromptLen: 512, GenLen: 2})
	c.Parallel = analytic.Parallelism{TP: 1, EP: 8, DP: 8}
	lines := explain(t, with(t, c, moeDecode)).DecodeOps
	up, down := line(t, lines, "experts_gate_up"), line(t, lines, "experts_down")
	tokens := 64 * 8.0
	_, pairs := operator.BusiestRank(128, 8, tokens, 8)
	// The busiest rank has its share of the groups, which is that of the pairs.
	groups := engine.Groups(128, 8, tokens, engine.GroupPairs) * pairs / (tokens * 8)
	const expert = 48 * 3 * 2048 * 768 * 2.0
	if got, least := float64(up.Memory+down.Memory), float64(up.Weights+down.Weights)/4.8e12; got < least {
		t.Errorf("the experts' %v are read in %v s", up.Weights+down.Weights, got)
	}
	near(t, "experts", float64(up.Memory+down.Memory), groups*expert/(0.8*4.8e12), 0.01)
}
