package native

import "llmprof/measure/engine/native/cuda"

// planKey tells the products of cuBLASLt apart.
type planKey struct {
	rows, in, out int
	typ           cuda.Type
	add           bool
}

// product queues y = x·wᵀ in bf16 (add false, bf16), or y += x·wᵀ on the float32
// stream (add), or y = x·wᵀ to float32.
func (e *Engine) product(y, x, w cuda.Ptr, key planKey) error {
	p, err := e.plan(key, y, x, w)
	if err != nil {
		return err
	}
	return p.Queue(e.s, y, x, w)
}

// plan finds how to do a product, timing what cuBLASLt proposes when it is asked
// for the first time. It must not be so asked while a graph is recorded, and y is
// overwritten: Prepare asks for all of them.
func (e *Engine) plan(key planKey, y, x, w cuda.Ptr) (*cuda.Matmul, error) {
	if p, ok := e.plans[key]; ok {
		return p, nil
	}
	m := cuda.Matmul{Rows: key.rows, In: key.in, Out: key.out, Input: cuda.BFloat16, Output: key.typ}
	if key.add {
		m.Beta = 1
	}
	p, err := e.dev.Plan(m)
	if err != nil {
		return nil, err
	}
	e.plans[key] = p // Close finds it there
	return p, p.Tune(e.s, y, x, w)
}

func (e *Engine) qkvKey(rows int, typ cuda.Type) planKey {
	return planKey{rows: rows, in: e.shape.hidden, out: e.shape.qkvWidth(), typ: typ}
}

// outKey and downKey are of the products that end a block: added to the stream, or
// left for the sum over the ranks.
func (e *Engine) outKey(rows int) planKey {
	return planKey{rows: rows, in: e.shape.attWidth(), out: e.shape.hidden, typ: cuda.Float32, add: e.shape.ranks == 1}
}

func (e *Engine) gateUpKey(rows int) planKey {
	return planKey{rows: rows, in: e.shape.hidden, out: 2 * e.shape.inner, typ: cuda.BFloat16}
}

func (e *Engine) downKey(rows int) planKey {
	return planKey{rows: rows, in: e.shape.inner, out: e.shape.hidden, typ: cuda.Float32, add: e.shape.ranks == 1}
}

func (e *Engine) headKey() planKey {
	return planKey{rows: e.opt.Batch, in: e.shape.hidden, out: e.shape.tokens, typ: cuda.Float32}
}

// prepareProducts plans the layer's products for rows tokens, so that no later
// pass has to.
func (e *Engine) prepareProducts(rows int, qkv cuda.Ptr, typ cuda.Type) error {
	l, b := &e.w.layers[0], e.b
	if _, err := e.plan(e.qkvKey(rows, typ), qkv, b.h, l.qkv); err != nil {
		return err
	}
	if _, err := e.plan(e.outKey(rows), e.blockOut(attentionBlock), b.att, l.o); err != nil {
		return err
	}
	if _, err := e.plan(e.gateUpKey(rows), b.gateUp, b.h, l.gateUp); err != nil {
		return err
	}
	_, err := e.plan(e.downKey(rows), e.blockOut(feedForward), b.act, l.down)
	return err
}

// Prepare plans the products and records the decode step. It comes before the
// first Prefill, for it overwrites what that leaves.
func (e *Engine) Prepare() error {
	for _, seqs := range e.groups() {
		if err := e.prepareProducts(seqs*e.opt.PromptLen, e.b.qkv, cuda.BFloat16); err != nil {
			return err
		}
	}
	if _, err := e.plan(e.headKey(), e.b.logits, e.b.lastH, e.w.head); err != nil {
		return err
	}
	if e.ownProducts() == nil {
		if err := e.prepareProducts(e.opt.Batch, e.b.qkvStep, cuda.Float32); err != nil {
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
func (e *Engine) ownProducts() *linearKernels { return e.opt.own(e.p.linear) }

// own is that of the rings which serves the batch, nil where cuBLASLt does.
func (o *Options) own(rings []linearKernels) *linearKernels {
	if o.Products == CublasProducts {
		return nil
	}
	return linearFor(rings, o.Batch)
}

// ProductsText says what multiplies in a decode step.
func (e *Engine) ProductsText() string {
	if e.ownProducts() == nil {
		return "cuBLASLt"
	}
	return "own kernels"
}
