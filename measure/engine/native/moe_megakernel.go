package native

import (
	"fmt"

	"llmprof/measure/engine/native/cuda"
)

// What moe_step.cu repeats: bytes of a stage, 64-bit words of a layer in its table, and the
// copies in which it posts the normed stream and the scores.
const (
	stepStage      = 16*256*2 + 64
	stepLayerWords = 14
	streamCopies   = 4
	scoreCopies    = 16
)

// besideStep is what a block has of static shared memory, or a little more.
const staticSharedStep = 6 << 10

// The shape of the step's kernel that was fastest on an H200: stages of the ring, and of
// those held apart for the next layer; parts of a head's context, of caches of less than
// manyTokens and of longer ones (with 16 parts and 32 2.252 and 2.276 ms at a context of 4096
// tokens, 2.387 and 2.348 at 8192, 2.678 and 2.554 at 16384).
const (
	stepRing, stepPrefetched = 16, 6
	fewParts                 = 16
	manyTokens               = 8192
)

// A stepGrid is what the kernel of a mixture's step is compiled for beside the model's shape; no
// blocks where there is none.
type megakernelGrid struct {
	blocks             int
	stages, prefetched int
	share              int // values of a head's output that a block makes, as a power of 2
}

// A stepPlan is how the kernel of a mixture's step is launched.
type megakernelPlan struct {
	megakernelGrid
	whole bool // embedding, LM head and choice of the token are in it too
}

// stepParts are those of a head's context.
func (o *Options) stepParts() int {
	switch {
	case o.splits > 0:
		return o.splits
	case o.PromptLen+o.GenLen-1 >= manyTokens:
		return maxSplits
	}
	return fewParts
}

// gridOfStep is that of one kernel for all layers, in the step of one sequence whose context is cut into so many
// parts: of a mixture of 16-bit weights that one GPU has, of 8.0 or newer, where it finds room.
// Each block has some of the experts' first product, by which they know how far the others are (moe_step.cu).
func (s *shape) megakernelGrid(p *cuda.Properties, sms, parts int) megakernelGrid {
	if s.experts == 0 || s.quant != Unquantized || s.ranks > 1 || s.sandwich || p.Major < 8 {
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

// stepDefines are what the step's kernel is compiled with, so that it divides by constants: as arguments
// they made it take an eighth longer (docs/log/native-experiments.md).
func (s *shape) megakernelDefines() []string {
	g := s.megakernel
	if g.blocks == 0 {
		return nil
	}
	return []string{fmt.Sprintf("STEP_SHAPE=%d,%d,%d,%d,%d,%d,%d,%d,%d,%d,%d,%d", s.attWidth(), s.hidden, s.inner, s.experts, s.topK,
		map[bool]int{true: 1}[s.normalized], s.qkvWidth(), s.kvHeads, g.stages, g.prefetched, g.blocks, g.share)}
}

// fusesStep reports whether the engine's step is done so: its blocks wait for each other,
// so each has to have a multiprocessor, and the memory there.
func (e *Engine) usesMegakernel() bool { return e.megakernelPlan != nil }

// planStep is how the step's kernel is launched, nil if it is not.
func (e *Engine) planMegakernel() *megakernelPlan {
	sh := &e.shape
	if sh.megakernel.blocks == 0 || e.stepGEMM() == nil || e.opt.Batch != 1 || e.opt.unfused || e.opt.sms > e.dev.SMs {
		return nil
	}
	return &megakernelPlan{megakernelGrid: sh.megakernel, whole: sh.vocab%8 == 0 && e.opt.headGEMM(e.p.gemms) != nil}
}

// shareOf is the least share of a head's output, as a power of 2, that so many blocks make
// together; -1 if there are too few.
func (s *shape) shareOf(blocks int) int {
	values := s.heads / s.kvHeads * s.headDim
	for share := 2; 1<<share <= values; share++ {
		if values%(1<<share) == 0 && values>>share <= blocks {
			return share
		}
	}
	return -1
}

// postedInStep are the bytes of what blocks of a step's kernel post to each other: of a
// layer queries, keys and values; the parts of each head's output, with peaks and sums;
// all of that output; twice the normed stream and the sums of its squares; the experts'
// activations; the scores.
func (s *shape) megakernelPacketBytes(sms int) int {
	group := s.heads / s.kvHeads
	return llBytes * (s.qkvWidth() + s.kvHeads*maxSplits*(group*s.headDim+2*max(maxSplits, group)) + s.attWidth()/2 +
		2*streamCopies*(s.hidden/2+s.hidden/16) + s.topK*s.inner/2 + scoreCopies*s.experts + 1 + 2*sms)
}

// widestGathered is the most values of 16 bits that a block gathers: a head's queries with
// the new key and value, or the parts of its output; the attention's output; a norm's, for
// each of the eight warps that gather the same 512 columns of it ahead of qkv_proj; the
// experts' activations.
func (s *shape) widestGathered() int {
	group := s.heads / s.kvHeads
	head := 2*(group*s.headDim+max(2*s.headDim, 2*max(maxSplits, group))) + 2*group*(s.headDim+8)
	stages := (s.hidden + 511) / 512
	copies := 8 / min(8, stages&-stages) // warp w has every eighth stage of a row of units
	return (max(head, s.attWidth(), s.hidden*copies, s.topK*s.inner) + 7) / 8 * 8
}

// stepTiles is the memory of the tiles that attention's warps copy in the step's kernel.
func (s *shape) megakernelTiles() int {
	const warps, tile = 4, 16
	keys := 256 / s.headDim
	return warps * (keys + min(keys, 2)) * tile * s.headDim * 2
}

// stepShared is a block's dynamic shared memory: the ring and what is held, or attention's
// tiles in its place; what is gathered, a row of the router and the norms of queries and keys; the
// stream and two norms' weights, twice, of the block's outputs; the table; sums of its
// stages of qkv.
func (s *shape) megakernelShared(g megakernelGrid) int {
	tiles := (s.hidden/16 + g.blocks - 1) / g.blocks
	units := (s.qkvWidth()/8 + g.blocks - 1) / g.blocks
	ring := g.stages*stepStage + max(g.prefetched*stepStage, s.megakernelTiles())
	return ring + 2*(s.widestGathered()+s.hidden+2*s.headDim) + tiles*(128+64) + 8*stepLayerWords*s.layers + 4*(s.hidden/16+3) + 32*units*((s.hidden+511)/512)
}

// stepTable is what the kernel has to know of each layer.
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

// stepMixture adds all layers of the step of one sequence as one kernel, and what is ahead of
// them and behind them, which is within the same kernel where all of it is queued together.
func (e *Engine) stepMegakernel(s *sequence) {
	includes := append([]string{"input_layernorm", "qkv_proj"}, e.attentionNames()...)
	includes = append(includes, e.rotaryName(), "kv_write", "o_proj", "post_attention_layernorm", "router", "top_k", "experts_activation", "experts_down")
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

// queueMixtureStep queues n layers from layer i on, or the whole step.
func (e *Engine) queueMegakernel(i, n int, whole bool) error {
	sh, b, p, w := &e.shape, e.b, e.megakernelPlan, e.w
	l := cuda.Launch{
		Grid: cuda.Dim{X: p.blocks}, Block: cuda.Dim{X: 12 * 32}, // gemm_skinny.cu: eight warps that multiply, four that copy
		Shared: sh.megakernelShared(p.megakernelGrid), Early: !whole, Together: true,
	}
	embedding, head := cuda.Ptr(0), cuda.Ptr(0)
	if whole {
		embedding, head = w.embedding, w.head
	}
	return e.p.moe.megakernel.Queue(e.s, l, b.layerTable.Add(8*stepLayerWords*i), int32(n), int32(sh.vocab), int32(sh.widestGathered()), sh.eps, sh.scale(),
		b.positions, b.x, b.h, b.squares, b.stepPackets, b.stepEpochs, embedding, w.layers[0].attNorm, head, b.logits, b.nextToken, e.next.Ptr())
}
