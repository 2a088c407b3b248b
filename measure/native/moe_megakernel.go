package native

import (
	"fmt"

	"llmprof/analytic/engine"
	"llmprof/measure/native/cuda"
)

// These constants repeat those of moe_megakernel_state.cuh: the bytes of a stage, the 64-bit words of
// a layer in the table, and the copies in which the kernel sends the normed stream and the router's
// scores.
const (
	stepStage      = 16*256*2 + 64
	stepLayerWords = 14
	streamCopies   = 4
	scoreCopies    = 16
)

// staticSharedStep is an upper bound of a block's static shared memory.
const staticSharedStep = 6 << 10

// This shape of the megakernel was fastest on an H200: stages of the ring, and stages prefetched for
// the next layer; parts of a head's context, for caches of less than manyTokens and for longer ones.
// (16 and 32 parts took 2.252 and 2.276 ms at a context of 4096 tokens, 2.387 and 2.348 at 8192, 2.678
// and 2.554 at 16384.)
const (
	stepRing, stepPrefetched = 16, 6
	fewParts                 = 16
	manyTokens               = 8192
)

// A megakernelGrid is what the megakernel is compiled for besides the model's shape; it has no blocks
// if the model has no megakernel.
type megakernelGrid struct {
	blocks             int
	stages, prefetched int
	share              int // A block makes 2^share values of a head's output.
}

// A megakernelPlan is how the megakernel is launched.
type megakernelPlan struct {
	megakernelGrid
	whole bool // The kernel includes embedding, LM head and sampling.
}

// stepParts is how many parts a head's context is cut into.
func (o *Options) stepParts() int {
	switch {
	case o.splits > 0:
		return o.splits
	case o.PromptLen+o.GenLen-1 >= manyTokens:
		return maxSplits
	}
	return fewParts
}

// megakernelGrid is the grid of the megakernel for a context that is cut into so many parts. It needs
// a MoE model with 16-bit weights on one GPU of compute capability 8.0 or newer with enough shared
// memory. Every block computes some of experts_gate_up, because the blocks infer from its packets how
// far the others are (moe_megakernel_state.cuh).
func (s *shape) megakernelGrid(p *cuda.Properties, sms, parts int) megakernelGrid {
	if s.experts == 0 || s.quant != Unquantized || s.ranks > 1 || s.outputNorm || p.Major < 8 {
		return megakernelGrid{}
	}
	g := megakernelGrid{blocks: min(sms, s.topK*s.inner/8), stages: stepRing, prefetched: stepPrefetched}
	for g.stages >= multiplyWarps && s.megakernelShared(g)+staticSharedStep > p.SharedOptIn {
		if g.stages -= multiplyWarps; g.prefetched > g.stages/2 {
			g.prefetched = g.stages / 2
		}
	}
	if g.share = s.shareOf(min(parts, g.blocks/s.kvHeads)); g.share < 0 || g.stages < multiplyWarps {
		return megakernelGrid{}
	}
	return g
}

// megakernelDefines are the sizes that the megakernel is compiled for, so that it divides by
// constants. With sizes as arguments it took an eighth longer (docs/log/native-experiments.md).
func (s *shape) megakernelDefines() []string {
	g := s.megakernel
	if g.blocks == 0 {
		return nil
	}
	return []string{fmt.Sprintf("STEP_SHAPE=%d,%d,%d,%d,%d,%d,%d,%d,%d,%d,%d,%d", s.attWidth(), s.hidden, s.inner, s.experts, s.topK,
		map[bool]int{true: 1}[s.normalized], s.qkvWidth(), s.kvHeads, g.stages, g.prefetched, g.blocks, g.share)}
}

// usesMegakernel reports whether the engine's decode step is the megakernel. Its blocks wait for each
// other, so each needs a multiprocessor.
func (e *Engine) usesMegakernel() bool { return e.megakernelPlan != nil }

// planMegakernel returns how the megakernel is launched, or nil if it is not used.
func (e *Engine) planMegakernel() *megakernelPlan {
	sh := &e.shape
	if sh.megakernel.blocks == 0 || e.stepGEMM() == nil || e.opt.Batch > engine.PersistentRow || e.opt.unfused || e.opt.sms > e.dev.SMs {
		return nil
	}
	return &megakernelPlan{megakernelGrid: sh.megakernel, whole: sh.vocab%8 == 0 && e.headGEMM() != nil}
}

// shareOf is the smallest slice of a head's output, as a power of 2, with which so many blocks make
// all of it; -1 if there are too few blocks.
func (s *shape) shareOf(blocks int) int {
	values := s.heads / s.kvHeads * s.headDim
	for share := 2; 1<<share <= values; share++ {
		if values%(1<<share) == 0 && values>>share <= blocks {
			return share
		}
	}
	return -1
}

// megakernelPacketBytes is the size of all packets: queries, keys and values of a layer; partial
// results of each head with maxima and sums; the output of attention; the normed stream and its sums
// of squares, after both blocks; the experts' activations; the router's scores; the best scores of the
// vocabulary.
func (s *shape) megakernelPacketBytes(sms int) int {
	group := s.heads / s.kvHeads
	return llBytes * (s.qkvWidth() + s.kvHeads*maxSplits*(group*s.headDim+2*max(maxSplits, group)) + s.attWidth()/2 +
		2*streamCopies*(s.hidden/2+s.hidden/16) + s.topK*s.inner/2 + scoreCopies*s.experts + 1 + 2*sms)
}

// widestGathered is the most 16-bit values that a block gathers at a time: a head's queries with the
// new key and value, or the partial results of its output; the output of attention; the normed stream,
// in a copy for each of the eight warps that gather the same 512 columns for qkv_proj; the experts'
// activations.
func (s *shape) widestGathered() int {
	group := s.heads / s.kvHeads
	head := 2*(group*s.headDim+max(2*s.headDim, 2*max(maxSplits, group))) + 2*group*(s.headDim+8)
	stages := (s.hidden + 511) / 512
	copies := 8 / min(8, stages&-stages) // Warp w has every eighth stage of a row of units.
	return (max(head, s.attWidth(), s.hidden*copies, s.topK*s.inner) + 7) / 8 * 8
}

// megakernelTiles is the memory of the tiles that attention's warps copy.
func (s *shape) megakernelTiles() int {
	const warps, tile = 4, 16
	keys := 256 / s.headDim
	return warps * (keys + min(keys, 2)) * tile * s.headDim * 2
}

// megakernelShared is a block's dynamic shared memory: the ring; the prefetched stages, or attention's
// tiles in their place; gathered values, a row of the router and the norms of queries and keys; the
// stream and two alternating sets of norm weights of the block's outputs; the table; the sums of its
// stages of qkv_proj.
func (s *shape) megakernelShared(g megakernelGrid) int {
	tiles := (s.hidden/16 + g.blocks - 1) / g.blocks
	units := (s.qkvWidth()/8 + g.blocks - 1) / g.blocks
	ring := g.stages*stepStage + max(g.prefetched*stepStage, s.megakernelTiles())
	return ring + 2*(s.widestGathered()+s.hidden+2*s.headDim) + tiles*(128+64) + 8*stepLayerWords*s.layers +
		4*(s.hidden/16+3) + 32*units*((s.hidden+511)/512)
}

func (e *Engine) layerTable() []uint64 {
	var out []uint64
	for i := range e.w.layers {
		w := &e.w.layers[i]
		next := e.w.norm
		if i+1 < len(e.w.layers) {
			next = e.w.layers[i+1].attNorm
		}
		k, v := e.b.layerCache(&e.shape, i, 0)
		for _, p := range []cuda.Ptr{w.qkv, w.bias, w.qNorm, w.kNorm, w.o, w.mlpNorm, w.router, w.gateUp, w.down, next, e.frequencies(i), k, v} {
			out = append(out, uint64(p))
		}
		out = append(out, uint64(e.b.layers[i].capacity))
	}
	return out
}

// stepMegakernel adds the decode step of one sequence: all layers as one kernel. Embedding, LM head
// and sampling are in the same kernel if the whole step is queued at once, and separate kernels
// otherwise.
func (e *Engine) stepMegakernel(s *sequence) {
	includes := append([]string{"input_layernorm", "qkv_proj"}, e.attentionNames()...)
	includes = append(includes, e.rotaryName(), "kv_write", "o_proj", "post_attention_layernorm", "router", "top_k", "experts_activation",
		"experts_down")
	e.addEmbedding(s)
	for i := range e.w.layers {
		s.add(i, func() error { return e.queueMegakernel(i, 1, false) }, "experts_gate_up", includes...)
		(*s)[len(*s)-1].together = func(n int) error { return e.queueMegakernel(i, n, false) }
	}
	e.addHead(s)
	if e.megakernelPlan.whole {
		s.atOnce(func() error { return e.queueMegakernel(0, len(e.w.layers), true) })
	}
}

// queueMegakernel queues n layers from layer i on, or the whole step.
func (e *Engine) queueMegakernel(i, n int, whole bool) error {
	sh, b, p, w := &e.shape, e.b, e.megakernelPlan, e.w
	l := cuda.Launch{
		Grid: cuda.Dim{X: p.blocks}, Block: cuda.Dim{X: 12 * 32}, // gemm_skinny.cu has eight warps that multiply and four that copy.
		Shared: sh.megakernelShared(p.megakernelGrid), Early: !whole, Together: true,
	}
	embedding, head := cuda.Ptr(0), cuda.Ptr(0)
	if whole {
		embedding, head = w.embedding, w.head
	}
	return e.p.moe.megakernel.Queue(e.s, l, b.layerTable.Add(8*stepLayerWords*i), int32(n), int32(sh.vocab), int32(sh.widestGathered()),
		sh.eps, sh.scale(),
		b.positions, b.x, b.h, b.squares, b.stepPackets, b.stepEpochs, embedding, w.layers[0].attNorm, head, b.logits, b.nextToken, e.next.Ptr())
}
