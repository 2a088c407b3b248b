package native

import (
	"fmt"
	"maps"
	"os"

	"llmprof/measure/native/cuda"
	"llmprof/measure/native/internal/kernels"
)

// A program is the compiled kernels for one shape of model.
type program struct {
	module                            *cuda.Module
	fillRandom, fillConstant          *cuda.Kernel
	fillRandomPart                    *cuda.Kernel
	embedding, rmsNorm, rotary        *cuda.Kernel
	activation, sampling              *cuda.Kernel
	attentionDecode, attentionPrefill *cuda.Kernel
	probeRead                         *cuda.Kernel
	allReduce, embeddingShared        *cuda.Kernel // kernels of several ranks, as samplingShared is
	samplingShared                    *cuda.Kernel
	normResidual, moveRows            *cuda.Kernel // nil if the model does not need them
	moe                               moeKernels
	quantized                         quantizedKernels
	gemms                             []gemmKernels // kernels of 16-bit weights and of quantized ones
	tile                              attentionTile
	hopper                            bool // The GPU has wgmma.
	decode                            decodeAttention
}

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

// definesFor are the constants that depend on the GPU.
func definesFor(p *cuda.Properties, s *shape) []string {
	tile := tileFor(p, s)
	out := append(append(tile.defines(), s.expertDefines(p.SharedOptIn)...), append(s.megakernelDefines(), sanitized()...)...)
	if p.Major < 8 {
		out = append(out, fmt.Sprintf("OLDER=%d", 10*p.Major+p.Minor))
	}
	return out
}

// sanitized is the define of the variant that racecheck of compute-sanitizer can follow (arrive_warp
// in common.cuh). LLMPROF_SANITIZED selects it.
func sanitized() []string {
	if os.Getenv("LLMPROF_SANITIZED") == "" {
		return nil
	}
	return []string{cuda.Sanitizer}
}

// compile makes the program for dev, with rings that fit there, or takes it from the cache; more are
// further defines.
func compile(dev *cuda.Device, c *cuda.Compiler, cache cuda.Cache, s *shape, linear []gemmKernels, more ...string) (*program, error) {
	linear = fitted(linear, dev.SharedOptIn)
	text, err := source(&dev.Properties, s, linear, more...)
	if err != nil {
		return nil, err
	}
	m, err := cache.Load(dev, c, text)
	if err != nil {
		return nil, err
	}
	return newProgram(dev, m, s, linear)
}

// source is the program's text. It needs the properties of a GPU, but no GPU.
func source(p *cuda.Properties, s *shape, linear []gemmKernels, more ...string) (cuda.Source, error) {
	text, err := kernels.Source()
	return cuda.Source{
		File: "kernels.cu", Text: text, Arch: p.Code, Defines: append(append(defines(s, linear), definesFor(p, s)...), more...),
	}, err
}

// newProgram is the program of a loaded module. It refuses a GPU without enough shared memory.
func newProgram(dev *cuda.Device, m *cuda.Module, s *shape, linear []gemmKernels) (*program, error) {
	p := &program{module: m, gemms: linear, tile: tileFor(&dev.Properties, s), decode: decodeFor(dev.Major, s)}
	p.hopper = dev.Major == 9
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

// find looks up the kernels by name.
func (p *program) find(s *shape) error {
	names := map[string]**cuda.Kernel{
		"fill_random": &p.fillRandom, "fill_constant": &p.fillConstant, "embedding": &p.embedding, "rms_norm": &p.rmsNorm,
		"rotary": &p.rotary, "activation": &p.activation, "sampling": &p.sampling, "probe_read": &p.probeRead,
		"attention_decode": &p.attentionDecode, p.tile.kernel: &p.attentionPrefill, "fill_random_part": &p.fillRandomPart,
	}
	if s.ranks > 1 {
		names["all_reduce"], names["embedding_shared"], names["sampling_shared"] = &p.allReduce, &p.embeddingShared, &p.samplingShared
	}
	if s.outputNorm {
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
