package roofline

// The MoE kernel of a decode step computes the router, top-k and all products of the experts.
// It reads the weights of an expert from memory once for each group of tokens (Reread), and
// some of them from the L2 cache once for each token (Reload). The kernel sorts the
// token-expert pairs of several sequences by expert first: its fixed time is batched then.
var moeDecode = Law{
	Equation: "(fixed or batched) + bytes of weights / (memory × bandwidth) + reload × bytes read again / bandwidth",
	List: func(t *Terms, k *Kernel, p *Peaks) {
		fixed := MoEDecodeFixed
		if k.Shape.Tokens > 1 {
			fixed = MoEDecodeBatched
		}
		t.arithmetic(k, p, GEMMCompute)
		t.add(Memory, MoEDecodeMemory, seconds(k.Work.Weights+k.Reread, p.Memory))
		t.add(Memory, MoEDecodeReload, seconds(k.Reload, p.Memory))
		t.add(Fixed, fixed, 1)
	},
	Power: PowerMoEDecode,
}

// The routing kernel is one thread block, which chooses the experts of a prompt's tokens and
// sorts the token-expert pairs by expert.
var moeRouting = Law{
	Equation: "fixed + pairs × pair + experts × expert",
	List: func(t *Terms, k *Kernel, _ *Peaks) {
		t.add(Fixed, RoutingPair, k.Shape.Pairs)
		t.add(Fixed, RoutingExpert, k.Shape.Experts)
		t.add(Fixed, RoutingFixed, k.Launches)
	},
	Power: PowerMemory,
}

// The experts of a prompt are grouped GEMMs, each tile of which has the weights of one expert.
// Separate kernels permute the inputs before the first GEMM and the results after the last
// one, and nothing overlaps them. A thread block prefetches few stages of weights, so
// arithmetic and memory traffic overlap only in part.
var moePrefill = Law{
	Equation: "gemm.fixed + √(C² + M²) + (permute or unpermute) × bytes of the pairs / bandwidth, C = FLOPs / (compute × peak), M = bytes " +
		"of weights / (memory × bandwidth)",
	List: func(t *Terms, k *Kernel, p *Peaks) {
		t.arithmetic(k, p, MoEPrefillCompute)
		t.add(Memory, MoEPrefillMemory, seconds(k.Work.Weights+k.Reread, p.Memory))
		t.add(Serial, MoEPrefillPermute, seconds(k.Permuted, p.Memory))
		t.add(Serial, MoEPrefillUnpermute, seconds(k.Unpermuted, p.Memory))
		t.add(Fixed, GEMMFixed, k.Launches)
	},
	Exposed: 1,
	Power:   PowerMemory,
}
