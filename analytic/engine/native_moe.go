package engine

import (
	"math"
	"math/bits"

	"llmprof/analytic/operator"
	"llmprof/hardware"
	"llmprof/models"
	"llmprof/roofline"
	"llmprof/unit"
)

// fusedExperts reports whether one kernel computes router, top-k and experts of a decode step, whose weights have 16 bits.
func (n *nativeStep) fusedExperts() bool {
	sixteen := n.Step.Scheme.Weights == n.Step.Scheme.Stream()
	return n.decode && n.Step.Batch <= MoEDecodeRows && sixteen && n.known(roofline.MoEDecodeMemory)
}

// prompt reports whether experts run by the kernels of prompts.
func (n *nativeStep) prompt() bool {
	return !n.decode && n.Step.Tokens() > MoEDecodeRows && n.known(roofline.MoEPrefillMemory)
}

// router lowers the router; in a decode step its kernel also does top-k and the experts.
func (n *nativeStep) router(i int) {
	if !n.fusedExperts() {
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

// Groups is the expected number of groups of up to size tokens of one expert, if each token
// takes k of count experts at random: an expert with n tokens has ⌈n/size⌉ groups, and n is
// binomial. The result is linear between whole numbers of tokens.
func Groups(count, k, tokens float64, size int) float64 {
	low := math.Floor(tokens)
	sum := wholeGroups(count, k, int(low), size)
	if tokens > low {
		sum += (tokens - low) * (wholeGroups(count, k, int(low)+1, size) - sum)
	}
	return sum
}

func wholeGroups(count, k float64, tokens, size int) float64 {
	if k >= count {
		return count * float64((tokens+size-1)/size)
	}
	odds := k / (count - k)
	// p is the probability that no token takes the expert. math.Exp is assembly on amd64 and rounds otherwise in a browser, which math.Pow of
	// a whole number does not.
	p := math.Pow(1-k/count, float64(tokens))
	sum := 0.0
	for n := 1; n <= tokens; n++ {
		p *= odds * float64(tokens-n+1) / float64(n)
		sum += p * float64((n+size-1)/size)
	}
	return count * sum
}

// Tiles is how often a GEMM with tiles of so many pairs reads the weights of an expert from
// memory: every tile reads the weights that do not fit in the L2 cache again. A GPU whose
// L2 size is not known reads them once.
func Tiles(l2, expert unit.Bytes, pairs, tile float64) float64 {
	if l2 == 0 {
		return 1
	}
	return 1 + (max(1, pairs/tile)-1)*max(0, 1-float64(l2/expert))
}
