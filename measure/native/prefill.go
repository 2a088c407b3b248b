package native

import (
	"fmt"

	"llmprof/measure/native/cuda"
)

// checkPrompts returns why prompts are not a batch that the engine takes.
func (e *Engine) checkPrompts(prompts [][]int) error {
	if len(prompts) != e.opt.Batch {
		return fmt.Errorf("native: %d prompts for a batch of %d", len(prompts), e.opt.Batch)
	}
	for i, p := range prompts {
		if len(p) != e.opt.PromptLen {
			return fmt.Errorf("native: prompt %d has %d tokens; all have to have %d", i, len(p), e.opt.PromptLen)
		}
		for _, t := range p {
			if t < 0 || t >= e.shape.vocab {
				return fmt.Errorf("native: prompt %d has the token %d; the vocabulary has %d", i, t, e.shape.vocab)
			}
		}
	}
	return nil
}

// SetPrompts queues the copy of the prompts' token ids to the GPU.
func (e *Engine) SetPrompts(prompts [][]int) error {
	if err := e.checkPrompts(prompts); err != nil {
		return err
	}
	if err := e.s.Sync(); err != nil { // An earlier copy may still read the same memory.
		return err
	}
	for i, p := range prompts {
		for k, t := range p {
			e.in.Data[i*e.opt.PromptLen+k] = int32(t)
		}
	}
	return cuda.Send(e.s, e.b.tokens, e.in)
}

// queuePrefill queues the prefill, up to the first generated token of each sequence.
func (e *Engine) queuePrefill() error { return e.prefill.queue() }

// prefillSequence is the calls of a prefill: groups of prompts go through the layers one after the
// other, then the LM head scores all.
func (e *Engine) prefillSequence() sequence {
	var s sequence
	seq := 0
	for _, n := range e.groups() {
		e.prefillGroup(&s, seq, n)
		seq += n
	}
	s.add(once, e.queueHead, "lm_head")
	s.add(once, func() error {
		if err := e.setPositions(e.opt.PromptLen - 1); err != nil {
			return err
		}
		return e.queueSampling()
	}, "sampling", e.onRanks("logits_all_gather")...)
	return s
}

// setPositions queues setting the number of tokens in the cache, by a fill kernel of the driver that
// reads no host memory later.
func (e *Engine) setPositions(n int) error {
	return e.s.Fill32(e.b.positions, uint32(n), e.opt.Batch)
}

func (e *Engine) prefillGroup(s *sequence, seq, n int) {
	sh, b := &e.shape, e.b
	s.add(once, func() error {
		l := cuda.Launch{Grid: cuda.Dim{X: n * e.opt.PromptLen}, Block: cuda.Dim{X: 256}}
		return e.queueEmbedding(l, b.tokens.Add(4*seq*e.opt.PromptLen), 0, 0, 0)
	}, "embedding", e.onRanks("embedding_all_reduce")...)
	for i := range e.w.layers {
		e.prefillLayer(s, i, seq, n)
	}
	s.add(once, func() error {
		return e.queueNorm(e.w.norm, b.lastH.Add(2*seq*sh.hidden), n, e.opt.PromptLen, e.opt.PromptLen-1)
	}, "norm")
}

func (e *Engine) prefillLayer(s *sequence, layer, seq, n int) {
	b, w := e.b, &e.w.layers[layer]
	rows := n * e.opt.PromptLen
	names := e.attentionNames()
	s.add(layer, func() error { return e.queueNorm(w.attNorm, b.h, rows, 1, 0) }, "input_layernorm")
	s.add(layer, func() error { return e.projectPrompts(w, rows) }, "qkv_proj")
	s.add(layer, func() error { return e.queueRotary(layer, seq, rows) }, e.rotaryName(), "kv_write")
	s.add(layer, func() error { return e.queuePrefillAttention(layer, seq, n) }, names[0], names[1:]...)
	e.addOut(s, layer, rows, nil, e.attentionOut(w, 0))
	e.addMLP(s, layer, rows)
}

// queueRotary queues RoPE and the KV write of rows tokens.
func (e *Engine) queueRotary(layer, seq, rows int) error {
	sh, b, w := &e.shape, e.b, &e.w.layers[layer]
	k, v, capacity := e.promptCache(layer, seq)
	l := cuda.Launch{Grid: cuda.Dim{X: rows}, Block: cuda.Dim{X: 256}}
	return e.p.rotary.Queue(e.s, l, b.qkv, w.qNorm, w.kNorm, e.frequencies(layer), k, v, int32(sh.kvHeads), int32(e.opt.PromptLen),
		int32(capacity), sh.eps)
}

func (e *Engine) queuePrefillAttention(layer, seq, n int) error {
	sh, b := &e.shape, e.b
	k, v, capacity := e.promptCache(layer, seq)
	a := &prompts{qkv: b.qkv, k: k, v: v, out: b.att, count: n, length: e.opt.PromptLen, capacity: capacity}
	if !sh.sliding {
		return e.p.queueAttention(e.dev, e.s, sh, a)
	}
	if a.window = b.layers[layer].window; a.window == 0 {
		a.window = e.opt.PromptLen
	}
	if err := e.p.queueAttention(e.dev, e.s, sh, a); err != nil {
		return err
	}
	return e.keepWindow(layer, seq, n)
}

// addMLP adds the feed-forward of rows tokens, by cuBLASLt.
func (e *Engine) addMLP(s *sequence, layer, rows int) {
	if e.shape.experts > 0 {
		e.addExperts(s, layer, rows)
		return
	}
	b, w := e.b, &e.w.layers[layer]
	s.add(layer, func() error { return e.queueNorm(w.mlpNorm, b.h, rows, 1, 0) }, e.mlpNormName())
	s.add(layer, func() error { return e.gemm(b.gateUp, b.h, w.gateUp, e.gateUpKey(rows)) }, "gate_up_proj")
	s.add(layer, func() error { return e.queueActivation(rows) }, "activation")
	e.addOut(s, layer, rows, nil, e.mlpOut(w, 0))
}

func (e *Engine) queueActivation(rows int) error {
	sh, b := &e.shape, e.b
	for first := 0; first < rows; first += maxGridY {
		n := min(rows-first, maxGridY)
		l := cuda.Launch{Grid: cuda.Dim{X: (sh.inner/8 + 127) / 128, Y: n}, Block: cuda.Dim{X: 128}, Early: true}
		if err := e.p.activation.Queue(e.s, l, b.gateUp.Add(4*first*sh.inner), b.act.Add(2*first*sh.inner), int32(sh.inner)); err != nil {
			return err
		}
	}
	return nil
}

// maxGridY is the most blocks of a grid's second dimension.
const maxGridY = 65535

// queueNorm queues the norm of rows of the stream: every stride-th row from first on.
func (e *Engine) queueNorm(w, y cuda.Ptr, rows, stride, first int) error {
	threads := 256
	if rows <= e.dev.SMs { // A row has a multiprocessor to itself.
		threads = 1024
	}
	l := cuda.Launch{Grid: cuda.Dim{X: rows}, Block: cuda.Dim{X: threads}, Early: true}
	return e.p.rmsNorm.Queue(e.s, l, e.b.x, w, y, int32(e.shape.hidden), e.shape.eps, uint64(stride), uint64(first))
}
