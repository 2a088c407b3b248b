package native

import (
	"cmp"
	"fmt"
	"slices"

	"llmprof/analytic/engine"
	"llmprof/measure/native/cuda"
)

// gemmKernels are the engine's GEMM kernels of a decode step for batches up to rows, with the shapes
// of the rings in shared memory that their weights stream through: the skinny GEMM (gemm_skinny.cu),
// the GEMM of quantized weights (gemm_quantized.cu) or the wgmma GEMM (gemm_wgmma.cu).
type gemmKernels struct {
	quant         Quantization
	wgmma         wgmmaRings // The wgmma GEMM has these rings and uses no other.
	rows          int        // the largest batch
	columns       int        // the batch in groups of 8, the columns of an mma
	tiles         int        // units of 16 weight rows in a stage
	depth         int        // columns of the weights in a stage
	stages        int
	swigluRing    ring // The ring of GEMMs with the SwiGLU epilogue; the default ring if it has no tiles.
	residualRing  ring // The ring of GEMMs with the residual epilogue; it has the default tiles if it names none.
	minStages     int  // A part of a GEMM that is cut by split-K has at least so many stages.
	rowWarps      int  // warps side by side that have different rows, of quantized weights
	warps         int  // warps that multiply; 0 is 8
	half          halfTiles
	halved        bool // The ring is that of half tiles.
	normGEMM      *cuda.Kernel
	headGEMM      *cuda.Kernel // The wgmma GEMM has a kernel of its own for the LM head.
	residualGEMM  *cuda.Kernel
	swigluGEMM    *cuda.Kernel
	plainGEMM     *cuda.Kernel // nil if the model does not need it
	allReduceGEMM *cuda.Kernel // GEMM with fused all-reduce; nil if fusesAllReduce is always false
}

// halfTiles are the ring of GEMMs whose tiles have 8 rows. They balance the multiprocessors better
// where each has few rows: over 132 multiprocessors, 3072 rows are up to 32 rows by tiles of 16, and
// up to 24 by tiles of 8.
type halfTiles struct {
	tiles, depth, stages int // 0 if there is no such kernel
	kernel               *cuda.Kernel
}

// halve returns the ring of half tiles for a GEMM with out outputs, or nil unless the busiest
// multiprocessor then has at least an eighth less to do.
func (l *gemmKernels) halve(out, sms int) *gemmKernels {
	if l.half.kernel == nil {
		return nil
	}
	busiest := func(tile int) int { return ((out+tile-1)/tile + sms - 1) / sms * tile }
	if tile := l.outputs(storeEpilogue); out <= sms*tile/2 || 8*busiest(tile/2) > 7*busiest(tile) {
		return nil
	}
	return l.asHalves()
}

// asHalves returns the ring of half tiles.
func (l *gemmKernels) asHalves() *gemmKernels {
	h := *l
	h.halved, h.tiles, h.depth, h.stages, h.normGEMM = true, l.half.tiles, l.half.depth, l.half.stages, l.half.kernel
	return &h
}

// An epilogue is what a GEMM kernel does with its sums before it writes them. Each epilogue has a
// ring.
type epilogue int

const (
	storeEpilogue    epilogue = iota // RMSNorm of the inputs as a prologue, and a plain store
	swigluEpilogue                   // RMSNorm of the inputs as a prologue, and SwiGLU of gate and up
	residualEpilogue                 // The sums are added to the residual stream.
)

// A ring is a ring buffer of stages in shared memory, each of so many tiles of 16 weight rows by depth
// columns.
type ring struct {
	tiles, stages int
	depth         int // columns; 0 is the depth of the default ring
	room          int // A block requests at least so many bytes of shared memory.
}

func (l *gemmKernels) of(u epilogue) ring {
	r := ring{tiles: l.tiles, stages: l.stages}
	switch {
	case u == residualEpilogue:
		r = l.residualRing
	case u == swigluEpilogue && l.swigluRing.tiles > 0:
		r = l.swigluRing
	}
	r.tiles, r.depth = cmp.Or(r.tiles, l.tiles), cmp.Or(r.depth, l.depth)
	return r
}

// shared is the dynamic shared memory of a block with a ring.
func (l *gemmKernels) shared(r ring) int {
	if l.quant == Unquantized {
		return max(r.room, r.stages*(l.rows+l.outputs(storeEpilogue)*r.tiles)*r.depth*2)
	}
	stage := l.rows*r.depth*2 + 16*r.tiles*r.depth*int(l.quant)/8
	if l.quant == INT4 { // A stage has scales and zero points too.
		stage += r.depth / groupInputs * 16 * r.tiles * 5 / 2
	}
	return max(r.room, r.stages*((stage+127)/128*128))
}

// A splitK says how one GEMM is divided: into tiles of weight rows, and each tile along its columns
// into parts. The blocks, one a multiprocessor, share the tiles evenly (gemm_skinny.cu). If the tiles
// occupy half of the multiprocessors or fewer, there are as many parts as there are multiprocessors
// for, each with so many stages that its sums, which are written and read once more, are a sixteenth
// of its weights or less.
type splitK struct{ tiles, parts int }

// splitKFor is how a GEMM with out outputs and in inputs is divided.
func (l *gemmKernels) splitKFor(out, in int, u epilogue, sms int) splitK {
	tile, r := l.outputs(u), l.of(u)
	c := splitK{tiles: (out + tile - 1) / tile, parts: 1}
	whole, cuts := 1, c.tiles // whole tiles are cut together, and there are so many cuts.
	if l.quant != Unquantized {
		whole, cuts = r.tiles, (c.tiles+r.tiles-1)/r.tiles
	}
	stages := (in + r.depth - 1) / r.depth
	if parts := min(sms/cuts, stages/l.minStages); !l.isWgmma() && parts > 1 && whole <= parts*((c.tiles+sms-1)/sms) {
		c = splitK{tiles: cuts, parts: parts}
	}
	return c
}

// scratch is the memory that the parts of a step's GEMMs need at once: bytes of sums, and counters.
func (l *gemmKernels) scratch(s *shape, sms int) (sums, counters int) {
	cuts := []splitK{
		l.splitKFor(s.qkvWidth(), s.hidden, storeEpilogue, sms), l.splitKFor(s.hidden, s.attWidth(), residualEpilogue, sms),
		l.splitKFor(s.inner, s.hidden, swigluEpilogue, sms), l.splitKFor(s.hidden, s.inner, residualEpilogue, sms),
		l.splitKFor(s.tokens, s.hidden, storeEpilogue, sms),
	}
	if s.experts > 0 {
		cuts = append(cuts, l.splitKFor(s.experts, s.hidden, storeEpilogue, sms)) // The router is such a GEMM.
	}
	for _, c := range cuts {
		if c.parts > 1 {
			sums, counters = max(sums, c.tiles*c.parts*l.sums()), max(counters, c.tiles)
		}
	}
	return sums, counters
}

// halvable reports whether the warps can share half of the columns of a stage, in units of 64 bytes
// and whole rows of 128.
func (l *gemmKernels) halvable() bool {
	unit := 512 / int(l.quant)
	return l.depth%(2*unit*l.consumers()/l.rowWarps) == 0 && l.depth%(4*unit) == 0
}

// consumers is how many warps of a block multiply.
func (l *gemmKernels) consumers() int { return cmp.Or(l.warps, 8) }

// producers is how many warps of a block copy.
func (l *gemmKernels) producers() int {
	if l.consumers() > 8 {
		return 2
	}
	return 4
}

// outputs is how many rows of the result one unit makes; gate and up together make half as many.
func (l *gemmKernels) outputs(u epilogue) int {
	rows := 16
	if l.halved {
		rows = 8
	}
	if u == swigluEpilogue {
		rows /= 2
	}
	return rows
}

func (l *gemmKernels) sums() int {
	bytes := 4 * 16 * 8 * l.columns
	if l.quant != Unquantized {
		bytes *= max(l.tiles, l.of(swigluEpilogue).tiles, l.of(residualEpilogue).tiles)
	}
	return bytes
}

// skinnyGEMMs are the rings that were fastest on an H200. A multiprocessor has room for blocks of two
// GEMMs, so that one can fill its ring while the other still runs, but not for two blocks with the
// residual epilogue. Every other GEMM of a layer has that epilogue, so the blocks of each GEMM lie one
// on a multiprocessor, even if attention leaves multiprocessors free. At batch 9 to 16 gate_up_proj
// has a multiprocessor for itself and a ring twice as long: a step of llama3.1-8b at batch 16 took
// 4.575 ms, before that 4.607 and 4.626 (docs/log/native-experiments.md).
func skinnyGEMMs() []gemmKernels {
	return []gemmKernels{
		{rows: 1, columns: 1, tiles: 1, depth: 512, stages: 5, residualRing: ring{tiles: 2, depth: 256, stages: 7}, minStages: 8,
			half: halfTiles{tiles: 3, depth: 256, stages: 7}},
		{rows: 8, columns: 1, tiles: 3, depth: 256, stages: 3, swigluRing: ring{tiles: 2, stages: 4}, residualRing: ring{tiles: 2, stages: 6},
			minStages: 8, half: halfTiles{tiles: 3, depth: 256, stages: 5}},
		{rows: engine.SkinnyRows, columns: 2, tiles: 3, depth: 256, stages: 3, swigluRing: ring{tiles: 2, stages: 8},
			residualRing: ring{tiles: 2, stages: 4}, minStages: 8},
	}
}

// fewGated reports whether a rank's part of gate_up_proj is at most four tiles of 16 rows for each
// multiprocessor. A stage then has two tiles of half as many columns: over four H200s a step of
// llama3.1-8b took 1.449 ms with it and 1.461 without at batch 1. Over two GPUs, with seven tiles, it
// took 2.304 with it and 2.255 without (docs/log/native-experiments.md).
func (s *shape) fewGated(sms int) bool { return s.ranks > 1 && s.experts == 0 && 2*s.inner <= 4*16*sms }

// fitted shortens rings to the shared memory that a block can have. GPUs of compute capability 8.6,
// 8.9 and 12.0 have 99 KiB, less than half of Hopper's. A shorter ring has fewer copies in flight and
// computes the same.
func fitted(linear []gemmKernels, memory int) []gemmKernels {
	out := slices.Clone(linear)
	for i := range out {
		l := &out[i]
		if l.isWgmma() {
			continue
		}
		for l.quant != Unquantized && l.halvable() {
			if _, stages := l.fit(l.of(residualEpilogue), memory); stages >= 2 {
				break
			}
			l.depth /= 2
		}
		l.tiles, l.stages = l.fit(l.of(storeEpilogue), memory)
		l.residualRing.tiles, l.residualRing.stages = l.fit(l.of(residualEpilogue), memory)
		if r := l.of(residualEpilogue); oneBlockPerSM-l.staticShared(r) <= memory-l.staticShared(r) {
			l.residualRing.room = oneBlockPerSM - l.staticShared(r)
		}
		l.swigluRing.tiles, l.swigluRing.stages = l.fit(l.of(swigluEpilogue), memory)
		if h := l.asHalves(); h.stages > 0 {
			l.half.tiles, l.half.stages = h.fit(h.of(storeEpilogue), memory)
		}
	}
	return out
}

// oneBlockPerSM is how many bytes of shared memory a block has to take so that no two fit on a
// multiprocessor of Hopper. It has 228 KiB, of which each block costs 1.
const oneBlockPerSM = 114<<10 + 128

// fit is a ring of no more stages than there is memory for, and of fewer tiles if two stages do not
// fit. Warps share a tile of quantized weights evenly, so all GEMMs have the same tiles there.
func (l *gemmKernels) fit(r ring, memory int) (tiles, stages int) {
	for l.quant == Unquantized && r.tiles > 1 && l.shared(ring{tiles: r.tiles, stages: 2, depth: r.depth})+l.staticShared(r) > memory {
		r.tiles--
	}
	return r.tiles, min(r.stages, (memory-l.staticShared(r))/l.shared(ring{tiles: r.tiles, stages: 1, depth: r.depth}))
}

// staticShared is an upper bound of a block's static shared memory beside its ring: the sums of its
// warps, their scales and the barriers (gemm_skinny.cu).
func (l *gemmKernels) staticShared(r ring) int {
	const warp = 4 * 20 * 8 // bytes of the sums of 16 rows by 8 sequences
	switch n := r.tiles * l.columns; {
	case l.quant != Unquantized:
		slices := l.consumers() / l.rowWarps
		if l.rows == 1 { // Each warp has one column of sums, in two buffers.
			return 1<<10 + 2*(slices*80+64)*r.tiles
		}
		if slices > 1 && slices*n > 8 {
			slices /= 2
		}
		return 1<<10 + slices*warp*n + 64*r.tiles
	case n <= 2:
		return 1<<10 + 8*warp*n
	default:
		return 1<<10 + 4*warp*n
	}
}

func (l *gemmKernels) launch(c splitK, sms int, r ring) cuda.Launch {
	threads := (l.consumers() + l.producers()) * 32
	return cuda.Launch{Grid: cuda.Dim{X: min(c.tiles*c.parts, sms)}, Block: cuda.Dim{X: threads}, Shared: l.shared(r), Early: true}
}

func (l *gemmKernels) names(s *shape, to map[string]**cuda.Kernel) {
	if l.isWgmma() {
		l.wgmmaNames(s, to)
		return
	}
	first := "skinny"
	if l.quant != Unquantized {
		first = "quantized"
	}
	if s.outputNorm || s.ranks > 1 {
		to[fmt.Sprintf("%s_plain_%d", first, l.rows)] = &l.plainGEMM
	}
	if s.ranks > 1 && l.quant == Unquantized {
		to[fmt.Sprintf("%s_all_reduce_%d", first, l.rows)] = &l.allReduceGEMM
		if l.half.stages > 0 {
			to[fmt.Sprintf("%s_half_%d", first, l.rows)] = &l.half.kernel
		}
	}
	to[fmt.Sprintf("%s_norm_%d", first, l.rows)] = &l.normGEMM
	to[fmt.Sprintf("%s_residual_%d", first, l.rows)] = &l.residualGEMM
	to[fmt.Sprintf("%s_swiglu_%d", first, l.rows)] = &l.swigluGEMM
}

// gemmFor returns the kernels for a batch and a quantization, or nil if cuBLASLt does the GEMMs.
func gemmFor(linear []gemmKernels, quant Quantization, batch int) *gemmKernels {
	for i := range linear {
		if linear[i].quant == quant && batch <= linear[i].rows {
			return &linear[i]
		}
	}
	return nil
}
