package native

import (
	"fmt"

	"llmprof/measure/engine/native/cuda"
	"llmprof/measure/engine/native/kernels"
)

// program is the compiled kernels, for one shape of attention.
type program struct {
	module                            *cuda.Module
	fillRandom, fillConstant          *cuda.Kernel
	embedding, rmsNorm, rotary        *cuda.Kernel
	activation, sampling              *cuda.Kernel
	attentionDecode, attentionPrefill *cuda.Kernel
	probeRead                         *cuda.Kernel
	linear                            []linearKernels
}

// linearKernels are the three products of decoding for batches up to rows.
type linearKernels struct {
	rows                     int
	ring                     int // bytes of dynamic shared memory
	tiles                    int // of 16 weight rows, a stage
	scores, residual, swiglu *cuda.Kernel
}

// linearShapes repeats the template arguments at the end of linear.cu.
func linearShapes() []linearKernels {
	ring := func(tiles, columns, stages int) int { return stages * 16 * tiles * (columns*2 + 64) }
	return []linearKernels{
		{rows: 8, tiles: 1, ring: ring(1, 512, 5)},
		{rows: 16, tiles: 2, ring: ring(2, 256, 5)},
		{rows: 32, tiles: 4, ring: ring(4, 128, 4)},
	}
}

// defines are the constants that the kernels are compiled with.
func defines(s *shape) []string {
	flag := map[bool]int{true: 1}
	return []string{
		fmt.Sprintf("HEAD_DIM=%d", s.headDim), fmt.Sprintf("GROUP=%d", s.heads/s.kvHeads),
		fmt.Sprintf("QK_NORM=%d", flag[s.qkNorm]), fmt.Sprintf("QKV_BIAS=%d", flag[s.bias]),
	}
}

// compile makes the program for dev, or takes it from the cache.
func compile(dev *cuda.Device, libraries string, cache cuda.Cache, s *shape) (*program, error) {
	if dev.Major < 8 {
		return nil, fmt.Errorf("native: %s has compute capability %d.%d; bf16 needs 8.0 or newer", dev.Name, dev.Major, dev.Minor)
	}
	c, err := cuda.OpenCompiler(libraries)
	if err != nil {
		return nil, err
	}
	src, err := kernels.Source()
	if err != nil {
		return nil, err
	}
	cubin, err := cache.Compile(c, "kernels.cu", src, cuda.Architecture(dev.Major, dev.Minor), defines(s))
	if err != nil {
		return nil, err
	}
	m, err := dev.Load(cubin)
	if err != nil {
		return nil, err
	}
	p := &program{module: m}
	return p, p.find(dev.Major >= 9)
}

// find looks the kernels up by name.
func (p *program) find(bulk bool) error {
	names := map[string]**cuda.Kernel{
		"fill_random": &p.fillRandom, "fill_constant": &p.fillConstant, "embedding": &p.embedding, "rms_norm": &p.rmsNorm,
		"rotary": &p.rotary, "activation": &p.activation, "sampling": &p.sampling, "probe_read": &p.probeRead,
		"attention_decode": &p.attentionDecode, "attention_prefill": &p.attentionPrefill,
	}
	if bulk {
		p.linear = linearShapes()
	}
	for i := range p.linear {
		l := &p.linear[i]
		names[fmt.Sprintf("linear_scores_%d", l.rows)] = &l.scores
		names[fmt.Sprintf("linear_residual_%d", l.rows)] = &l.residual
		names[fmt.Sprintf("linear_swiglu_%d", l.rows)] = &l.swiglu
	}
	for name, k := range names {
		var err error
		if *k, err = p.module.Kernel(name); err != nil {
			return err
		}
	}
	return nil
}

// linearFor is the kernels for a batch, nil where cuBLASLt does the products.
func (p *program) linearFor(batch int) *linearKernels {
	for i := range p.linear {
		if batch <= p.linear[i].rows {
			return &p.linear[i]
		}
	}
	return nil
}
