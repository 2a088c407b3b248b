package native

import (
	"fmt"

	"llmprof/measure/engine/native/cuda"
)

// CheckPrompts says why prompts are not a batch that the engine takes.
func (e *Engine) CheckPrompts(prompts [][]int) error {
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

// SetPrompts queues the prompts' token ids on their way to the GPU.
func (e *Engine) SetPrompts(prompts [][]int) error {
	if err := e.CheckPrompts(prompts); err != nil {
		return err
	}
	if err := e.s.Sync(); err != nil { // of an earlier copy from the same memory
		return err
	}
	for i, p := range prompts {
		for k, t := range p {
			e.in.Data[i*e.opt.PromptLen+k] = int32(t)
		}
	}
	return cuda.Send(e.s, e.b.tokens, e.in)
}

// QueuePrefill queues the prompts' way through the model, up to the first
// generated token of each sequence.
func (e *Engine) QueuePrefill() error {
	seq := 0
	for _, n := range e.groups() {
		if err := e.prefillGroup(seq, n); err != nil {
			return err
		}
		seq += n
	}
	if err := e.product(e.b.logits, e.b.lastH, e.w.head, e.headKey()); err != nil {
		return err
	}
	if err := e.setPositions(e.opt.PromptLen - 1); err != nil {
		return err
	}
	return e.queueSampling(false)
}

// setPositions queues setting the number of tokens in the cache, by a fill
// kernel of the driver: nothing of the host is read later.
func (e *Engine) setPositions(n int) error {
	return e.s.Fill32(e.b.positions, uint32(n), e.opt.Batch)
}

// prefillGroup queues n prompts, from sequence seq on.
func (e *Engine) prefillGroup(seq, n int) error {
	sh, b, p := &e.shape, e.b, e.p
	rows := n * e.opt.PromptLen
	tokens := b.tokens.Add(4 * seq * e.opt.PromptLen)
	l := cuda.Launch{Grid: cuda.Dim{X: rows}, Block: cuda.Dim{X: 256}}
	if err := p.embedding.Queue(e.s, l, tokens, e.w.embedding, b.x, int32(sh.hidden), cuda.Ptr(0), cuda.Ptr(0), cuda.Ptr(0)); err != nil {
		return err
	}
	for i := range e.w.layers {
		if err := e.prefillLayer(i, seq, n); err != nil {
			return err
		}
	}
	return e.queueNorm(e.w.norm, b.lastH.Add(2*seq*sh.hidden), n, e.opt.PromptLen, e.opt.PromptLen-1)
}

// prefillLayer queues one layer on all tokens of a group.
func (e *Engine) prefillLayer(layer, seq, n int) error {
	sh, b, p, w := &e.shape, e.b, e.p, &e.w.layers[layer]
	length := e.opt.PromptLen
	rows := n * length
	k, v := b.layerCache(sh, &e.opt, layer, seq)
	if err := e.queueNorm(w.attNorm, b.h, rows, 1, 0); err != nil {
		return err
	}
	if err := e.product(b.qkv, b.h, w.qkv, e.qkvKey(rows, cuda.BFloat16)); err != nil {
		return err
	}
	if err := p.rotary.Queue(e.s, cuda.Launch{Grid: cuda.Dim{X: rows}, Block: cuda.Dim{X: 256}}, b.qkv, w.bias, w.qNorm, w.kNorm, b.frequencies,
		k, v, int32(sh.kvHeads), int32(length), int32(b.capacity), sh.eps); err != nil {
		return err
	}
	if err := e.queuePrefillAttention(k, v, n); err != nil {
		return err
	}
	if err := e.product(b.x, b.att, w.o, e.outKey(rows)); err != nil {
		return err
	}
	return e.queueMLP(w, rows)
}

// queuePrefillAttention queues the attention of n prompts.
func (e *Engine) queuePrefillAttention(k, v cuda.Ptr, n int) error {
	sh, b, t := &e.shape, e.b, &e.p.tile
	l := cuda.Launch{
		Grid:  cuda.Dim{X: (e.opt.PromptLen + t.queries - 1) / t.queries, Y: sh.heads, Z: n},
		Block: cuda.Dim{X: t.threads}, Shared: t.shared,
	}
	return e.p.attentionPrefill.Queue(e.s, l, b.qkv, k, v, b.att, int32(sh.kvHeads), int32(e.opt.PromptLen), int32(b.capacity), sh.scale())
}

// queueMLP queues the feed-forward of rows tokens, by cuBLASLt.
func (e *Engine) queueMLP(w *layerWeights, rows int) error {
	sh, b := &e.shape, e.b
	if err := e.queueNorm(w.mlpNorm, b.h, rows, 1, 0); err != nil {
		return err
	}
	if err := e.product(b.gateUp, b.h, w.gateUp, e.gateUpKey(rows)); err != nil {
		return err
	}
	for first := 0; first < rows; first += maxGridY {
		n := min(rows-first, maxGridY)
		l := cuda.Launch{Grid: cuda.Dim{X: (sh.inner/8 + 127) / 128, Y: n}, Block: cuda.Dim{X: 128}}
		if err := e.p.activation.Queue(e.s, l, b.gateUp.Add(4*first*sh.inner), b.act.Add(2*first*sh.inner), int32(sh.inner)); err != nil {
			return err
		}
	}
	return e.product(b.x, b.act, w.down, e.downKey(rows))
}

// maxGridY is the most blocks of a grid's second dimension.
const maxGridY = 65535

// queueNorm queues the norm of rows of the stream, stride apart from first on.
func (e *Engine) queueNorm(w, y cuda.Ptr, rows, stride, first int) error {
	l := cuda.Launch{Grid: cuda.Dim{X: rows}, Block: cuda.Dim{X: 256}}
	return e.p.rmsNorm.Queue(e.s, l, e.b.x, w, y, int32(e.shape.hidden), e.shape.eps, uint64(stride), uint64(first))
}
