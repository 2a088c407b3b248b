package native

import "llmprof/measure/engine/native/cuda"

// quantizedMoEKernels are the kernels of moe_quantized.cu; they are nil if experts have 16-bit
// weights.
type quantizedMoEKernels struct{ gateUp, down *cuda.Kernel }

func (m *quantizedMoEKernels) names() map[string]**cuda.Kernel {
	return map[string]**cuda.Kernel{"experts_gate_up_quantized": &m.gateUp, "experts_down_quantized": &m.down}
}

// stepQuantizedExperts is stepExperts with quantized weights.
func (e *Engine) stepQuantizedExperts(s *sequence, i int, next cuda.Ptr) {
	sh, b, w, n := &e.shape, e.b, &e.w.layers[i], e.opt.Batch
	experts, hidden, inner, top := int32(sh.experts), int32(sh.hidden), int32(sh.inner), int32(sh.topK)
	if gemm := e.headGEMM(); gemm != nil { // The router has 16-bit weights.
		s.add(i, func() error { return e.queueScores(gemm, b.router, w.router, sh.experts) }, "router", "post_attention_layernorm")
	} else {
		s.add(i, func() error { return e.queueNorm(w.mlpNorm, b.lastH, n, 1, 0) }, "post_attention_layernorm")
		s.add(i, func() error { return e.gemm(b.router, b.lastH, w.router, e.routerKey(n)) }, "router")
	}
	s.add(i, func() error { return e.queueTopK(n, true) }, "top_k")
	s.add(i, func() error {
		l, q := cuda.Launch{Grid: cuda.Dim{X: n * sh.topK, Y: (sh.inner + 7) / 8}, Block: cuda.Dim{X: 256}, Early: true}, e.w.quantized[w.gateUp]
		return e.p.moe.quantized.gateUp.Queue(e.s, l, w.gateUp, q.scales, q.zeros, b.h, b.squares, b.chosen, experts, hidden, inner, top, sh.eps, b.act)
	}, "experts_gate_up", "experts_activation")
	s.add(i, func() error {
		l, q := cuda.Launch{Grid: cuda.Dim{X: n, Y: sh.hidden / 16}, Block: cuda.Dim{X: 512}, Early: true}, e.w.quantized[w.down]
		return e.p.moe.quantized.down.Queue(e.s, l, w.down, q.scales, q.zeros, b.act, b.chosen, b.shares, experts, hidden, inner, top,
			e.blockOut(feedForward), b.h, b.squares, next)
	}, "experts_down")
	e.addAllReduce(s, i, n, outGEMM{block: feedForward, next: next})
}
