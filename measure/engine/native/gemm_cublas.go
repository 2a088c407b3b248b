package native

import "llmprof/measure/engine/native/cuda"

// A planKey distinguishes the GEMMs of cuBLASLt.
type planKey struct {
	rows, in, out  int
	typ            cuda.Type
	add, bias      bool
	sameOnAllRanks bool // All ranks have to use the same algorithm.
}

// gemm queues y = x·wᵀ in 16 bits, y += x·wᵀ on the float32 residual stream (add), or y = x·wᵀ in
// float32.
func (e *Engine) gemm(y, x, w cuda.Ptr, key planKey) error {
	w, err := e.dequantize(w, key.out, key.in)
	if err != nil {
		return err
	}
	p, err := e.plan(key, y, x, w, 0)
	if err != nil {
		return err
	}
	return p.Queue(e.s, y, x, w)
}

// projectPrompts queues qkv_proj of rows tokens in 16 bits. The bias is added before the sums are
// rounded. Added after it, sums would be rounded twice. The bias of a channel is equal for all tokens,
// so the second rounding would shift most of them by the same amount, which attention over a long
// context does not average out.
func (e *Engine) projectPrompts(l *layerWeights, rows int) error {
	w, err := e.dequantize(l.qkv, e.shape.qkvWidth(), e.shape.hidden)
	if err != nil {
		return err
	}
	p, err := e.plan(e.promptKey(rows), e.b.qkv, e.b.h, w, l.bias)
	if err != nil {
		return err
	}
	if l.bias != 0 {
		if err := p.SetBias(l.bias); err != nil {
			return err
		}
	}
	return p.Queue(e.s, e.b.qkv, e.b.h, w)
}

// plan finds the algorithm for a GEMM. It times cuBLASLt's proposals when it is first asked, which
// overwrites y and must not happen while a graph is recorded; so Prepare asks for all GEMMs.
func (e *Engine) plan(key planKey, y, x, w, bias cuda.Ptr) (*cuda.Matmul, error) {
	if p, ok := e.plans[key]; ok {
		return p, nil
	}
	if _, ok := e.w.quantized[w]; ok {
		w = e.b.dequantized
	}
	m := cuda.Matmul{Rows: key.rows, In: key.in, Out: key.out, Input: e.shape.sixteen(), Output: key.typ, Bias: bias}
	if key.add {
		m.Beta = 1
	}
	p, err := e.dev.Plan(m)
	if err != nil {
		return nil, err
	}
	e.plans[key] = p // Close finds it there, even if Tune fails.
	if key.sameOnAllRanks {
		return p, nil
	}
	return p, p.Tune(e.s, y, x, w)
}

// promptKey is qkv_proj of a prefill; stepKey is qkv_proj of a decode step, whose attention adds the
// bias.
func (e *Engine) promptKey(rows int) planKey {
	return planKey{rows: rows, in: e.shape.hidden, out: e.shape.qkvWidth(), typ: e.shape.sixteen(), bias: e.shape.bias}
}

func (e *Engine) stepKey() planKey {
	return planKey{rows: e.opt.Batch, in: e.shape.hidden, out: e.shape.qkvWidth(), typ: cuda.Float32}
}

// outKey is the last GEMM of a block. It adds to the stream unless a norm or an all-reduce comes
// between.
func (e *Engine) outKey(rows, in int) planKey {
	return planKey{rows: rows, in: in, out: e.shape.hidden, typ: cuda.Float32, add: !e.shape.outputNorm && e.shape.ranks == 1}
}

func (e *Engine) gateUpKey(rows int) planKey {
	return planKey{rows: rows, in: e.shape.hidden, out: 2 * e.shape.inner, typ: e.shape.sixteen()}
}

func (e *Engine) headKey() planKey {
	return planKey{rows: e.opt.Batch, in: e.shape.hidden, out: e.shape.tokens, typ: cuda.Float32}
}

// prepareGEMMs plans the layer's other GEMMs for rows tokens.
func (e *Engine) prepareGEMMs(rows int) error {
	l, b := &e.w.layers[0], e.b
	if _, err := e.plan(e.outKey(rows, e.shape.attWidth()), e.blockOut(attentionBlock), b.att, l.o, 0); err != nil {
		return err
	}
	if e.shape.experts > 0 {
		_, err := e.plan(e.routerKey(rows), b.router, b.h, l.router, 0)
		return err
	}
	if _, err := e.plan(e.gateUpKey(rows), b.gateUp, b.h, l.gateUp, 0); err != nil {
		return err
	}
	_, err := e.plan(e.outKey(rows, e.shape.inner), e.blockOut(feedForward), b.act, l.down, 0)
	return err
}

// Prepare plans the GEMMs and records the decode step. It comes before the first Prefill, because it
// overwrites what a prefill leaves.
func (e *Engine) Prepare() error {
	l, b := &e.w.layers[0], e.b
	for _, seqs := range e.groups() {
		rows := seqs * e.opt.PromptLen
		if _, err := e.plan(e.promptKey(rows), b.qkv, b.h, l.qkv, l.bias); err != nil {
			return err
		}
		if err := e.prepareGEMMs(rows); err != nil {
			return err
		}
	}
	if _, err := e.plan(e.headKey(), b.logits, b.lastH, e.w.head, 0); err != nil {
		return err
	}
	if e.stepGEMM() != nil && e.opt.headGEMM(e.p.gemms) == nil && e.shape.experts > 0 {
		if _, err := e.plan(e.routerKey(e.opt.Batch), b.router, b.lastH, l.router, 0); err != nil {
			return err
		}
	}
	if e.stepGEMM() == nil {
		if _, err := e.plan(e.stepKey(), b.qkvStep, b.h, l.qkv, 0); err != nil {
			return err
		}
		if err := e.prepareGEMMs(e.opt.Batch); err != nil {
			return err
		}
	}
	if err := e.s.Sync(); err != nil || e.opt.Eager {
		return err
	}
	var err error
	e.step, err = e.s.Record(e.queueStep)
	return err
}

// groups are the numbers of sequences that go through a prefill together.
func (e *Engine) groups() []int {
	most := e.b.rows / e.opt.PromptLen
	var out []int
	for left := e.opt.Batch; left > 0; left -= min(most, left) {
		out = append(out, min(most, left))
	}
	return out
}

// stepGEMM returns the engine's GEMM kernels for the layers of a decode step, or nil if cuBLASLt does
// them.
func (e *Engine) stepGEMM() *gemmKernels { return e.opt.stepGEMM(e.p.gemms) }

// stepGEMM returns the kernels for the layers of a decode step at the options' batch, or nil if
// cuBLASLt does them.
func (o *Options) stepGEMM(rings []gemmKernels) *gemmKernels {
	if o.GEMM == CublasGEMM {
		return nil
	}
	return gemmFor(rings, o.Quantization, o.Batch)
}

// headGEMM returns the kernels for the LM head, whose weights always have 16 bits.
func (o *Options) headGEMM(rings []gemmKernels) *gemmKernels {
	if o.GEMM == CublasGEMM {
		return nil
	}
	return gemmFor(rings, Unquantized, o.Batch)
}

// scratch is the memory that split-K of a step's GEMMs needs at once, for 16-bit and quantized
// weights: bytes of sums, and counters.
func (o *Options) scratch(s *shape) (sums, counters int) {
	for _, gemm := range []*gemmKernels{o.stepGEMM(o.rings()), o.headGEMM(o.rings())} {
		if gemm != nil {
			a, b := gemm.scratch(s, o.sms)
			sums, counters = max(sums, a), max(counters, b)
		}
	}
	return sums, counters
}

// GEMMText says what does the GEMMs of a decode step.
func (e *Engine) GEMMText() string {
	if e.stepGEMM() == nil {
		return "cuBLASLt"
	}
	return "native kernels"
}
