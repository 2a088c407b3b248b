package native

import (
	"errors"
	"fmt"

	"llmprof/analytic/operator"
	"llmprof/measure/native/cuda"
	"llmprof/models"
)

// An arena allocates memory and frees it together. After the first error it allocates nothing.
type arena struct {
	dev       *cuda.Device
	allocated []cuda.Ptr
	err       error
}

func (a *arena) take(what string, bytes int) (p cuda.Ptr) {
	if a.err != nil {
		return 0
	}
	if p, a.err = a.dev.Alloc(what, bytes); a.err == nil {
		a.allocated = append(a.allocated, p)
	}
	return p
}

// filled is memory of which each byte is v.
func (a *arena) filled(what string, v byte, bytes int) cuda.Ptr {
	p := a.take(what, bytes)
	if a.err == nil {
		a.err = a.dev.Fill(p, v, bytes)
	}
	return p
}

func (a *arena) free() error {
	var err error
	for _, p := range a.allocated {
		err = errors.Join(err, a.dev.Free(p))
	}
	return err
}

// random allocates memory for n values of bf16 and fills it.
func (b *Bencher) random(a *arena, what string, n int) cuda.Ptr {
	p := a.take(what, 2*n)
	if a.err == nil {
		a.err = b.p.fillRandom.Queue(b.s, filling(uint64(n)), p, uint64(n), tensorSeed(1, what), randomScale)
	}
	return p
}

// done returns the operation, or frees the memory after an error.
func (b *Bencher) done(a *arena, op *operation) (*operation, error) {
	if a.err != nil {
		return nil, errors.Join(a.err, a.free())
	}
	op.s, op.free = b.s, a.free
	return op, nil
}

// gemm is x·wᵀ by the engine's skinny GEMM for few rows, and by cuBLASLt otherwise.
func (b *Bencher) gemm(q *Query) (*operation, error) {
	m, n, k := q.Shape["m"], q.Shape["n"], q.Shape["k"]
	copies, cold := sets(2*n*k, q.Rotate)
	a := &arena{dev: b.dev}
	w, x, y := b.random(a, "weights", copies*n*k), b.random(a, "inputs", m*k), a.take("outputs", 4*m*n)
	queue, free := b.multiply(a, &timedGEMM{m: m, n: n, k: k, y: y, x: x, w: w})
	op, err := b.done(a, inTurn(copies, 2*m*n*k, 2*n*k, cold, func(i int) error { return queue(w.Add(2 * i * n * k)) }))
	if err == nil {
		op.free = func() error { return errors.Join(free(), a.free()) }
	}
	return op, err
}

// A timedGEMM is y = x·wᵀ of m rows, n outputs and k inputs.
type timedGEMM struct {
	m, n, k int
	y, x, w cuda.Ptr
}

// multiply returns a function that queues one GEMM with the weights at w.
func (b *Bencher) multiply(a *arena, t *timedGEMM) (queue func(w cuda.Ptr) error, free func() error) {
	if gemm := gemmFor(b.p.gemms, Unquantized, t.m); gemm != nil {
		return b.multiplySkinny(a, gemm, t), func() error { return nil }
	}
	if a.err != nil {
		return nil, nil
	}
	plan, err := b.dev.Plan(cuda.Matmul{Rows: t.m, In: t.k, Out: t.n, Input: cuda.BFloat16, Output: cuda.BFloat16})
	if err != nil {
		a.err = err
		return nil, nil
	}
	if err := plan.Tune(b.s, t.y, t.x, t.w); err != nil {
		a.err = errors.Join(err, plan.Close())
	}
	return func(w cuda.Ptr) error { return plan.Queue(b.s, t.y, t.x, w) }, plan.Close
}

func (b *Bencher) multiplySkinny(a *arena, gemm *gemmKernels, t *timedGEMM) (queue func(w cuda.Ptr) error) {
	squares := a.filled("the norms' sums", 0x3f, 4*t.m*t.k/16) // float32 of about 0.75 each
	c := gemm.splitKFor(t.n, t.k, storeEpilogue, b.dev.SMs)
	var partial, whole cuda.Ptr
	if c.parts > 1 {
		partial, whole = a.take("the GEMM's parts", c.tiles*c.parts*gemm.sums()), a.filled("the GEMM's counters", 0, 4*c.tiles)
	}
	l := gemm.launch(c, b.dev.SMs, gemm.of(storeEpilogue))
	split := splitKBuffers{parts: c.parts, sums: partial, arrived: whole}
	return func(w cuda.Ptr) error {
		o := gemmOperands{w: w, x: t.x, out: t.n, in: t.k, squares: squares, y: t.y}
		return gemm.normGEMM.Queue(b.s, l, o.skinnyArgs(t.m, 1e-5, &split, nil)...)
	}
}

// activation is SwiGLU, one kernel that reads two tensors and writes a third.
func (b *Bencher) activation(q *Query) (*operation, error) {
	tokens, width := q.Shape["tokens"], q.Shape["width"]
	copies, cold := sets(6*tokens*width, q.Rotate)
	a := &arena{dev: b.dev}
	in, out := b.random(a, "gate and up", 2*copies*tokens*width), a.take("activations", 2*copies*tokens*width)
	l := cuda.Launch{Grid: cuda.Dim{X: (width/8 + 127) / 128, Y: tokens}, Block: cuda.Dim{X: 128}}
	return b.done(a, inTurn(copies, 0, 6*tokens*width, cold, func(i int) error {
		return b.p.activation.Queue(b.s, l, in.Add(4*i*tokens*width), out.Add(2*i*tokens*width), int32(width))
	}))
}

// nodes are small kernels one after the other.
func (b *Bencher) nodes(q *Query) (*operation, error) {
	a := &arena{dev: b.dev}
	const n = 1024
	at := a.take("a tiny tensor", 2*n)
	l := cuda.Launch{Grid: cuda.Dim{X: 1}, Block: cuda.Dim{X: 256}}
	return b.done(a, &operation{calls: 1, queue: func() error {
		for range q.Shape["launches"] {
			if err := b.p.fillConstant.Queue(b.s, l, at, uint64(n), float32(0)); err != nil {
				return err
			}
		}
		return nil
	}})
}

// moves reads memory, or copies it.
func (b *Bencher) moves(q *Query) (*operation, error) {
	bytes := q.Shape["bytes"] / 16 * 16
	if bytes == 0 {
		return nil, fmt.Errorf("native: %s of %d bytes: 16 are read at once", q.Kind, q.Shape["bytes"])
	}
	copies, cold := sets(bytes, q.Rotate)
	a := &arena{dev: b.dev}
	from := b.random(a, "what is read", copies*bytes/2)
	if q.Kind == "copy" {
		to := a.take("a copy", copies*bytes)
		return b.done(a, inTurn(copies, 0, 2*bytes, cold, func(i int) error {
			return b.s.Copy(to.Add(i*bytes), from.Add(i*bytes), bytes)
		}))
	}
	sink := a.take("a sink", 4)
	l := cuda.Launch{Grid: cuda.Dim{X: 8 * b.dev.SMs}, Block: cuda.Dim{X: 512}}
	return b.done(a, inTurn(copies, 0, bytes, cold, func(i int) error {
		return b.p.probeRead.Queue(b.s, l, from.Add(i*bytes), uint64(bytes/16), sink)
	}))
}

// maxBenchLayers bounds the layers whose caches are rotated.
const maxBenchLayers = 64

// attentionOptions are the options of an engine with the attention of a query, in enough layers that
// all caches together exceed the L2.
func attentionOptions(q *Query) (o Options, cold bool, err error) {
	s := q.Shape
	// No GEMM is timed; the engine's own would have to be compiled.
	o = Options{Seed: 1, Workload: operator.Workload{Batch: 1, PromptLen: s["tokens"], GenLen: 1}, GEMM: CublasGEMM}
	layers := 1
	if q.Kind == "attention_decode" {
		o.Batch, o.PromptLen, o.GenLen = s["batch"], s["context"], 2 // The cache has room for the step's own token.
		layers, cold = sets(4*s["batch"]*s["kv_heads"]*s["head_dim"]*s["context"], q.Rotate)
		if layers > maxBenchLayers {
			layers, cold = maxBenchLayers, false
		}
	}
	o.Config = denseConfig(map[string]int{"hidden": 256, "width": 256, "heads": s["heads"], "kv_heads": s["kv_heads"],
		"head_dim": s["head_dim"], "n": 256}, layers, false)
	return o, cold, o.readModel(q)
}

// readModel reads the config.json that the options of a query have, and checks them.
func (o *Options) readModel(q *Query) (err error) {
	if o.Model, err = models.Read("bench", o.Config); err != nil {
		return fmt.Errorf("native: %s of %v: %w", q.Kind, q.Shape, err)
	}
	return Check(o)
}

// attention times the attention of an engine that is opened for it: of one prompt, or of a step after
// a context.
func (b *Bencher) attention(q *Query) (*operation, error) {
	o, cold, err := attentionOptions(q)
	if err != nil {
		return nil, err
	}
	e, err := b.open(o)
	if err != nil {
		return nil, err
	}
	if err := e.fillAttention(); err != nil {
		return nil, errors.Join(err, e.Close())
	}
	s := q.Shape
	op := inTurn(len(e.w.layers), 0, 4*s["batch"]*s["kv_heads"]*s["head_dim"]*s["context"], cold, e.queueAttention)
	if q.Kind == "attention_prefill" { // Causal attention is half of two GEMMs.
		op = inTurn(1, 2*s["tokens"]*s["tokens"]*s["heads"]*s["head_dim"], 0, cold, func(int) error { return e.queuePrefillAttention(0, 0, 1) })
	}
	op.s, op.free = e.s, e.Close
	return op, nil
}

// A span is so many values of a buffer, in bf16.
type span struct {
	at     cuda.Ptr
	values int
}

func (e *Engine) queueRandom(spans ...span) error {
	for i, t := range spans {
		n := uint64(t.values)
		if err := e.p.fillRandom.Queue(e.s, filling(n), t.at, n, uint64(i+1), float32(1)); err != nil {
			return err
		}
	}
	return nil
}

// fillAttention fills what attention reads with random numbers, and puts the
// step's token at the end of the context.
func (e *Engine) fillAttention() error {
	if err := e.queueRandom(span{e.b.kCache, e.b.kv / 4}, span{e.b.vCache, e.b.kv / 4},
		span{e.b.qkv, e.b.rows * e.shape.qkvWidth()}); err != nil {
		return err
	}
	if err := e.s.Fill(e.b.qkvStep, 0x3e, 4*e.opt.Batch*e.shape.qkvWidth()); err != nil { // float32 of about 0.19 each
		return err
	}
	if err := e.setPositions(e.opt.PromptLen - 1); err != nil {
		return err
	}
	return e.s.Sync()
}
