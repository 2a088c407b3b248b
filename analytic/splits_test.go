package analytic

import (
	"testing"

	"llmprof/unit"
)

// Tokens go to their experts and back: each MoE layer sends (n-1)/n of the rows
// that a rank has to others, k rows a token, twice.
func TestAllToAll(t *testing.T) {
	c := testCase(t, "qwen3-30b-a3b", "h200", 6, 2)
	c.Parallel.EP, c.Parallel.DP = 4, 2
	r := explain(t, c)
	const rows = 6.0 / 2 * 8 * 2048 * 2 // of a rank's share of a decode step's tokens, bytes
	for _, name := range []string{"all_to_all_dispatch", "all_to_all_combine"} {
		near(t, name, float64(op(t, r.DecodeOps, name).Wire), 48*rows*3/4, 1e-12)
	}
	near(t, "all-gather", float64(op(t, r.DecodeOps, "all_gather").Wire), 48*6*2048*2*1.0/2, 1e-12)
	// A group of 4 ranks holds the experts once, and reads what the tokens of both replicas touch.
	hit := 128 * (1 - pow(1-8.0/128, 12))
	near(t, "experts read", float64(op(t, r.DecodeOps, "experts_down").Weights), 48*2048*768*2*hit/4, 1e-9)
	near(t, "experts run", float64(op(t, r.DecodeOps, "experts_down").FLOPs), 2*48*2048*768*12*8/4.0, 1e-9)
}

func pow(x float64, n int) float64 {
	p := 1.0
	for range n {
		p *= x
	}
	return p
}

// Over two nodes of 8, an all-reduce runs within each node and an eighth of it
// between them.
func TestAllReduceOverNodes(t *testing.T) {
	c := testCase(t, "llama2-70b", "h200", 1, 16)
	p, err := NewPredictor(c)
	if err != nil {
		t.Fatal(err)
	}
	st := p.template()
	size := unit.Bytes(1e6)
	o := st.ring("all_reduce", size, 2, 1)
	near(t, "within a node", o.Wire, 2*7.0/8*1e6, 1e-12)
	near(t, "between nodes", o.NodeWire, 2*1.0/2*1e6/8, 1e-12)
	if near, far := p.par.hops(); near != 0 || far != 0 {
		t.Errorf("one stage has %v and %v borders", near, far)
	}
	for _, x := range []struct {
		p         Parallelism
		near, far float64
	}{
		{Parallelism{TP: 4, PP: 4, GPUsPerNode: 8}, 2, 1},
		{Parallelism{TP: 8, PP: 3, GPUsPerNode: 8}, 0, 2},
		{Parallelism{TP: 1, PP: 8, GPUsPerNode: 8}, 7, 0},
	} {
		w := x.p.whole()
		if near, far := w.hops(); near != x.near || far != x.far {
			t.Errorf("%+v: %v borders within nodes and %v between, want %v and %v", x.p, near, far, x.near, x.far)
		}
	}
}

// m micro-batches take m + stages - 1 turns of the longest stage in prefill, and
// max(m, stages) in decode.
func TestPipelineTurns(t *testing.T) {
	one := testCase(t, "llama3.1-8b", "h100", 2, 1) // a micro-batch of the ones below
	one.Parallel.PP = 4
	single := explain(t, one)
	for _, m := range []int{2, 4, 8} {
		c := testCase(t, "llama3.1-8b", "h100", 2*m, 1)
		c.Parallel.PP, c.Parallel.MicroBatches = 4, m
		r := explain(t, c)
		turns := unit.Seconds(m + 3)
		near(t, "prefill", r.TTFT.Expected, single.TTFT.Expected.Times(float64(turns)/4), 1e-9)
		near(t, "decode", r.TPOT.Expected, single.TPOT.Expected.Times(float64(max(m, 4))/4), 1e-9)
	}
}

// Sequence parallelism runs the norms on each rank's tokens and moves the same.
func TestSequenceParallelism(t *testing.T) {
	c := testCase(t, "llama2-70b", "h100", 4, 8)
	plain := explain(t, c)
	c.Parallel.SP = true
	sp := explain(t, c)
	var norm, normSP unit.Bytes
	for _, l := range plain.PrefillOps {
		if l.Name == "input_layernorm" || l.Name == "input_norm" {
			norm += l.Acts
		}
	}
	for _, l := range sp.PrefillOps {
		if l.Name == "input_layernorm" || l.Name == "input_norm" {
			normSP += l.Acts
		}
	}
	near(t, "activations of the norms", normSP, norm.Times(1.0/8), 1e-12)
	near(t, "bytes on the wire", sp.Prefill.Wire, plain.Prefill.Wire, 1e-12)
}

// The states of a scan, and heads fewer than ranks, are cut as their projections are.
func TestShardedState(t *testing.T) {
	one := explain(t, testCase(t, "nemotron-h-8b", "h200", 1, 1))
	four := explain(t, testCase(t, "nemotron-h-8b", "h200", 1, 4))
	near(t, "state", four.Memory.State, one.Memory.State.Times(1.0/4), 1e-9)
	near(t, "cache", four.Memory.KV, one.Memory.KV.Times(1.0/4), 1e-9)
}

// The norm of the only key head is no norm of the stream, whatever their number.
func TestOnlyKeyHead(t *testing.T) {
	r := explain(t, testCase(t, "gemma3-1b", "h200", 1, 1))
	for _, l := range r.DecodeOps {
		if l.Name == "k_norm" || l.Name == "q_norm" {
			t.Errorf("%s is an operator of its own beside qk_norm_rotary", l.Name)
		}
	}
	near(t, "weights of both norms", float64(op(t, r.DecodeOps, "qk_norm_rotary").Weights), 26*2*256*2, 1e-12)
}
