package native

import (
	"time"

	"llmprof/analytic/engine"
	"llmprof/measure/native/cuda"
)

// gemmOperands are what one GEMM of a decode step reads and writes: y = x·wᵀ with the prologue
// and the epilogue of the kernel that runs it. An address of 0 means that the kernel does not use
// the operand.
type gemmOperands struct {
	w, x    cuda.Ptr // weights [out][in]; inputs [batch][in]
	out, in int

	squares cuda.Ptr // sums of squares of x, for a kernel whose prologue is the RMSNorm of x
	y       cuda.Ptr // float32 outputs, or the residual stream
	y16     cuda.Ptr // 16-bit outputs: the activation, or the residual stream times nextNorm

	nextSquares, nextNorm cuda.Ptr // sums of squares of the stream, and weights of the norm that follows
}

// args are the parameters of LinearArgs from n on, as far as all kernels have them.
func (o *gemmOperands) args(batch int, eps float32) []any {
	return []any{int32(o.out), int32(o.in), int32(batch), eps, o.squares, o.y, o.y16, o.nextSquares, o.nextNorm}
}

// skinnyArgs are the parameters of a kernel of gemm_skinny.cu or, where q is not nil, of
// gemm_quantized.cu.
func (o *gemmOperands) skinnyArgs(batch int, eps float32, k *splitKBuffers, q *scaled) []any {
	args := append([]any{o.w, o.x}, o.args(batch, eps)...)
	args = append(args, int32(k.parts), k.sums, k.arrived)
	if q != nil {
		args = append(args, q.scales, q.zeros)
	}
	return args
}

// splitKBuffers say into how many parts a GEMM is cut along its inputs, and where the parts leave
// their sums and count how many of them have arrived.
type splitKBuffers struct {
	parts         int
	sums, arrived cuda.Ptr
}

// llOperands are what a kernel needs to exchange sums with the other ranks by NCCL's LL protocol.
type llOperands struct {
	buffers  cuda.Ptr // [ranks] addresses of each rank's receive buffer
	timedOut cuda.Ptr // host memory: one more than the rank that timed out
	limit    time.Duration
	rank     int
	epochs   cuda.Ptr // epoch of the last exchange of each unit of rows
}

func (o *llOperands) args() []any {
	return []any{o.buffers, o.timedOut, uint64(o.limit), int32(o.rank), o.epochs}
}

func (e *Engine) queueGEMM(gemm *gemmKernels, kernel *cuda.Kernel, u epilogue, o *gemmOperands) error {
	return e.queueFusedGEMM(gemm, kernel, u, o, nil)
}

// queueFusedGEMM is queueGEMM for a kernel that also exchanges its sums with the other ranks, if ll
// is not nil.
func (e *Engine) queueFusedGEMM(gemm *gemmKernels, kernel *cuda.Kernel, u epilogue, o *gemmOperands, ll *llOperands) error {
	launch, args, err := e.gemmLaunch(gemm, u, o)
	if err != nil {
		return err
	}
	if gemm.isWgmma() && o.w == e.w.head {
		kernel = gemm.headGEMM
	}
	if ll != nil {
		args = append(args, ll.args()...)
	}
	return kernel.Queue(e.s, launch, args...)
}

func (e *Engine) gemmLaunch(gemm *gemmKernels, u epilogue, o *gemmOperands) (cuda.Launch, []any, error) {
	batch, eps := e.opt.Batch, e.shape.eps
	if gemm.isWgmma() {
		r := gemm.wgmma.of(u, o.w == e.w.head)
		args, err := wgmmaTensorMaps(e.dev, r, gemm.rows, u, o, batch)
		return r.launch(gemm.rows, e.opt.sms), append(args, o.args(batch, eps)...), err
	}
	c := gemm.splitKFor(o.out, o.in, u, e.opt.sms)
	split := splitKBuffers{parts: c.parts, sums: e.b.splitSums, arrived: e.b.splitArrived}
	var q *scaled
	if scales, ok := e.w.quantized[o.w]; ok {
		q = &scales
	}
	return gemm.launch(c, e.opt.sms, gemm.of(u)), o.skinnyArgs(batch, eps, &split, q), nil
}

// quantizedGEMMs are the rings of gemm_quantized.cu. Their occupancy follows the rules of skinnyGEMMs.
// Other sizes were not timed.
func quantizedGEMMs(q Quantization) []gemmKernels {
	switch q {
	case FP8:
		return []gemmKernels{
			{quant: q, rows: 1, columns: 1, tiles: 2, depth: 1024, stages: 3, residualRing: ring{stages: 3}, minStages: 4, rowWarps: 1},
			{quant: q, rows: 8, columns: 1, tiles: 2, depth: 512, stages: 3, residualRing: ring{stages: 5}, minStages: 4, rowWarps: 1},
			{quant: q, rows: 16, columns: 2, tiles: 2, depth: 512, stages: 3, residualRing: ring{stages: 3}, minStages: 4, rowWarps: 1},
			{quant: q, rows: engine.QuantizedRows, columns: 4, tiles: 8, depth: 256, stages: 3, residualRing: ring{stages: 3}, minStages: 4,
				rowWarps: 8, warps: 16},
		}
	case INT4:
		return []gemmKernels{
			{quant: q, rows: 1, columns: 1, tiles: 2, depth: 1024, stages: 4, residualRing: ring{stages: 6}, minStages: 4, rowWarps: 1},
			{quant: q, rows: 8, columns: 1, tiles: 2, depth: 1024, stages: 3, residualRing: ring{stages: 3}, minStages: 2, rowWarps: 1},
			{quant: q, rows: 16, columns: 2, tiles: 2, depth: 512, stages: 4, residualRing: ring{stages: 4}, minStages: 2, rowWarps: 2},
			{quant: q, rows: engine.QuantizedRows, columns: 4, tiles: 8, depth: 256, stages: 4, residualRing: ring{stages: 4}, minStages: 4,
				rowWarps: 8, warps: 16},
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
