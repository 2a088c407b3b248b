package roofline

import (
	"math"
)

// The mixture of a decode step is router, top-k and all products of the experts
// together. The weights of an expert are read once for each group of its pairs
// (Reread), and some once for each pair, out of the L2 cache (Reload). The pairs of
// several sequences are sorted by expert first, which takes batched in place of fixed.
var moeDecode = Law{
	Equation: "(fixed or batched) + bytes of weights / (memory × bandwidth) + reload × bytes read again / bandwidth",
	Terms: func(k *Kernel, p *Peaks) (t Terms) {
		fixed := MoEDecodeFixed
		if k.Shape.Tokens > 1 {
			fixed = MoEDecodeBatched
		}
		t.arithmetic(k, p, GEMMCompute)
		t.add(Memory, MoEDecodeMemory, None, seconds(k.Work.Weights+k.Reread, p.Memory))
		t.add(Memory, MoEDecodeReload, None, seconds(k.Reload, p.Memory))
		t.add(Fixed, fixed, None, 1)
		return t
	},
	Power: PowerSkinnyGEMM,
}

// One block chooses the experts of a prompt and sorts the pairs of a token and an
// expert by expert.
var moeRouting = Law{
	Equation: "fixed + pairs × pair + experts × expert",
	Terms: func(k *Kernel, _ *Peaks) (t Terms) {
		t.add(Fixed, RoutingPair, None, k.Shape.Pairs)
		t.add(Fixed, RoutingExpert, None, k.Shape.Experts)
		t.add(Fixed, RoutingFixed, None, k.Launches)
		return t
	},
	Power: PowerMemory,
}

// The experts of a prompt are grouped products whose tiles are of one expert each.
// Inputs are permuted before the first product and results after the last by kernels
// of their own, which nothing overlaps. A block has few stages of weights in flight, so
// that arithmetic and memory hide only a part of each other.
var moePrefill = Law{
	Equation: "gemm.fixed + √(C² + M²) + (permute or unpermute) × bytes of the pairs / bandwidth, C = FLOPs / (compute × peak), M = bytes of weights / (memory × bandwidth)",
	Terms: func(k *Kernel, p *Peaks) (t Terms) {
		t.arithmetic(k, p, MoEPrefillCompute)
		t.add(Memory, MoEPrefillMemory, None, seconds(k.Work.Weights+k.Reread, p.Memory))
		t.add(Serial, MoEPrefillPermute, None, seconds(k.Permuted, p.Memory))
		t.add(Serial, MoEPrefillUnpermute, None, seconds(k.Unpermuted, p.Memory))
		t.add(Fixed, GEMMFixed, None, k.Launches)
		return t
	},
	Overlap: Partial,
	Power:   PowerMemory,
}

// Distinct is the expected number of different experts among count that tokens
// touch when each takes k at random: E·(1 − (1 − k/E)^T).
func Distinct(count, k, tokens float64) float64 {
	if k >= count {
		return count
	}
	return -count * math.Expm1(tokens*math.Log1p(-k/count))
}
