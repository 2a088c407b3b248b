package native

import (
	"fmt"

	"llmprof/analytic/engine"
	"llmprof/measure/native/cuda"
)

// An expertRing has the shapes of the rings that the experts' weights stream through in a decode step
// (moe_decode.cu), with up to rows pairs of one expert at a time: columns and stages of the rings of
// experts_gate_up and of experts_down.
type expertRing struct {
	rows                  int
	gateDepth, gateStages int
	downDepth, downStages int

	gateUp, down *cuda.Kernel
}

// expertRings are the rings that were fastest on an H200. As with the skinny GEMM, two blocks of
// experts_down do not fit on a multiprocessor, and one of experts_gate_up fits beside it.
func expertRings() []expertRing {
	return []expertRing{
		{rows: 1, gateDepth: 512, gateStages: 4, downDepth: 256, downStages: 12},
		{rows: 8, gateDepth: 256, gateStages: 8, downDepth: 256, downStages: 8},
	}
}

// maxDecodeTokens is the most tokens that the MoE decode kernels take.
const maxDecodeTokens = engine.MoEDecodeRows

// pairsOfGroup repeats GROUP_PAIRS of moe_decode.cu.
const pairsOfGroup = engine.GroupPairs

// copyWarps repeats PRODUCERS of gemm_skinny.cu. Each warp fills its own stages.
const copyWarps = 4

// multiplyWarps repeats CONSUMERS of gemm_skinny.cu. If each warp takes every eighth stage of a ring
// by itself, the number of stages is a multiple of eight: a slot then always belongs to the same warp,
// and no other warp can be a round ahead in it.
const multiplyWarps = 8

// redPitch repeats RED_PITCH of gemm_skinny.cu, the floats that 16 sums of a warp take.
const redPitch = 20

func (r *expertRing) stage(depth int) int { return (16 + r.rows) * (depth*2 + 64) }

// groups is the most groups of pairs that a step of so many tokens has.
func (r *expertRing) groups(m *moeShape, tokens int) int {
	if r.rows == 1 {
		return m.topK
	}
	return m.maxTiles(tokens*m.topK, pairsOfGroup)
}

// gateShared and downShared are the dynamic shared memory of a block: the ring, the groups, and norms
// or sums of the tokens.
func (r *expertRing) gateShared(m *moeShape, tokens int) int {
	return r.gateStages*r.stage(r.gateDepth) + 4*(r.groups(m, tokens)*r.list(1)+tokens)
}

func (r *expertRing) downShared(m *moeShape, tokens int) int {
	return r.downStages*r.stage(r.downDepth) + 4*(r.groups(m, tokens)*r.list(2)+8*tokens*redPitch)
}

// list is the words of a group: its expert, and some words for each pair.
func (r *expertRing) list(each int) int {
	if r.rows == 1 {
		return 2
	}
	return 1 + each*pairsOfGroup
}

// staticSharedGateUp and staticSharedDown are upper bounds of a block's static shared memory. That of
// experts_gate_up includes the sums of its warps.
const staticSharedGateUp, staticSharedDown = 12 << 10, 2 << 10

// fit shortens rings to the shared memory that a block can have, for a batch of 16 at least.
func (m *moeShape) fit(rings []expertRing, memory int) []expertRing {
	for i := range rings {
		r := &rings[i]
		tokens := 1
		if r.rows > 1 {
			tokens = 16
		}
		for r.gateStages > 2 && r.gateShared(m, tokens) > memory-staticSharedGateUp {
			r.gateStages = fewer(r.gateStages)
		}
		for r.downStages > 2 && r.downShared(m, tokens) > memory-staticSharedDown {
			r.downStages = fewer(r.downStages)
		}
	}
	return rings
}

// fewer is the next smaller number of stages that the copying warps share evenly, or 2.
func fewer(stages int) int {
	if stages > copyWarps {
		return stages - copyWarps
	}
	return 2
}

// fitsDecodeRings reports whether the MoE decode kernels take so many tokens at once.
func (e *Engine) fitsDecodeRings(tokens int) bool {
	r, m, memory := e.p.expertRingOf(tokens), &e.shape.moeShape, e.dev.SharedOptIn
	return tokens <= maxDecodeTokens && r.gateShared(m, tokens) <= memory-staticSharedGateUp &&
		r.downShared(m, tokens) <= memory-staticSharedDown
}

// expertDefines are the rings as the kernels are compiled with them.
func (s *shape) expertDefines(memory int) (out []string) {
	if s.experts == 0 {
		return nil
	}
	for _, r := range s.fit(expertRings(), memory) {
		out = append(out, fmt.Sprintf("EXPERTS_%d=%d,%d,%d,%d", r.rows, r.gateDepth, r.gateStages, r.downDepth, r.downStages))
	}
	return out
}

// expertLaunch is the launch of a MoE decode kernel, with one block a multiprocessor.
func (e *Engine) expertLaunch(shared int) cuda.Launch {
	const threads = 12 * 32 // gemm_skinny.cu has eight warps that multiply and four that copy.
	return cuda.Launch{Grid: cuda.Dim{X: e.opt.sms}, Block: cuda.Dim{X: threads}, Shared: shared, Early: true}
}

func (p *program) expertRingOf(tokens int) *expertRing {
	if tokens == 1 {
		return &p.moe.rings[0]
	}
	return &p.moe.rings[1]
}

// queueChoice queues the choice of the experts of rows tokens, and the groups of their pairs.
func (e *Engine) queueChoice(rows int, early bool) error {
	if rows == 1 {
		return e.queueTopK(rows, early)
	}
	sh, b := &e.shape, e.b
	l := cuda.Launch{Grid: cuda.Dim{X: rows}, Block: cuda.Dim{X: 256}, Early: early}
	normalized := map[bool]int32{true: 1}[sh.normalized]
	return e.p.moe.choose.Queue(e.s, l, b.router, int32(sh.experts), int32(sh.topK), normalized, b.chosen, b.shares, b.order, b.tiles,
		b.routed)
}

// queueExpertsGateUp queues experts_gate_up of rows tokens. Its prologue is the norm if squares is
// given.
func (e *Engine) queueExpertsGateUp(w *layerWeights, rows int, squares cuda.Ptr) error {
	sh, b, r := &e.shape, e.b, e.p.expertRingOf(rows)
	return r.gateUp.Queue(e.s, e.expertLaunch(r.gateShared(&sh.moeShape, rows)), w.gateUp, b.h, squares, b.chosen, b.order, b.tiles,
		int32(sh.hidden), int32(sh.inner), int32(sh.topK), int32(rows), int32(r.groups(&sh.moeShape, rows)), sh.eps, b.act)
}

// queueExpertsDown queues experts_down, which adds to the stream; next is the weights of the norm that
// follows, 0 if that norm has a kernel of its own.
func (e *Engine) queueExpertsDown(w *layerWeights, rows int, next cuda.Ptr) error {
	sh, b, r := &e.shape, e.b, e.p.expertRingOf(rows)
	return r.down.Queue(e.s, e.expertLaunch(r.downShared(&sh.moeShape, rows)), w.down, b.act, b.chosen, b.shares, b.order, b.tiles,
		int32(sh.hidden), int32(sh.inner), int32(sh.topK), int32(rows), int32(r.groups(&sh.moeShape, rows)), e.blockOut(feedForward), b.h,
		b.squares, next)
}

// quantizedMoEKernels are the kernels of moe_quantized.cu; they are nil if experts have 16-bit
// weights.
type quantizedMoEKernels struct{ gateUp, down *cuda.Kernel }

func (m *quantizedMoEKernels) names() map[string]**cuda.Kernel {
	return map[string]**cuda.Kernel{"experts_gate_up_quantized": &m.gateUp, "experts_down_quantized": &m.down}
}

func (e *Engine) stepQuantizedExperts(s *sequence, i int, next cuda.Ptr) {
	sh, b, w, n := &e.shape, e.b, &e.w.layers[i], e.opt.Batch
	experts, hidden, inner, top := int32(sh.experts), int32(sh.hidden), int32(sh.inner), int32(sh.topK)
	if gemm := e.headGEMM(); gemm != nil { // The router has 16-bit weights.
		s.add(i, func() error { return e.queueScores(gemm, b.router, w.router, sh.experts) }, "router", "post_attention_layernorm")
	} else {
		s.add(i, func() error { return e.queueNorm(w.mlpNorm, b.lastH, n, 1, 0) }, "post_attention_layernorm")
		s.add(i, func() error { return e.gemm(b.router, b.lastH, w.router, e.routerKey(n)) }, "router")
	}
	s.add(i, func() error { return e.queueTopK(n, true) }, "top_k")
	s.add(i, func() error {
		l, q := cuda.Launch{Grid: cuda.Dim{X: n * sh.topK, Y: (sh.inner + 7) / 8}, Block: cuda.Dim{X: 256}, Early: true}, e.w.quantized[w.gateUp]
		return e.p.moe.quantized.gateUp.Queue(e.s, l, w.gateUp, q.scales, q.zeros, b.h, b.squares, b.chosen, experts, hidden, inner, top, sh.eps,
			b.act)
	}, "experts_gate_up", "experts_activation")
	s.add(i, func() error {
		l, q := cuda.Launch{Grid: cuda.Dim{X: n, Y: sh.hidden / 16}, Block: cuda.Dim{X: 512}, Early: true}, e.w.quantized[w.down]
		return e.p.moe.quantized.down.Queue(e.s, l, w.down, q.scales, q.zeros, b.act, b.chosen, b.shares, experts, hidden, inner, top,
			e.blockOut(feedForward), b.h, b.squares, next)
	}, "experts_down")
	e.addAllReduce(s, i, n, outGEMM{block: feedForward, next: next})
}
