package native

import (
	"time"

	"llmprof/measure/engine/native/cuda"
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

// queueGEMM queues one GEMM of a decode step by a kernel of the engine.
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

// gemmLaunch is the launch of a GEMM with the kernel's parameters.
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
