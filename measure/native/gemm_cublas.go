package native

import "llmprof/measure/native/cuda"

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
	e.plans[key], e.held = p, append(e.held, p.Close) // even if Tune fails
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

// A plannedGEMM is a GEMM of cuBLASLt with operands to try its algorithms on.
type plannedGEMM struct {
	key           planKey
	y, x, w, bias cuda.Ptr
}

// layerGEMMs are the GEMMs of a layer after qkv_proj, for rows tokens.
func (e *Engine) layerGEMMs(rows int) []plannedGEMM {
	l, b := &e.w.layers[0], e.b
	out := plannedGEMM{key: e.outKey(rows, e.shape.attWidth()), y: e.blockOut(attentionBlock), x: b.att, w: l.o}
	if e.shape.experts > 0 {
		return []plannedGEMM{out, {key: e.routerKey(rows), y: b.router, x: b.h, w: l.router}}
	}
	return []plannedGEMM{
		out, {key: e.gateUpKey(rows), y: b.gateUp, x: b.h, w: l.gateUp},
		{key: e.outKey(rows, e.shape.inner), y: e.blockOut(feedForward), x: b.act, w: l.down},
	}
}

// Prepare plans the GEMMs and records the decode step. It comes before the first Prefill, because it
// overwrites what a prefill leaves.
func (e *Engine) Prepare() error {
	l, b := &e.w.layers[0], e.b
	var all []plannedGEMM
	for _, seqs := range e.groups() {
		rows := seqs * e.opt.PromptLen
		all = append(all, plannedGEMM{key: e.promptKey(rows), y: b.qkv, x: b.h, w: l.qkv, bias: l.bias})
		all = append(all, e.layerGEMMs(rows)...)
	}
	all = append(all, plannedGEMM{key: e.headKey(), y: b.logits, x: b.lastH, w: e.w.head})
	switch {
	case e.stepGEMM() == nil:
		all = append(all, plannedGEMM{key: e.stepKey(), y: b.qkvStep, x: b.h, w: l.qkv})
		all = append(all, e.layerGEMMs(e.opt.Batch)...)
	case e.headGEMM() == nil && e.shape.experts > 0:
		all = append(all, plannedGEMM{key: e.routerKey(e.opt.Batch), y: b.router, x: b.lastH, w: l.router})
	}
	for i := range all {
		g := &all[i]
		if _, err := e.plan(g.key, g.y, g.x, g.w, g.bias); err != nil {
			return err
		}
	}
	if err := e.s.Sync(); err != nil || e.opt.Eager {
		return err
	}
	var err error
	if e.step, err = e.s.Record(e.queueStep); err == nil {
		e.held = append(e.held, e.step.Close)
	}
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
func (e *Engine) stepGEMM() *gemmKernels { return e.opt.gemmFor(e.p.gemms, e.opt.Quantization) }

// headGEMM returns the kernels for the LM head, whose weights always have 16 bits.
func (e *Engine) headGEMM() *gemmKernels { return e.opt.gemmFor(e.p.gemms, Unquantized) }

// gemmFor returns the kernels for weights of a format at the options' batch, or nil if cuBLASLt does
// the GEMMs.
func (o *Options) gemmFor(rings []gemmKernels, quant Quantization) *gemmKernels {
	if o.GEMM == CublasGEMM {
		return nil
	}
	return gemmFor(rings, quant, o.Batch)
}

// scratch is the memory that split-K of a step's GEMMs needs at once, for 16-bit and quantized
// weights: bytes of sums, and counters.
func (o *Options) scratch(s *shape) (sums, counters int) {
	for _, gemm := range []*gemmKernels{o.gemmFor(o.rings(), o.Quantization), o.gemmFor(o.rings(), Unquantized)} {
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
