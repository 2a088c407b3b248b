package native

import (
	"fmt"

	"llmprof/measure/engine/native/cuda"
)

// expertRing are the shapes of the rings that the experts' weights come through in a
// decode step (moe_decode.cu), for steps of up to rows pairs of one expert at a time:
// columns and stages of gate and up's, and of down's.
type expertRing struct {
	rows                  int
	gateDepth, gateStages int
	downDepth, downStages int

	gateUp, down *cuda.Kernel
}

// expertRings are those that were fastest on an H200. As among the products of
// gemm_skinny.cu, a block of down's has so much shared memory that two do not fit on a
// multiprocessor, and one of gate and up's fits beside it.
func expertRings() []expertRing {
	return []expertRing{
		{rows: 1, gateDepth: 512, gateStages: 4, downDepth: 256, downStages: 12},
		{rows: 8, gateDepth: 256, gateStages: 8, downDepth: 256, downStages: 8},
	}
}

// mostTokens is how many tokens the experts' products of a decode step take.
const maxDecodeTokens = 64

// pairsOfGroup repeats GROUP_PAIRS of moe_decode.cu.
const pairsOfGroup = 8

// copyWarps repeats PRODUCERS of gemm_skinny.cu: each fills stages of its own.
const copyWarps = 4

// multiplyWarps repeats CONSUMERS of gemm_skinny.cu. Where each takes every so manieth stage of a ring
// by itself, the ring has a multiple of them: a slot is always the same warp's, which no other
// can be a round ahead of.
const multiplyWarps = 8

// redPitch repeats RED_PITCH of gemm_skinny.cu, floats of 16 sums of a warp.
const redPitch = 20

// stage is the shared memory of one stage.
func (r *expertRing) stage(depth int) int { return (16 + r.rows) * (depth*2 + 64) }

// groups is how many groups of pairs a step of so many tokens has at most.
func (r *expertRing) groups(m *moeShape, tokens int) int {
	if r.rows == 1 {
		return m.topK
	}
	return m.maxTiles(tokens*m.topK, pairsOfGroup)
}

// gateShared and downShared are the dynamic shared memory of a block: the ring, the
// groups, and norms or sums of the tokens.
func (r *expertRing) gateShared(m *moeShape, tokens int) int {
	return r.gateStages*r.stage(r.gateDepth) + 4*(r.groups(m, tokens)*r.list(1)+tokens)
}

func (r *expertRing) downShared(m *moeShape, tokens int) int {
	return r.downStages*r.stage(r.downDepth) + 4*(r.groups(m, tokens)*r.list(2)+8*tokens*redPitch)
}

// list is the words of a group: its expert, and what there is of each pair.
func (r *expertRing) list(each int) int {
	if r.rows == 1 {
		return 2
	}
	return 1 + each*pairsOfGroup
}

// besideGate and besideDown are what a block has of static shared memory, or a little more: gate and up's
// for the sums of its warps.
const staticSharedGateUp, staticSharedDown = 12 << 10, 2 << 10

// fit are rings of no more stages than a block has shared memory for, with a batch of up
// to 16 at least.
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

// fewer stages are those of which each of the copying warps has as many, or of which two
// of them have one.
func fewer(stages int) int {
	if stages > copyWarps {
		return stages - copyWarps
	}
	return 2
}

// few reports whether the rings take so many tokens at once.
func (e *Engine) fitsDecodeRings(tokens int) bool {
	r, m, memory := e.p.expertRingOf(tokens), &e.shape.moeShape, e.dev.SharedOptIn
	return tokens <= maxDecodeTokens && r.gateShared(m, tokens) <= memory-staticSharedGateUp && r.downShared(m, tokens) <= memory-staticSharedDown
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

// expertLaunch is the launch of a product of experts in a decode step: a block stays
// on its multiprocessor.
func (e *Engine) expertLaunch(shared int) cuda.Launch {
	const threads = 12 * 32 // gemm_skinny.cu: eight warps that multiply, four that copy
	return cuda.Launch{Grid: cuda.Dim{X: e.opt.sms}, Block: cuda.Dim{X: threads}, Shared: shared, Early: true}
}

// expertRingOf is the ring of a step of so many tokens.
func (p *program) expertRingOf(tokens int) *expertRing {
	if tokens == 1 {
		return &p.moe.rings[0]
	}
	return &p.moe.rings[1]
}

// queueChoice queues the choice of rows tokens' experts, and the groups of their pairs.
func (e *Engine) queueChoice(rows int, early bool) error {
	if rows == 1 {
		return e.queueTopK(rows, early)
	}
	sh, b := &e.shape, e.b
	l := cuda.Launch{Grid: cuda.Dim{X: rows}, Block: cuda.Dim{X: 256}, Early: early}
	normalized := map[bool]int32{true: 1}[sh.normalized]
	return e.p.moe.choose.Queue(e.s, l, b.router, int32(sh.experts), int32(sh.topK), normalized, b.chosen, b.shares, b.order, b.tiles, b.routed)
}

// queueExpertsGateUp queues the first half of the chosen experts of rows tokens, whose
// norm is done with squares, or was done before where they are 0.
func (e *Engine) queueExpertsGateUp(w *layerWeights, rows int, squares cuda.Ptr) error {
	sh, b, r := &e.shape, e.b, e.p.expertRingOf(rows)
	return r.gateUp.Queue(e.s, e.expertLaunch(r.gateShared(&sh.moeShape, rows)), w.gateUp, b.h, squares, b.chosen, b.order, b.tiles,
		int32(sh.hidden), int32(sh.inner), int32(sh.topK), int32(rows), int32(r.groups(&sh.moeShape, rows)), sh.eps, b.act)
}

// queueExpertsDown queues the second half, which adds to the stream; next is the norm
// of what follows, 0 where that has a kernel of its own.
func (e *Engine) queueExpertsDown(w *layerWeights, rows int, next cuda.Ptr) error {
	sh, b, r := &e.shape, e.b, e.p.expertRingOf(rows)
	return r.down.Queue(e.s, e.expertLaunch(r.downShared(&sh.moeShape, rows)), w.down, b.act, b.chosen, b.shares, b.order, b.tiles,
		int32(sh.hidden), int32(sh.inner), int32(sh.topK), int32(rows), int32(r.groups(&sh.moeShape, rows)), e.blockOut(feedForward), b.h, b.squares, next)
}
