package native

import (
	"llmprof/analytic/engine"
	"llmprof/measure/engine/native/cuda"
)

// quantizedGEMMs are the rings of gemm_quantized.cu. Their occupancy follows the rules of skinnyGEMMs.
// Other sizes were not timed.
func quantizedGEMMs(q Quantization) []gemmKernels {
	switch q {
	case FP8:
		return []gemmKernels{
			{quant: q, rows: 1, columns: 1, tiles: 2, depth: 1024, stages: 3, residualRing: ring{stages: 3}, minStages: 4, rowWarps: 1},
			{quant: q, rows: 8, columns: 1, tiles: 2, depth: 512, stages: 3, residualRing: ring{stages: 5}, minStages: 4, rowWarps: 1},
			{quant: q, rows: 16, columns: 2, tiles: 2, depth: 512, stages: 3, residualRing: ring{stages: 3}, minStages: 4, rowWarps: 1},
			{quant: q, rows: engine.QuantizedRows, columns: 4, tiles: 8, depth: 256, stages: 3, residualRing: ring{stages: 3}, minStages: 4, rowWarps: 8, warps: 16},
		}
	case INT4:
		return []gemmKernels{
			{quant: q, rows: 1, columns: 1, tiles: 2, depth: 1024, stages: 4, residualRing: ring{stages: 6}, minStages: 4, rowWarps: 1},
			{quant: q, rows: 8, columns: 1, tiles: 2, depth: 1024, stages: 3, residualRing: ring{stages: 3}, minStages: 2, rowWarps: 1},
			{quant: q, rows: 16, columns: 2, tiles: 2, depth: 512, stages: 4, residualRing: ring{stages: 4}, minStages: 2, rowWarps: 2},
			{quant: q, rows: engine.QuantizedRows, columns: 4, tiles: 8, depth: 256, stages: 4, residualRing: ring{stages: 4}, minStages: 4, rowWarps: 8, warps: 16},
		}
	}
	return nil
}

// scratchOf is the memory for the widest matrix of a layer in 16 bits, which is that of all experts in
// a MoE model; it is 0 without quantization.
func (s *shape) scratchOf() int {
	if s.quant == Unquantized {
		return 0
	}
	return 2 * max(s.qkvWidth()*s.hidden, s.hidden*s.attWidth(), 2*s.inner*s.hidden*max(s.experts, 1))
}

// dequantize returns the address of the weights w, of out rows and in columns, in 16 bits. If they are
// quantized, it queues their dequantization into a scratch buffer, which the next call overwrites.
func (e *Engine) dequantize(w cuda.Ptr, out, in int) (cuda.Ptr, error) {
	q, ok := e.w.quantized[w]
	if !ok {
		return w, nil
	}
	l := cuda.Launch{Grid: cuda.Dim{X: min((out*(in/8)+255)/256, 16*e.dev.SMs)}, Block: cuda.Dim{X: 256}}
	return e.b.dequantized, e.p.quantized.dequantize.Queue(e.s, l, w, q.scales, q.zeros, e.b.dequantized, int32(out), int32(in))
}
