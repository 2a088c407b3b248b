package native

import (
	"fmt"

	"llmprof/measure/native/cuda"
)

// queueStep queues one decode step: the next token of each sequence goes through the model, the
// position advances, and the last kernel writes the new tokens to the host's memory.
func (e *Engine) queueStep() error {
	return e.decode.queue()
}

func (e *Engine) decodeSequence() sequence {
	gemm := e.stepGEMM()
	var s sequence
	if e.usesMegakernel() {
		e.stepMegakernel(&s)
		return s
	}
	e.addEmbedding(&s)
	for i := range e.w.layers {
		if gemm != nil {
			e.stepLayer(&s, i, gemm)
		} else {
			e.stepLayerCublas(&s, i)
		}
	}
	e.addHead(&s)
	return s
}

func (e *Engine) addEmbedding(s *sequence) {
	fusedNorm := e.stepGEMM() != nil
	s.add(once, func() error { return e.queueFirst(fusedNorm) }, "embedding", e.onRanks("embedding_all_reduce")...)
}

// addHead adds the final norm, the LM head and sampling.
func (e *Engine) addHead(s *sequence) {
	if head := e.headGEMM(); head != nil {
		s.add(once, func() error { return e.queueScores(head, e.b.logits, e.w.head, e.shape.tokens) }, "lm_head", "norm")
	} else {
		s.add(once, func() error { return e.queueNorm(e.w.norm, e.b.lastH, e.opt.Batch, 1, 0) }, "norm")
		s.add(once, e.queueHead, "lm_head")
	}
	s.add(once, e.queueSampling, "sampling", e.onRanks("logits_all_gather")...)
}

// queueHead queues the LM head by cuBLASLt.
func (e *Engine) queueHead() error { return e.gemm(e.b.logits, e.b.lastH, e.w.head, e.headKey()) }

// queueFirst queues the embedding. It does not start early, so every kernel that follows finds the
// previous step complete: attention reads positions and cache before it waits for the kernel before
// it.
func (e *Engine) queueFirst(fusedNorm bool) error {
	b := e.b
	h, sq, norm := cuda.Ptr(0), cuda.Ptr(0), cuda.Ptr(0)
	if fusedNorm {
		h, sq, norm = b.h, b.squares, e.w.layers[0].attNorm
	}
	l := cuda.Launch{Grid: cuda.Dim{X: e.opt.Batch}, Block: cuda.Dim{X: 1024}}
	return e.queueEmbedding(l, b.nextToken, h, sq, norm)
}

// queueEmbedding queues the embedding of tokens and, if norm is given, the inputs of the first GEMM.
func (e *Engine) queueEmbedding(l cuda.Launch, tokens, h, squares, norm cuda.Ptr) error {
	if e.shape.ranks > 1 {
		return e.p.embeddingShared.Queue(e.s, l, tokens, e.b.embeddings, int32(e.shape.tokensEach(e.shape.ranks)), e.b.x, int32(e.shape.hidden),
			h, squares, norm)
	}
	return e.p.embedding.Queue(e.s, l, tokens, e.w.embedding, e.b.x, int32(e.shape.hidden), h, squares, norm)
}

// stepLayer adds one layer by the engine's own GEMMs. The last arguments of each call name what it
// prepares for the next GEMM.
func (e *Engine) stepLayer(s *sequence, i int, gemm *gemmKernels) {
	sh, b, w := &e.shape, e.b, &e.w.layers[i]
	after := e.w.norm
	if i+1 < len(e.w.layers) {
		after = e.w.layers[i+1].attNorm
	}
	s.add(i, func() error { return e.queueScores(gemm, b.qkvStep, w.qkv, sh.qkvWidth()) }, "qkv_proj", "input_layernorm")
	e.addAttention(s, i)
	e.addOut(s, i, e.opt.Batch, gemm, e.attentionOut(w, w.mlpNorm))
	if sh.experts > 0 {
		e.stepExperts(s, i, gemm, after)
		return
	}
	s.add(i, func() error { return e.queueGateUp(gemm, w) }, "gate_up_proj", e.mlpNormName(), "activation")
	e.addOut(s, i, e.opt.Batch, gemm, e.mlpOut(w, after))
}

// addAttention adds the attention of a decode step.
func (e *Engine) addAttention(s *sequence, i int) {
	names := e.attentionNames()
	s.add(i, func() error { return e.queueAttention(i) }, names[0], append(names[1:], e.rotaryName(), "kv_write")...)
}

// queueScores queues y = rms_norm(x)·wᵀ in float32.
func (e *Engine) queueScores(gemm *gemmKernels, y, w cuda.Ptr, n int) error {
	sh, b := &e.shape, e.b
	if h := gemm.halve(n, e.opt.sms); h != nil {
		gemm = h
	}
	return e.queueGEMM(gemm, gemm.normGEMM, storeEpilogue, &gemmOperands{w: w, x: b.h, out: n, in: sh.hidden, squares: b.squares, y: y})
}

func (e *Engine) queueGateUp(gemm *gemmKernels, w *layerWeights) error {
	sh, b := &e.shape, e.b
	return e.queueGEMM(gemm, gemm.swigluGEMM, swigluEpilogue,
		&gemmOperands{w: w.gateUp, x: b.h, out: sh.inner, in: sh.hidden, squares: b.squares, y16: b.act})
}

// queueResidual queues a GEMM whose sums are added to the stream.
func (e *Engine) queueResidual(gemm *gemmKernels, x, w cuda.Ptr, in int, norm cuda.Ptr) error {
	sh, b := &e.shape, e.b
	return e.queueGEMM(gemm, gemm.residualGEMM, residualEpilogue,
		&gemmOperands{w: w, x: x, out: sh.hidden, in: in, y: b.x, y16: b.h, nextSquares: b.squares, nextNorm: norm})
}

// queueAttention queues the attention of a decode step for layer i.
func (e *Engine) queueAttention(i int) error {
	sh, b, w := &e.shape, e.b, &e.w.layers[i]
	k, v := b.layerCache(sh, i, 0)
	l := e.p.decode.launch(b.splits, sh.kvHeads, e.opt.Batch)
	l.Early = true
	return e.p.attentionDecode.Queue(e.s, l, b.qkvStep, w.bias, w.qNorm, w.kNorm, e.frequencies(i), k, v, b.positions,
		b.parts, b.peaks, b.arrived, b.att, int32(b.layers[i].capacity), sh.eps, sh.scale())
}

func (e *Engine) stepLayerCublas(s *sequence, i int) {
	b, w := e.b, &e.w.layers[i]
	n := e.opt.Batch
	s.add(i, func() error { return e.queueNorm(w.attNorm, b.h, n, 1, 0) }, "input_layernorm")
	s.add(i, func() error { return e.gemm(b.qkvStep, b.h, w.qkv, e.stepKey()) }, "qkv_proj")
	e.addAttention(s, i)
	e.addOut(s, i, n, nil, e.attentionOut(w, 0))
	e.addMLP(s, i, n)
}

// queueSampling queues the choice of the next tokens.
func (e *Engine) queueSampling() error {
	b := e.b
	l := cuda.Launch{Grid: cuda.Dim{X: 64, Y: e.opt.Batch}, Block: cuda.Dim{X: 256}, Early: true}
	if e.shape.ranks > 1 {
		return e.queueSamplingShared(l)
	}
	return e.p.sampling.Queue(e.s, l, b.logits, int32(e.shape.vocab), b.best, b.sampled, b.nextToken, b.positions, e.next.Ptr())
}

// Prefill reads the prompts and returns the first token of each sequence.
func (e *Engine) Prefill() ([]int32, error) {
	if err := e.StartPrefill(); err != nil {
		return nil, err
	}
	return e.tokens()
}

// StartPrefill queues a prefill. Its last kernel writes the tokens to the host's memory.
func (e *Engine) StartPrefill() error {
	if err := e.queuePrefill(); err != nil {
		return err
	}
	e.left = e.opt.GenLen - 1
	return nil
}

// Step generates one token a sequence after those in the cache.
func (e *Engine) Step() ([]int32, error) {
	if err := e.StartStep(); err != nil {
		return nil, err
	}
	return e.tokens()
}

// StartStep queues a decode step, which writes its tokens to the host. The cache has room for GenLen-1
// steps after a prefill or Rewind.
func (e *Engine) StartStep() error {
	if err := e.takeStep(); err != nil {
		return err
	}
	if e.opt.Eager {
		return e.queueStep()
	}
	if e.step == nil {
		return fmt.Errorf("native: a step came before Prepare")
	}
	return e.step.Launch(e.s)
}

// takeStep takes a step's room in the cache.
func (e *Engine) takeStep() error {
	if e.left < 1 {
		return fmt.Errorf("native: the cache of %d tokens is full, or no prompt was read into it", e.b.capacity)
	}
	e.left--
	return nil
}

// tokens waits for the tokens that the last step wrote to the host's memory.
func (e *Engine) tokens() ([]int32, error) {
	if err := e.s.Sync(); err != nil {
		return nil, err
	}
	for i, t := range e.next.Data {
		if t < 0 || int(t) >= e.shape.vocab {
			return nil, fmt.Errorf("native: sequence %d got the token %d, outside of the vocabulary of %d", i, t, e.shape.vocab)
		}
	}
	return append([]int32(nil), e.next.Data...), nil
}

// Rewind makes the next Step the first after a prompt that is in the cache; first are the tokens that
// its prefill gave. Later steps left entries in the cache that are overwritten before they are read;
// what they overwrote in a window's cache is restored.
func (e *Engine) Rewind(first []int32) error {
	if len(first) != e.opt.Batch {
		return fmt.Errorf("native: %d tokens for a batch of %d", len(first), e.opt.Batch)
	}
	if err := cuda.Upload(e.dev, e.b.nextToken, first); err != nil {
		return err
	}
	if err := e.setPositions(e.opt.PromptLen); err != nil {
		return err
	}
	if err := e.rewindWindows(); err != nil {
		return err
	}
	e.left = e.opt.GenLen - 1
	return e.s.Sync()
}
