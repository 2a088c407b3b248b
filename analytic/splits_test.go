package analytic_test

import (
	"testing"

	"llmprof/analytic/operator"
	"llmprof/internal/testkit/casetest"
	"llmprof/unit"
)

// Tokens go to their experts and back: each MoE layer sends the rows that a rank has to each of the three
// other ranks once, twice, but for those of which all 8 experts are on other ranks.
func TestAllToAll(t *testing.T) {
	c := testCase(t, "qwen3-30b-a3b", "h200", 6, 2)
	c.Parallel.EP, c.Parallel.DP = 4, 2
	r := explain(t, c)
	const rows = 6.0 / 2 * 2048 * 2 // of a rank's share of a decode step's tokens, bytes
	missed := 1.0                   // binomials: 96 over 8, by 128 over 8
	for i := range 8 {
		missed *= float64(96-i) / float64(128-i)
	}
	for _, name := range []string{"all_to_all_dispatch", "all_to_all_combine"} {
		near(t, name, float64(line(t, r.DecodeOps, name).Wire), 48*rows*3*(1-missed), 1e-12)
	}
	near(t, "all-gather", float64(line(t, r.DecodeOps, "all_gather").Wire), 48*6*2048*2*1.0/2, 1e-12)
	// A group of 4 ranks holds the experts once. The busiest of them reads what the tokens of both replicas touch of its own.
	hit, pairs := operator.BusiestRank(128, 8, 12, 4)
	if mean := 128 * (1 - pow(1-8.0/128, 12)) / 4; hit <= mean || pairs <= 12*8/4 {
		t.Errorf("the busiest rank has %v experts and %v pairs, a mean one %v and 24", hit, pairs, mean)
	}
	near(t, "experts read", float64(line(t, r.DecodeOps, "experts_down").Weights), 48*2048*768*2*hit, 1e-9)
	near(t, "experts run", float64(line(t, r.DecodeOps, "experts_down").FLOPs), 2*48*2048*768*pairs, 1e-9)
}

func pow(x float64, n int) float64 {
	p := 1.0
	for range n {
		p *= x
	}
	return p
}

// Sequence parallelism runs the norms on each rank's tokens and moves the same.
func TestSequenceParallelism(t *testing.T) {
	c := testCase(t, "llama2-70b", "h100", 4, 8)
	plain := explain(t, c)
	c.Parallel.SP = true
	sp := explain(t, c)
	var norm, normSP unit.Bytes
	for i := range plain.PrefillOps {
		l := &plain.PrefillOps[i]
		if l.Name == "input_layernorm" || l.Name == "input_norm" {
			norm += l.Acts
		}
	}
	for i := range sp.PrefillOps {
		l := &sp.PrefillOps[i]
		if l.Name == "input_layernorm" || l.Name == "input_norm" {
			normSP += l.Acts
		}
	}
	near(t, "activations of the norms", normSP, norm.Times(1.0/8), 1e-12)
	near(t, "bytes on the wire", sp.Prefill.Wire, plain.Prefill.Wire, 1e-12)
}

// The norm of the only key head is no norm of the stream, whatever their number.
func TestOnlyKeyHead(t *testing.T) {
	r := explain(t, testCase(t, "gemma3-1b", "h200", 1, 1))
	for i := range r.DecodeOps {
		l := &r.DecodeOps[i]
		if l.Name == "k_norm" || l.Name == "q_norm" {
			t.Errorf("%s is an operator of its own beside qk_norm_rotary", l.Name)
		}
	}
	near(t, "weights of both norms", float64(line(t, r.DecodeOps, "qk_norm_rotary").Weights), 26*2*256*2, 1e-12)
}

// Ranks of one TP group have all its tokens: the experts that each of them holds whole take no exchange, and
// their results are summed as those of experts that are cut are.
func TestExpertsWithinTensorParallelism(t *testing.T) {
	c := testCase(t, "qwen3-30b-a3b", "h200", 6, 4)
	cut := explain(t, c)
	c.Parallel.EP = 4
	whole := explain(t, c)
	for i := range whole.DecodeOps {
		if o := &whole.DecodeOps[i]; o.Name == "all_to_all_dispatch" || o.Name == "all_gather" {
			t.Errorf("%s with EP within TP", o.Name)
		}
	}
	near(t, "all-reduce", float64(line(t, whole.DecodeOps, "all_reduce").Wire), float64(line(t, cut.DecodeOps, "all_reduce").Wire), 1e-12)
}

// Replicas that cut the experts between them have all tokens of all replicas on every rank: each sends its tokens to
// the others, and its parts of the sums back. The ranks together run what one replica with its own experts would run of
// all tokens, and the model's FLOPs are the same. With whole experts they move as many bytes of weights together.
func TestCutExperts(t *testing.T) {
	c := testCase(t, "qwen3-30b-a3b", "h200", 6, 1)
	c.Machine = casetest.Machine(t, "h200", "vllm")
	c.Parallel.DP = 4
	own := explain(t, c)
	c.Parallel.MoETP = 4
	cut := explain(t, c)
	const rows = 6 * 2048 * 2 // bytes of the tokens of a replica's decode step
	for _, name := range []string{"all_gather_tokens", "reduce_scatter_tokens"} {
		near(t, name, float64(line(t, cut.DecodeOps, name).Wire), 48*rows*3, 1e-12)
	}
	near(t, "FLOPs of the model", float64(cut.Prefill.FLOPs), float64(own.Prefill.FLOPs), 1e-12)
	for _, name := range []string{"experts_gate_up", "experts_down"} {
		near(t, name+" of four ranks", float64(line(t, cut.PrefillOps, name).FLOPs), float64(line(t, own.PrefillOps, name).FLOPs), 1e-9)
	}
	c.Parallel.TP, c.Parallel.DP = 2, 2
	within := explain(t, c)
	near(t, "all-reduce of attention and of the mixture", float64(line(t, within.DecodeOps, "all_reduce").Wire), 2*48*2*rows/2, 1e-12)
}
