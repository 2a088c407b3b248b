package native

import "llmprof/measure/native/cuda"

// An outGEMM is the last GEMM of a block, from in inputs x to the stream.
type outGEMM struct {
	block      block
	x, w       cuda.Ptr
	in         int
	post, next cuda.Ptr // weights of the norm of the output, 0 for none, and of the norm after the residual sum, 0 with cuBLASLt
	name       string
	postName   string
}

func (e *Engine) attentionOut(w *layerWeights, next cuda.Ptr) outGEMM {
	return outGEMM{block: attentionBlock, x: e.b.att, w: w.o, in: e.shape.attWidth(), post: w.attPost, next: next, name: "o_proj",
		postName: "post_attention_layernorm"}
}

func (e *Engine) mlpOut(w *layerWeights, next cuda.Ptr) outGEMM {
	return outGEMM{block: feedForward, x: e.b.act, w: w.down, in: e.shape.inner, post: w.mlpPost, next: next, name: "down_proj",
		postName: "post_feedforward_layernorm"}
}

// mlpNormName is the estimate's name of the norm before the feed-forward.
func (e *Engine) mlpNormName() string {
	if e.shape.outputNorm {
		return "pre_feedforward_layernorm"
	}
	return "post_attention_layernorm"
}

// blockOut is where the last GEMM of a block writes its sums: to the stream, or to a buffer if an
// all-reduce or a norm comes before.
func (e *Engine) blockOut(b block) cuda.Ptr {
	switch {
	case e.shape.ranks > 1:
		return e.b.exchange[b]
	case e.shape.outputNorm:
		return e.b.branch
	}
	return e.b.x
}

// addOut adds the last GEMM of a block, its all-reduce, the norm of its output and the residual sum. gemm is nil if
// cuBLASLt does the GEMM.
func (e *Engine) addOut(s *sequence, layer, rows int, gemm *gemmKernels, o outGEMM) {
	y := e.blockOut(o.block)
	switch {
	case gemm != nil && e.opt.fusesAllReduce(&e.shape):
		names := e.allReduceNames()
		s.add(layer, func() error { return e.queueGEMMAllReduce(gemm, &o) }, names[0], names[1:]...)
	case gemm != nil && y == e.b.x:
		s.add(layer, func() error { return e.queueResidual(gemm, o.x, o.w, o.in, o.next) }, o.name)
	case gemm != nil:
		s.add(layer, func() error { return e.queuePlain(gemm, y, o.x, o.w, o.in) }, o.name)
	default:
		s.add(layer, func() error { return e.gemm(y, o.x, o.w, e.outKey(rows, o.in)) }, o.name)
	}
	if gemm == nil || !e.opt.fusesAllReduce(&e.shape) {
		e.addAllReduce(s, layer, rows, o)
	}
	if o.post != 0 {
		e.addOutputNorm(s, layer, rows, &o)
	}
}

// addOutputNorm adds a block's output, in branch, to the stream after its norm.
func (e *Engine) addOutputNorm(s *sequence, layer, rows int, o *outGEMM) {
	b, sh := e.b, &e.shape
	h, squares := b.h, b.squares
	if o.next == 0 { // cuBLASLt does the next GEMM
		h, squares = 0, 0
	}
	l := cuda.Launch{Grid: cuda.Dim{X: rows}, Block: cuda.Dim{X: 1024}, Early: o.next != 0}
	s.add(layer, func() error {
		return e.p.normResidual.Queue(e.s, l, b.branch, o.post, b.x, int32(sh.hidden), sh.eps, h, squares, o.next)
	}, o.postName)
}

// queuePlain queues y = x·wᵀ in float32, without a norm.
func (e *Engine) queuePlain(gemm *gemmKernels, y, x, w cuda.Ptr, in int) error {
	return e.queueGEMM(gemm, gemm.plainGEMM, residualEpilogue, &gemmOperands{w: w, x: x, out: e.shape.hidden, in: in, y: y})
}
