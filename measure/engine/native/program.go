package native

import (
	"fmt"
	"maps"
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
	allReduce, embeddingShared        *cuda.Kernel // of several ranks alone, as the next two are
	bestOfPart, bestOfAll             *cuda.Kernel
	normResidual, moveRows            *cuda.Kernel // nil where the model has no use for them
	moe                               mixtureKernels
	quantized                         quantizedKernels
	linear                            []linearKernels // of 16-bit weights, and of quantized ones
	tile                              attentionTile
	hopper                            bool // has wgmma
	decode                            decodeAttention
}

// linearKernels are the products of decoding for batches up to rows, and
// the shape of the ring that the weights come through (linear.cu, and
// linear_quantized.cu for quantized ones).
type linearKernels struct {
	kept     Quantization
	rows     int // largest batch
	columns  int // the batch in eights: mma's columns
	tiles    int // of 16 weight rows, a stage
	depth    int // columns of the weights, a stage
	stages   int
	deep     int // stages of products that add to the stream
	least    int // stages of a part, where a tile is cut along its columns
	scores   *cuda.Kernel
	residual *cuda.Kernel
	swiglu   *cuda.Kernel
	plain    *cuda.Kernel // nil where the model has no use for it
}

// ring is the dynamic shared memory of a block with so many stages.
func (l *linearKernels) ring(stages int) int {
	inputs, weights := l.rows*(l.depth*2+64), 16*l.tiles*(l.depth*2+64)
	if l.kept != Unquantized {
		weights = 16 * l.tiles * (l.depth*int(l.kept)/8 + 64)
	}
	if l.kept == INT4 { // scales and zero points
		weights += (l.depth/groupInputs*16*l.tiles*5/2 + 15) / 16 * 16
	}
	return stages * (inputs + weights)
}

// cut is into how many tiles the weights of one product are cut, and each of them
// along its columns. One block a multiprocessor takes them in turn, so a product
// with tiles for half of the multiprocessors or fewer leaves the others idle: as
// many parts as there are multiprocessors for, of so many stages that the sums of
// a part, which are written and read once more, are a sixteenth of its weights or
// less.
type cut struct{ tiles, parts int }

// cutFor is the cut of a product with out rows of results of in columns.
func (l *linearKernels) cutFor(out, in int, gated bool, sms int) cut {
	tile := l.outputs(gated)
	c := cut{tiles: (out + tile - 1) / tile}
	stages := (in + l.depth - 1) / l.depth
	c.parts = max(1, min(sms/c.tiles, stages/l.least))
	return c
}

// scratch is how much memory the parts of a step's products need at once: bytes of
// sums, and counters.
func (l *linearKernels) scratch(s *shape, sms int) (sums, counters int) {
	for _, c := range []cut{
		l.cutFor(s.qkvWidth(), s.hidden, false, sms), l.cutFor(s.hidden, s.attWidth(), false, sms),
		l.cutFor(s.inner, s.hidden, true, sms), l.cutFor(s.hidden, s.inner, false, sms), l.cutFor(s.tokens, s.hidden, false, sms),
	} {
		if c.parts > 1 {
			sums, counters = max(sums, c.tiles*c.parts*l.sums()), max(counters, c.tiles)
		}
	}
	return sums, counters
}

// outputs are the rows of the result of one tile: gate and up make one.
func (l *linearKernels) outputs(gated bool) int {
	if gated {
		return 8 * l.tiles
	}
	return 16 * l.tiles
}

// sums are the bytes of the sums of one part.
func (l *linearKernels) sums() int { return 4 * 16 * l.tiles * 8 * l.columns }

// linearShapes are the rings that were fastest on an H200. On a multiprocessor
// there is room for blocks of two products, so that one can fill its ring while the
// other still runs, but not for two that add to the stream: every other product
// does, so the blocks of each lie one on a multiprocessor, also where attention
// leaves multiprocessors free.
func linearShapes() []linearKernels {
	return []linearKernels{
		{rows: 1, columns: 1, tiles: 1, depth: 512, stages: 4, deep: 6, least: 8},
		{rows: 8, columns: 1, tiles: 1, depth: 512, stages: 3, deep: 5, least: 8},
		{rows: 16, columns: 2, tiles: 2, depth: 256, stages: 3, deep: 4, least: 8},
	}
}

// fitted are rings of no more stages than a block has shared memory for: GPUs of
// compute capability 8.6, 8.9 and 12.0 give it 99 KiB, less than half of Hopper's. A
// stage less is a copy less on its way, and nothing else.
func fitted(linear []linearKernels, memory int) []linearKernels {
	out := slices.Clone(linear)
	for i := range out {
		l := &out[i]
		most := (memory - l.beside()) / l.ring(1)
		l.stages, l.deep = min(l.stages, most), min(l.deep, most)
	}
	return out
}

// beside is what a block has of static shared memory beside its ring, or a little
// more: the sums of eight warps, their scales and the barriers (linear.cu).
func (l *linearKernels) beside() int { return 1<<10 + 5120*l.columns }

// defines are the constants that the kernels are compiled with.
func defines(s *shape, linear []linearKernels) []string {
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
	if s.kept != Unquantized {
		out = append(out, fmt.Sprintf("QUANTIZED=%d", s.kept))
	}
	for i := range linear {
		l := &linear[i]
		name, deep := "SHAPE", "DEEP"
		if l.kept != Unquantized {
			name, deep = "NARROW", "NARROW_DEEP"
		}
		out = append(out, fmt.Sprintf("%s_%d=%d,%d,%d,%d,%d", name, l.rows, l.columns, l.tiles, l.depth, l.stages, l.rows),
			fmt.Sprintf("%s_%d=%d,%d,%d,%d,%d", deep, l.rows, l.columns, l.tiles, l.depth, l.deep, l.rows))
	}
	return append(out, s.moreDefines()...)
}

// compile makes the program for dev, with the rings that fit there, or takes it from
// the cache; more are further defines.
func compile(dev *cuda.Device, c *cuda.Compiler, cache cuda.Cache, s *shape, linear []linearKernels, more ...string) (*program, error) {
	linear = fitted(linear, dev.SharedOptIn)
	src, err := kernels.Source()
	if err != nil {
		return nil, err
	}
	cubin, err := cache.Compile(c, "kernels.cu", src, cuda.Architecture(dev.Major, dev.Minor), append(append(defines(s, linear), s.expertDefines(dev.SharedOptIn)...), more...))
	if err != nil {
		return nil, err
	}
	m, err := dev.Load(cubin)
	if err != nil {
		return nil, err
	}
	return newProgram(dev, m, s, linear)
}

// newProgram is that of compiled kernels. A GPU that has no room for them is refused.
func newProgram(dev *cuda.Device, m *cuda.Module, s *shape, linear []linearKernels) (*program, error) {
	p := &program{module: m, linear: linear, tile: tileFor(dev.Major, s), decode: decodeFor(dev.Major, s)}
	p.hopper = dev.Major == 9
	p.moe.rings = s.fit(expertRings(), dev.SharedOptIn)
	if p.tile.shared > dev.SharedOptIn {
		return p, unsupported("attention of prompts takes %d KiB of shared memory for heads of %d values; a block of %s has %d",
			p.tile.shared>>10, s.headDim, dev.Name, dev.SharedOptIn>>10)
	}
	return p, p.find(s)
}

// find looks the kernels up by name.
func (p *program) find(s *shape) error {
	names := map[string]**cuda.Kernel{
		"fill_random": &p.fillRandom, "fill_constant": &p.fillConstant, "embedding": &p.embedding, "rms_norm": &p.rmsNorm,
		"rotary": &p.rotary, "activation": &p.activation, "sampling": &p.sampling, "probe_read": &p.probeRead,
		"attention_decode": &p.attentionDecode, p.tile.kernel: &p.attentionPrefill, "fill_random_part": &p.fillRandomPart,
	}
	if s.ranks > 1 {
		names["all_reduce"], names["embedding_shared"], names["best_of_part"], names["best_of_all"] = &p.allReduce, &p.embeddingShared, &p.bestOfPart, &p.bestOfAll
	}
	if s.sandwich {
		names["norm_residual"] = &p.normResidual
	}
	if s.experts > 0 {
		maps.Copy(names, p.moe.names(p.hopper))
	}
	if s.sliding {
		names["move_rows"] = &p.moveRows
	}
	if s.kept != Unquantized {
		names["quantize"], names["widen"] = &p.quantized.quantize, &p.quantized.widen
	}
	if s.kept == FP8 {
		names["arrange"] = &p.quantized.arrange
	}
	for i := range p.linear {
		p.linear[i].names(s, names)
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
func (l *linearKernels) names(s *shape, to map[string]**cuda.Kernel) {
	first := "linear"
	if l.kept != Unquantized {
		first = "narrow"
	}
	if s.sandwich || s.ranks > 1 {
		to[fmt.Sprintf("%s_plain_%d", first, l.rows)] = &l.plain
	}
	to[fmt.Sprintf("%s_scores_%d", first, l.rows)] = &l.scores
	to[fmt.Sprintf("%s_residual_%d", first, l.rows)] = &l.residual
	to[fmt.Sprintf("%s_swiglu_%d", first, l.rows)] = &l.swiglu
}

// linearFor is the kernels for a batch and weights so kept, nil where cuBLASLt does
// the products.
func linearFor(linear []linearKernels, kept Quantization, batch int) *linearKernels {
	for i := range linear {
		if linear[i].kept == kept && batch <= linear[i].rows {
			return &linear[i]
		}
	}
	return nil
}
