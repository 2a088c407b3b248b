package native

import (
	"llmprof/measure/native/cuda"
	"llmprof/models"
)

// windows are how many tokens each layer attends to, 0 for all.
func windows(m *models.Model) []int {
	kinds := make([]int, len(m.Layers))
	for i := range m.Layers {
		kinds[i] = m.Layers[i].Blocks[0].Attention.Window
	}
	out := make([]int, 0, len(m.Order))
	for _, kind := range m.Order {
		out = append(out, kinds[kind])
	}
	return out
}

// A layerCache is the place of a layer's keys and values. A layer with a window keeps no more tokens
// than that in a ring buffer: token t is at row t modulo capacity.
type layerCache struct {
	window   int // 0 for none
	capacity int // tokens of a sequence
	offset   int // an offset in elements, of the keys in kCache and of the values in vCache
	saved    int // the offset of its overwritten rows in kSaved and vSaved
}

func (b *buffers) measureCache(s *shape, o *Options) {
	elements, saved := 0, 0
	for _, w := range windows(o.Model) {
		c := layerCache{window: w, capacity: b.capacity, offset: elements, saved: saved}
		if w > 0 {
			c.capacity = min(w, b.capacity)
		}
		row := o.Batch * s.kvHeads * s.headDim
		elements += row * c.capacity
		saved += row * b.lost(c.capacity, o.GenLen)
		b.layers = append(b.layers, c)
	}
	b.kv = 4 * elements
	b.reserve(&b.kCache, "the keys' cache", 2*elements)
	b.reserve(&b.vCache, "the values' cache", 2*elements)
	if saved > 0 {
		b.reserve(&b.kSaved, "the keys that decoding overwrites", 2*saved)
		b.reserve(&b.vSaved, "the values that decoding overwrites", 2*saved)
	}
	if s.window > 0 && o.PromptLen > s.window {
		whole := 2 * b.rows * s.kvHeads * s.headDim
		b.reserve(&b.kPrompt, "the prompts' keys", whole)
		b.reserve(&b.vPrompt, "the prompts' values", whole)
	}
}

// lost is how many rows of a ring buffer of capacity tokens decoding overwrites, which Rewind has to
// restore.
func (b *buffers) lost(capacity, gen int) int {
	if capacity == b.capacity {
		return 0
	}
	return min(gen-1, capacity)
}

// layerCache is the address of one layer's keys and values of sequence seq.
func (b *buffers) layerCache(s *shape, layer, seq int) (k, v cuda.Ptr) {
	c := &b.layers[layer]
	at := 2 * (c.offset + seq*s.kvHeads*c.capacity*s.headDim)
	return b.kCache.Add(at), b.vCache.Add(at)
}

// cacheRows is the place of rows of keys and values.
type cacheRows struct {
	k, v            cuda.Ptr
	capacity, first int
}

// moveRows queues a copy of count tokens' keys and values of n sequences.
func (e *Engine) moveRows(from, to cacheRows, count, n int) error {
	if count == 0 {
		return nil
	}
	sh := &e.shape
	l := cuda.Launch{Grid: cuda.Dim{X: count, Y: sh.kvHeads, Z: n}, Block: cuda.Dim{X: 2 * sh.headDim / 8}}
	return e.p.moveRows.Queue(e.s, l, from.k, from.v, to.k, to.v, int32(from.capacity), int32(from.first), int32(to.capacity), int32(to.first))
}

// promptCache is the place of the keys and values of whole prompts while attention reads them: the
// cache, or a buffer of its own if the prompts are longer than the cache.
func (e *Engine) promptCache(layer, seq int) (k, v cuda.Ptr, capacity int) {
	if c := e.b.layers[layer].capacity; e.opt.PromptLen <= c {
		k, v = e.b.layerCache(&e.shape, layer, seq)
		return k, v, c
	}
	return e.b.kPrompt, e.b.vPrompt, e.opt.PromptLen
}

// keepWindow queues the copy of the prompts' last tokens to the layer's ring buffer, and saves what
// decoding will overwrite there for Rewind.
func (e *Engine) keepWindow(layer, seq, n int) error {
	b, c, length := e.b, &e.b.layers[layer], e.opt.PromptLen
	k, v := b.layerCache(&e.shape, layer, seq)
	if length > c.capacity {
		first := length - c.capacity
		from, to := cacheRows{b.kPrompt, b.vPrompt, length, first}, cacheRows{k, v, c.capacity, first}
		if err := e.moveRows(from, to, c.capacity, n); err != nil {
			return err
		}
	}
	return e.moveRows(cacheRows{k, v, c.capacity, length}, e.savedRows(layer, seq), b.lost(c.capacity, e.opt.GenLen), n)
}

// savedRows is the place of the rows that decoding overwrites.
func (e *Engine) savedRows(layer, seq int) cacheRows {
	b, c := e.b, &e.b.layers[layer]
	lost := b.lost(c.capacity, e.opt.GenLen)
	at := 2 * (c.saved + seq*e.shape.kvHeads*lost*e.shape.headDim)
	return cacheRows{b.kSaved.Add(at), b.vSaved.Add(at), max(lost, 1), 0}
}

// rewindWindows queues the restoring of what decoding overwrote.
func (e *Engine) rewindWindows() error {
	for layer := range e.b.layers {
		c := &e.b.layers[layer]
		k, v := e.b.layerCache(&e.shape, layer, 0)
		to := cacheRows{k, v, c.capacity, e.opt.PromptLen}
		if err := e.moveRows(e.savedRows(layer, 0), to, e.b.lost(c.capacity, e.opt.GenLen), e.opt.Batch); err != nil {
			return err
		}
	}
	return nil
}

// frequencies is the address of a layer's RoPE frequencies.
func (e *Engine) frequencies(layer int) cuda.Ptr {
	if e.shape.localRope.Theta != 0 && e.b.layers[layer].window > 0 {
		return e.b.localFrequencies
	}
	return e.b.frequencies
}
