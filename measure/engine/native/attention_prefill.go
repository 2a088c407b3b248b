package native

import (
	"fmt"

	"llmprof/measure/engine/native/cuda"
)

// attentionTile is how the attention of prompts is launched.
type attentionTile struct {
	kernel  string
	queries int // queries of a block, or of one work item of a persistent block
	threads int
	keys    int  // keys of a tile
	shared  int  // bytes of dynamic shared memory
	stays   bool // A block is persistent: it takes one work item after the other, and uses tensor copies.
}

// tileFor repeats the sizes of attention_prefill.cu and of attention_prefill_hopper.cu, in bytes:
// queries, and two tiles each of keys and values, which are as long as a block has memory for.
func tileFor(p *cuda.Properties, s *shape) attentionTile {
	headDim := s.headDim
	if p.Major == 9 && headDim <= 128 && !s.sliding && s.attSoftcap == 0 {
		return attentionTile{kernel: "attention_prefill_hopper", queries: 128, threads: 384, keys: 128, shared: 5*128*headDim*2 + 1024, stays: true}
	}
	t := attentionTile{kernel: "attention_prefill", queries: 64, threads: 128}
	for t.keys = 64; ; t.keys /= 2 {
		if t.shared = (t.queries + 4*t.keys) * headDim * 2; t.shared <= p.SharedOptIn || t.keys == 16 {
			return t
		}
	}
}

// defines are the constants that attention_prefill.cu is compiled with.
func (t *attentionTile) defines() []string {
	if t.stays || t.keys == 64 {
		return nil
	}
	return []string{fmt.Sprintf("KEYS=%d", t.keys)}
}

// prompts are the inputs and outputs of attention.
type prompts struct {
	qkv, k, v, out          cuda.Ptr // k and v are the caches of the first prompt.
	count, length, capacity int
	window                  int // the tokens that a query sees, of a model whose context is longer than a window
}

// queueAttention queues the attention of whole prompts.
func (p *program) queueAttention(dev *cuda.Device, st *cuda.Stream, sh *shape, a *prompts) error {
	t := &p.tile
	tiles := (a.length + t.queries - 1) / t.queries
	l := cuda.Launch{Block: cuda.Dim{X: t.threads}, Shared: t.shared}
	if !t.stays {
		l.Grid = cuda.Dim{X: tiles, Y: sh.heads, Z: a.count}
		args := []any{a.qkv, a.k, a.v, a.out, int32(sh.kvHeads), int32(a.length), int32(a.capacity), sh.scale()}
		if sh.sliding {
			args = append(args, int32(a.window))
		}
		return p.attentionPrefill.Queue(st, l, args...)
	}
	l.Grid = cuda.Dim{X: min(tiles*sh.heads*a.count, dev.SMs)}
	args, err := a.maps(dev, sh)
	if err != nil {
		return err
	}
	return p.attentionPrefill.Queue(st, l, append(args, a.out, int32(sh.kvHeads), int32(a.length), int32(a.count), sh.scale())...)
}

// maps are the tensor maps of queries, keys and values, for copies of 128 rows of 64 values. What lies
// behind a prompt's end is outside of its tensors, so it is copied as zeros.
func (a *prompts) maps(dev *cuda.Device, sh *shape) ([]any, error) {
	row, width := 2*sh.headDim, 2*sh.qkvWidth() // in bytes
	cache := cuda.Tensor{Size: [3]int{sh.headDim, a.length, a.count * sh.kvHeads}, Stride: [2]int{row, row * a.capacity}, Box: [3]int{64, 128, 1}}
	queries, keys, values := cache, cache, cache
	queries.At, queries.Size, queries.Stride = a.qkv, [3]int{sh.qkvWidth(), a.length, a.count}, [2]int{width, width * a.length}
	keys.At, values.At = a.k, a.v
	var out []any
	for _, t := range []*cuda.Tensor{&queries, &keys, &values} {
		m, err := dev.TensorMap(t)
		if err != nil {
			return nil, err
		}
		out = append(out, m)
	}
	return out, nil
}
