package native

import "llmprof/measure/engine/native/cuda"

// planKey tells the products of cuBLASLt apart.
type planKey struct {
	rows, in, out  int
	typ            cuda.Type
	add, bias      bool
	sameOnAllRanks bool // has to be done in the same way on all ranks
}

// product queues y = x·wᵀ in 16 bits, or y += x·wᵀ on the float32 stream (add), or
// y = x·wᵀ to float32.
func (e *Engine) product(y, x, w cuda.Ptr, key planKey) error {
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

// projectPrompts queues queries, keys and values of rows tokens in 16 bits. A bias is
// added before they are rounded: after it, they would be rounded twice, and since
// a channel's bias is the same for all tokens, the second time by the same amount
// for most of them, which attention over a long context does not average out.
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

// plan finds how to do a product, timing what cuBLASLt proposes when it is asked
// for the first time. It must not be so asked while a graph is recorded, and y is
// overwritten: Prepare asks for all of them.
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
	e.plans[key] = p // Close finds it there
	if key.sameOnAllRanks {
		return p, nil
	}
	return p, p.Tune(e.s, y, x, w)
}

// promptKey is of the projection of prompts, stepKey of that of a step, whose
// attention adds the bias itself.
func (e *Engine) promptKey(rows int) planKey {
	return planKey{rows: rows, in: e.shape.hidden, out: e.shape.qkvWidth(), typ: e.shape.sixteen(), bias: e.shape.bias}
}

func (e *Engine) stepKey() planKey {
	return planKey{rows: e.opt.Batch, in: e.shape.hidden, out: e.shape.qkvWidth(), typ: cuda.Float32}
}

// outKey is of a block's last product, which adds to the stream where no norm and
// no sum over ranks is between.
func (e *Engine) outKey(rows, in int) planKey {
	return planKey{rows: rows, in: in, out: e.shape.hidden, typ: cuda.Float32, add: !e.shape.sandwich && e.shape.ranks == 1}
}

func (e *Engine) gateUpKey(rows int) planKey {
	return planKey{rows: rows, in: e.shape.hidden, out: 2 * e.shape.inner, typ: e.shape.sixteen()}
}

func (e *Engine) headKey() planKey {
	return planKey{rows: e.opt.Batch, in: e.shape.hidden, out: e.shape.tokens, typ: cuda.Float32}
}

// prepareProducts plans the layer's other products for rows tokens, so that no
// later pass has to.
func (e *Engine) prepareProducts(rows int) error {
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

// Prepare plans the products and records the decode step. It comes before the
// first Prefill, for it overwrites what that leaves.
func (e *Engine) Prepare() error {
	l, b := &e.w.layers[0], e.b
	for _, seqs := range e.groups() {
		rows := seqs * e.opt.PromptLen
		if _, err := e.plan(e.promptKey(rows), b.qkv, b.h, l.qkv, l.bias); err != nil {
			return err
		}
		if err := e.prepareProducts(rows); err != nil {
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
		if err := e.prepareProducts(e.opt.Batch); err != nil {
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

// ownProducts are the kernels that multiply in a decode step, nil if cuBLASLt
// does.
func (e *Engine) stepGEMM() *gemmKernels { return e.opt.stepGEMM(e.p.gemms) }

// own is that of the rings which serves the layers of a batch, nil where cuBLASLt does.
func (o *Options) stepGEMM(rings []gemmKernels) *gemmKernels {
	if o.Products == CublasGEMM {
		return nil
	}
	return gemmFor(rings, o.Quantization, o.Batch)
}

// ownHead is that which serves the LM head, whose weights have 16 bits always.
func (o *Options) headGEMM(rings []gemmKernels) *gemmKernels {
	if o.Products == CublasGEMM {
		return nil
	}
	return gemmFor(rings, Unquantized, o.Batch)
}

// scratch is how much memory the parts of a step's products need at once, of 16-bit
// weights and of quantized ones: bytes of sums, and counters.
func (o *Options) scratch(s *shape) (sums, counters int) {
	for _, gemm := range []*gemmKernels{o.stepGEMM(o.rings()), o.headGEMM(o.rings())} {
		if gemm != nil {
			a, b := gemm.scratch(s, o.sms)
			sums, counters = max(sums, a), max(counters, b)
		}
	}
	return sums, counters
}

// ProductsText says what multiplies in a decode step.
func (e *Engine) ProductsText() string {
	if e.stepGEMM() == nil {
		return "cuBLASLt"
	}
	return "own kernels"
}
