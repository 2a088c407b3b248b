package engine

import (
	"math/bits"

	"llmprof/analytic/operator"
	"llmprof/hardware"
	"llmprof/models"
	"llmprof/roofline"
)

// sixteenBit reports whether the experts' weights have 16 bits; the engine's MoE kernels of decode steps take no
// others.
func (n *nativeStep) sixteenBit() bool { return n.Step.Scheme.Weights == n.Step.Scheme.Stream() }

// together reports whether one kernel computes router, top-k and experts of a decode step.
func (n *nativeStep) together() bool {
	return n.decode && n.Step.Batch <= MoEDecodeRows && n.sixteenBit() && n.known(roofline.MoEDecodeMemory)
}

func (n *nativeStep) prompt() bool {
	return !n.decode && n.Step.Tokens() > MoEDecodeRows && n.known(roofline.MoEPrefillMemory)
}

// router lowers the router; in a decode step its kernel also does top-k and the experts.
func (n *nativeStep) router(i int) {
	if !n.together() {
		n.Launch(i, n.class(n.skinny && !n.quantized), 1)
		return
	}
	up := n.Next(i, operator.ExpertProduct)
	k := n.Launch(up, roofline.MoEDecode, 1)
	n.fused |= 1 << up
	MoEDecodeReads(&k.Kernel, &n.Ops[up], true)
	for j := i; j < len(n.Ops) && n.Ops[j].Block == n.Ops[i].Block; j++ {
		switch n.Ops[j].Type {
		case operator.ExpertProduct:
			if j != up {
				MoEDecodeReads(&k.Kernel, &n.Ops[j], false)
				n.join(k, j)
			}
		case operator.Router, operator.TopK, operator.ExpertNonLinear:
			n.join(k, j)
		}
	}
}

// MoEDecodeReads adds the weights of experts that a decode step reads more than once. A GEMM of
// several sequences reads an expert for each group of GroupPairs of its tokens (moe_decode.cu); the first GEMM
// of 2 to PairRows sequences has a block for each token-expert pair (experts_gate_up of moe.cu), and reads an
// expert for each of its tokens, mostly from the L2 cache.
func MoEDecodeReads(k *roofline.Kernel, o *operator.Op, first bool) {
	s := &o.Shape
	if s.Tokens <= 1 {
		return
	}
	expert := o.Work.Weights.Times(1 / s.Hit)
	if first && s.Tokens <= PairRows {
		k.Reload += expert.Times(s.Pairs - s.Hit)
		return
	}
	share := s.Pairs / (s.Tokens * s.TopK) // share of the experts that one rank has
	k.Reread += expert.Times(Groups(s.Experts, s.TopK, s.Tokens, GroupPairs)*share - s.Hit)
}

func (n *nativeStep) topK(i int) {
	class := roofline.Elementwise
	if n.prompt() && n.known(roofline.RoutingFixed) {
		class = roofline.MoERouting
	}
	n.Launch(i, class, 1)
}

// experts lowers a grouped GEMM of the experts; the first one fuses the activation.
func (n *nativeStep) experts(i int) {
	class := roofline.GEMM
	if n.prompt() {
		class = roofline.MoEPrefill
	}
	k := n.multiply(i, class)
	first := i == n.Next(0, operator.ExpertProduct)
	if class == roofline.MoEPrefill {
		MoEPrefillMoves(&k.Kernel, n.GPU, first)
		k.Helpers = 1
	}
	if j := i + 1; j < len(n.Ops) && n.Ops[j].Type == operator.ExpertNonLinear {
		n.join(k, j)
	}
}

// The token-expert pairs of one expert that a prompt multiplies together, by wgmma on compute
// capability 9.0, else by mma.
const (
	WGMMATile = 160
	MMATile   = 64
)

// expertTile is the number of pairs of a tile of a GPU's kernels.
func expertTile(g *hardware.GPU) float64 {
	if g.ComputeCapability == "9.0" {
		return WGMMATile
	}
	return MMATile
}

// MoEPrefillMoves adds the traffic of a grouped GEMM of a prompt besides its weights and
// activations: weights that are read again because they do not fit in the L2 cache, and the inputs
// of the pairs, which are gathered before the first GEMM, or their results, which are summed after
// the others.
func MoEPrefillMoves(k *roofline.Kernel, g *hardware.GPU, first bool) {
	s := &k.Shape
	expert := k.Work.Weights.Times(1 / s.Hit)
	k.Reread = k.Work.Weights.Times(Tiles(g.L2, expert, s.Pairs/s.Hit, expertTile(g)) - 1)
	if first {
		k.Permuted = k.Format.Bytes(s.Pairs * s.K)
	} else {
		k.Unpermuted = k.Format.Bytes(s.Pairs * s.N)
	}
}

// persist makes one persistent kernel of a layer with a mixture of experts, from the first norm of
// its attention to the last GEMM of its experts. The phases of the kernel wait for each other.
func (n *nativeStep) persist() {
	if !n.decode || n.quantized || n.Step.Batch > PersistentRow || n.Part != operator.PartLayers {
		return
	}
	up := n.Next(0, operator.ExpertProduct)
	if up < 0 {
		return
	}
	for i := range n.Kernels {
		k := &n.Kernels[i]
		o := &n.Ops[bits.TrailingZeros64(k.Ops)]
		if !n.persistent(o.Block) || k.Ops&(1<<up) != 0 {
			continue
		}
		k.Phase = n.Ops[up].Name
		if k.Class == roofline.Elementwise {
			k.Launches, k.Work.Acts = 0, 0
		}
	}
}

// persistent reports whether a block is part of a persistent kernel: a mixture of experts without
// shared experts, or the attention before one, on one GPU.
func (n *nativeStep) persistent(b *models.Block) bool {
	if b != nil && b.Attention != nil {
		b = n.blockAfter(b)
	}
	par := n.Step.Par
	return b != nil && b.Experts != nil && b.Experts.Shared == nil && par.TP == 1 && par.ExpertRanks() == 1
}

// blockAfter is the block of the layer after b; parallel blocks are skipped.
func (n *nativeStep) blockAfter(b *models.Block) *models.Block {
	for i := 1; i < len(n.Ops); i++ {
		if next := n.Ops[i].Block; n.Ops[i-1].Block == b && next != b && next != nil && !next.Parallel {
			return next
		}
	}
	return b
}
