package native

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"slices"

	"llmprof/measure/engine/native/cuda"
	"llmprof/measure/engine/native/kernels"
)

// program is the compiled kernels, for one shape of attention.
type program struct {
	module                            *cuda.Module
	fillRandom, fillConstant          *cuda.Kernel
	fillRandomPart                    *cuda.Kernel
	embedding, rmsNorm, rotary        *cuda.Kernel
	activation, sampling              *cuda.Kernel
	attentionDecode, attentionPrefill *cuda.Kernel
	probeRead                         *cuda.Kernel
	allReduce, embeddingShared        *cuda.Kernel // of several ranks alone, as the next is
	samplingShared                    *cuda.Kernel
	normResidual, moveRows            *cuda.Kernel // nil where the model has no use for them
	moe                               moeKernels
	quantized                         quantizedKernels
	gemms                             []gemmKernels // of 16-bit weights, and of quantized ones
	tile                              attentionTile
	hopper                            bool // has wgmma
	older                             bool // than compute capability 8.0
	decode                            decodeAttention
}

// linearKernels are the products of decoding for batches up to rows, and
// the shape of the ring that the weights come through (gemm_skinny.cu, and
// gemm_quantized.cu for quantized ones).
type gemmKernels struct {
	quant         Quantization
	wgmma         wgmmaRings // of those of gemm_wgmma.cu, which use no other
	rows          int        // largest batch
	columns       int        // the batch in eights: mma's columns
	tiles         int        // of 16 weight rows, a stage
	depth         int        // columns of the weights, a stage
	stages        int
	swigluRing    ring // of gated products; that of the others if it has no tiles
	residualRing  ring // of products that add to the stream, with the others' tiles if it has none
	minStages     int  // stages of a part, where a tile is cut along its columns
	rowWarps      int  // warps side by side that have rows of their own, of quantized weights
	warps         int  // that multiply; 0 for 8
	half          halfTiles
	halved        bool // this is the ring of half tiles
	normGEMM      *cuda.Kernel
	headGEMM      *cuda.Kernel // of wide ones, for the LM head
	residualGEMM  *cuda.Kernel
	swigluGEMM    *cuda.Kernel
	plainGEMM     *cuda.Kernel // nil where the model has no use for it
	allReduceGEMM *cuda.Kernel // over the ranks; nil where posts never says so
}

// halfTiles are the ring of products whose tiles have 8 rows, which deal them out
// more evenly where each multiprocessor has few: on 132 of them, 3072 rows are 32 for
// some by tiles of 16, and 24 by tiles of 8.
type halfTiles struct {
	tiles, depth, stages int // 0 for no such kernel
	kernel               *cuda.Kernel
}

// halve is the ring of half tiles for a product of so many results, nil where they are
// no better: where the busiest multiprocessor has to have an eighth less to do.
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

// asHalves is the ring of half tiles.
func (l *gemmKernels) asHalves() *gemmKernels {
	h := *l
	h.halved, h.tiles, h.depth, h.stages, h.normGEMM = true, l.half.tiles, l.half.depth, l.half.stages, l.half.kernel
	return &h
}

// A use is what a product is for: it has a ring of its own.
type epilogue int

const (
	storeEpilogue    epilogue = iota // of the normed stream
	swigluEpilogue                   // the same, gate and up
	residualEpilogue                 // its sums are added to the stream
)

// A ring is stages of so many tiles of 16 weight rows by so many columns.
type ring struct {
	tiles, stages int
	depth         int // columns, 0 for those of the kernels' other rings
	room          int // bytes that a block asks for at least
}

// of is the ring of a use.
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
	if l.quant == INT4 { // scales and zero points
		stage += r.depth / groupInputs * 16 * r.tiles * 5 / 2
	}
	return max(r.room, r.stages*((stage+127)/128*128))
}

// cut is into how many tiles the weights of one product are cut, of 16 rows where they
// have 16 bits, and each of them along its columns. The blocks, one a multiprocessor,
// deal them out evenly (gemm_skinny.cu), or take them in turn. A product with tiles for half
// of the multiprocessors or fewer leaves the others idle: as many parts as there are
// multiprocessors for, of so many stages that the sums of a part, which are written and
// read once more, are a sixteenth of its weights or less.
type splitK struct{ tiles, parts int }

// cutFor is the cut of a product with out rows of results of in columns.
func (l *gemmKernels) splitKFor(out, in int, u epilogue, sms int) splitK {
	tile, r := l.outputs(u), l.of(u)
	c := splitK{tiles: (out + tile - 1) / tile, parts: 1}
	whole, cuts := 1, c.tiles // units that are cut together, and how many cuts there are
	if l.quant != Unquantized {
		whole, cuts = r.tiles, (c.tiles+r.tiles-1)/r.tiles
	}
	stages := (in + r.depth - 1) / r.depth
	if parts := min(sms/cuts, stages/l.minStages); !l.isWgmma() && parts > 1 && whole <= parts*((c.tiles+sms-1)/sms) {
		c = splitK{tiles: cuts, parts: parts}
	}
	return c
}

// scratch is how much memory the parts of a step's products need at once: bytes of
// sums, and counters.
func (l *gemmKernels) scratch(s *shape, sms int) (sums, counters int) {
	cuts := []splitK{
		l.splitKFor(s.qkvWidth(), s.hidden, storeEpilogue, sms), l.splitKFor(s.hidden, s.attWidth(), residualEpilogue, sms),
		l.splitKFor(s.inner, s.hidden, swigluEpilogue, sms), l.splitKFor(s.hidden, s.inner, residualEpilogue, sms), l.splitKFor(s.tokens, s.hidden, storeEpilogue, sms),
	}
	if s.experts > 0 {
		cuts = append(cuts, l.splitKFor(s.experts, s.hidden, storeEpilogue, sms)) // the router's
	}
	for _, c := range cuts {
		if c.parts > 1 {
			sums, counters = max(sums, c.tiles*c.parts*l.sums()), max(counters, c.tiles)
		}
	}
	return sums, counters
}

// halvable reports whether the warps can divide half of the columns of a stage among
// them, in units of 64 bytes and whole rows of 128.
func (l *gemmKernels) halvable() bool {
	unit := 512 / int(l.quant)
	return l.depth%(2*unit*l.consumers()/l.rowWarps) == 0 && l.depth%(4*unit) == 0
}

// consumers are the warps of a block that multiply.
func (l *gemmKernels) consumers() int { return cmp.Or(l.warps, 8) }

// producers are those that copy.
func (l *gemmKernels) producers() int {
	if l.consumers() > 8 {
		return 2
	}
	return 4
}

// outputs are the rows of the result of one unit: gate and up make one.
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

// sums are the bytes of the sums of one part.
func (l *gemmKernels) sums() int {
	bytes := 4 * 16 * 8 * l.columns
	if l.quant != Unquantized {
		bytes *= max(l.tiles, l.of(swigluEpilogue).tiles, l.of(residualEpilogue).tiles)
	}
	return bytes
}

// linearShapes are the rings that were fastest on an H200. On a multiprocessor
// there is room for blocks of two products, so that one can fill its ring while the
// other still runs, but not for two that add to the stream: every other product
// does, so the blocks of each lie one on a multiprocessor, also where attention
// leaves multiprocessors free. Of 9 to 16 sequences gate_up_proj has a multiprocessor for itself, and a
// ring twice as long: a step of llama3.1-8b at batch 16 took 4.575 ms for 4.607 and 4.626 (docs/log/native-experiments.md).
func skinnyGEMMs() []gemmKernels {
	return []gemmKernels{
		{rows: 1, columns: 1, tiles: 1, depth: 512, stages: 5, residualRing: ring{tiles: 2, depth: 256, stages: 7}, minStages: 8, half: halfTiles{tiles: 3, depth: 256, stages: 7}},
		{rows: 8, columns: 1, tiles: 3, depth: 256, stages: 3, swigluRing: ring{tiles: 2, stages: 4}, residualRing: ring{tiles: 2, stages: 6}, minStages: 8, half: halfTiles{tiles: 3, depth: 256, stages: 5}},
		{rows: 16, columns: 2, tiles: 3, depth: 256, stages: 3, swigluRing: ring{tiles: 2, stages: 8}, residualRing: ring{tiles: 2, stages: 4}, minStages: 8},
	}
}

// fewGated reports whether a rank's part of gate_up_proj is at most four tiles of 16 rows for
// each multiprocessor. They come two at a time then, by half as many columns: over four H200s a
// step of llama3.1-8b took 1.449 ms and not 1.461 at batch 1. Over two, with seven tiles,
// it took 2.304 and not 2.255 (docs/log/native-experiments.md).
func (s *shape) fewGated(sms int) bool { return s.ranks > 1 && s.experts == 0 && 2*s.inner <= 4*16*sms }

// fitted are rings of no more stages than a block has shared memory for: GPUs of
// compute capability 8.6, 8.9 and 12.0 give it 99 KiB, less than half of Hopper's. A
// stage less is a copy less on its way, and nothing else.
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

// alone is what a block has to take of a multiprocessor of Hopper, with 228 KiB of shared
// memory of which each block costs 1, so that no two fit there.
const oneBlockPerSM = 114<<10 + 128

// fit is a ring of no more stages than there is memory for, and with fewer tiles where
// those are not two. Of quantized weights warps share a tile evenly, and all products
// have the same.
func (l *gemmKernels) fit(r ring, memory int) (tiles, stages int) {
	for l.quant == Unquantized && r.tiles > 1 && l.shared(ring{tiles: r.tiles, stages: 2, depth: r.depth})+l.staticShared(r) > memory {
		r.tiles--
	}
	return r.tiles, min(r.stages, (memory-l.staticShared(r))/l.shared(ring{tiles: r.tiles, stages: 1, depth: r.depth}))
}

// beside is what a block has of static shared memory beside its ring, or a little
// more: sums of its warps, their scales and the barriers (gemm_skinny.cu).
func (l *gemmKernels) staticShared(r ring) int {
	const warp = 4 * 20 * 8 // bytes of the sums of 16 rows by 8 sequences
	switch n := r.tiles * l.columns; {
	case l.quant != Unquantized:
		slices := l.consumers() / l.rowWarps
		if l.rows == 1 { // a column of each warp's, twice
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

// defines are the constants that the kernels are compiled with.
func defines(s *shape, linear []gemmKernels) []string {
	flag := map[bool]int{true: 1}
	out := []string{
		fmt.Sprintf("HEAD_DIM=%d", s.headDim), fmt.Sprintf("GROUP=%d", s.heads/s.kvHeads),
		fmt.Sprintf("QK_NORM=%d", flag[s.qkNorm]), fmt.Sprintf("QKV_BIAS=%d", flag[s.bias]),
	}
	if s.ranks > 1 {
		out = append(out, fmt.Sprintf("RANKS=%d", s.ranks))
	}
	if s.fp16 {
		out = append(out, "FP16=1")
	}
	if s.quant != Unquantized {
		out = append(out, fmt.Sprintf("QUANTIZED=%d", s.quant))
	}
	for i := range linear {
		l := &linear[i]
		if l.isWgmma() {
			out = append(out, l.wgmmaDefines()...)
			continue
		}
		names := map[epilogue]string{storeEpilogue: "SKINNY_NORM", swigluEpilogue: "SKINNY_SWIGLU", residualEpilogue: "SKINNY_RESIDUAL"}
		if l.quant != Unquantized {
			names = map[epilogue]string{storeEpilogue: "QUANTIZED_NORM", swigluEpilogue: "QUANTIZED_SWIGLU", residualEpilogue: "QUANTIZED_RESIDUAL"}
		}
		for _, u := range []epilogue{storeEpilogue, swigluEpilogue, residualEpilogue} {
			r := l.of(u)
			define := fmt.Sprintf("%s_%d=%d,%d,%d,%d,%d", names[u], l.rows, l.columns, r.tiles, r.depth, r.stages, l.rows)
			if l.quant != Unquantized {
				define += fmt.Sprintf(",%d,%d", l.rowWarps, l.consumers())
			}
			out = append(out, define)
		}
	}
	for i := range linear {
		if l := &linear[i]; s.ranks > 1 && l.half.stages > 0 {
			out = append(out, fmt.Sprintf("SKINNY_HALF_%d=%d,%d,%d,%d,%d", l.rows, l.columns, l.half.tiles, l.half.depth, l.half.stages, l.rows))
		}
	}
	return append(out, s.moreDefines()...)
}

// definesFor are those that differ from GPU to GPU.
func definesFor(p *cuda.Properties, s *shape) []string {
	tile := tileFor(p, s)
	out := append(append(tile.defines(), s.expertDefines(p.SharedOptIn)...), append(s.megakernelDefines(), sanitized()...)...)
	if p.Major < 8 {
		out = append(out, fmt.Sprintf("OLDER=%d", 10*p.Major+p.Minor))
	}
	return out
}

// sanitized is the define of kernels in the form that compute-sanitizer follows (arrive_warp
// in common.cuh), where LLMPROF_SANITIZED is set.
func sanitized() []string {
	if os.Getenv("LLMPROF_SANITIZED") == "" {
		return nil
	}
	return []string{cuda.Sanitizer}
}

// compile makes the program for dev, with the rings that fit there, or takes it from
// the cache; more are further defines.
func compile(dev *cuda.Device, c *cuda.Compiler, cache cuda.Cache, s *shape, linear []gemmKernels, more ...string) (*program, error) {
	linear = fitted(linear, dev.SharedOptIn)
	cubin, err := compiled(&dev.Properties, c, cache, s, linear, more...)
	if err != nil {
		return nil, err
	}
	m, err := dev.Load(cubin)
	if err != nil {
		return nil, err
	}
	return newProgram(dev, m, s, linear)
}

// compiled is the program's machine code. It needs no GPU but what is known of it.
func compiled(p *cuda.Properties, c *cuda.Compiler, cache cuda.Cache, s *shape, linear []gemmKernels, more ...string) ([]byte, error) {
	src, err := kernels.Source()
	if err != nil {
		return nil, err
	}
	return cache.Compile(c, "kernels.cu", src, p.Code, append(append(defines(s, linear), definesFor(p, s)...), more...))
}

// newProgram is that of compiled kernels. A GPU that has no room for them is refused.
func newProgram(dev *cuda.Device, m *cuda.Module, s *shape, linear []gemmKernels) (*program, error) {
	p := &program{module: m, gemms: linear, tile: tileFor(&dev.Properties, s), decode: decodeFor(dev.Major, s)}
	p.hopper, p.older = dev.Major == 9, dev.Major < 8
	p.moe.rings = s.fit(expertRings(), dev.SharedOptIn)
	if needed := max(p.tile.shared, p.decode.shared+p.decode.staticShared); needed > dev.SharedOptIn {
		return p, unsupported("attention takes %d KiB of shared memory for heads of %d values; a block of %s has %d",
			(needed+1023)>>10, s.headDim, dev.Name, dev.SharedOptIn>>10)
	}
	if err := p.find(s); err != nil {
		return p, err
	}
	for i := range p.gemms {
		if p.gemms[i].isWgmma() {
			if err := p.gemms[i].countClusters(); err != nil {
				return p, err
			}
		}
	}
	return p, nil
}

// find looks the kernels up by name.
func (p *program) find(s *shape) error {
	names := map[string]**cuda.Kernel{
		"fill_random": &p.fillRandom, "fill_constant": &p.fillConstant, "embedding": &p.embedding, "rms_norm": &p.rmsNorm,
		"rotary": &p.rotary, "activation": &p.activation, "sampling": &p.sampling, "probe_read": &p.probeRead,
		"attention_decode": &p.attentionDecode, p.tile.kernel: &p.attentionPrefill, "fill_random_part": &p.fillRandomPart,
	}
	if s.ranks > 1 {
		names["all_reduce"], names["embedding_shared"], names["sampling_shared"] = &p.allReduce, &p.embeddingShared, &p.samplingShared
	}
	if s.sandwich {
		names["norm_residual"] = &p.normResidual
	}
	if s.experts > 0 {
		maps.Copy(names, p.moe.names(s, p))
	}
	if s.experts > 0 && s.quant != Unquantized {
		maps.Copy(names, p.moe.quantized.names())
	}
	if s.sliding {
		names["move_rows"] = &p.moveRows
	}
	if s.quant != Unquantized {
		names["quantize"], names["dequantize"] = &p.quantized.quantize, &p.quantized.dequantize
	}
	if s.quant == FP8 {
		names["arrange"] = &p.quantized.arrange
	}
	for i := range p.gemms {
		p.gemms[i].names(s, names)
	}
	for name, k := range names {
		var err error
		if *k, err = p.module.Kernel(name); err != nil {
			return err
		}
	}
	return nil
}

// names adds those of the ring's kernels.
func (l *gemmKernels) names(s *shape, to map[string]**cuda.Kernel) {
	if l.isWgmma() {
		l.wgmmaNames(s, to)
		return
	}
	first := "skinny"
	if l.quant != Unquantized {
		first = "quantized"
	}
	if s.sandwich || s.ranks > 1 {
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

// linearFor is the kernels for a batch and weights so kept, nil where cuBLASLt does
// the products.
func gemmFor(linear []gemmKernels, quant Quantization, batch int) *gemmKernels {
	for i := range linear {
		if linear[i].quant == quant && batch <= linear[i].rows {
			return &linear[i]
		}
	}
	return nil
}
