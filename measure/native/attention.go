package native

import (
	"fmt"

	"llmprof/measure/native/cuda"
)

// decodeAttention is how the attention of a decode step is launched.
type decodeAttention struct {
	threads      int
	shared       int // bytes of dynamic shared memory
	staticShared int // an upper bound of the static shared memory
	cluster      int // the most parts of a head that can be one cluster; 1 for no clusters
}

// decodeFor repeats the sizes of attention_decode.cu: four warps, each with a ring of tiles of 16 keys
// and of 16 values.
func decodeFor(major int, s *shape) decodeAttention {
	const warps, tile = 4, 16
	keys, values := 256/s.headDim, 1
	if s.headDim == 64 {
		values = 2
	}
	d := decodeAttention{threads: 32 * warps, shared: warps * (keys + values) * tile * s.headDim * 2, cluster: 1}
	group := s.heads / s.kvHeads
	d.staticShared = s.headDim*8 + group*(warps*8+s.headDim*4+maxCluster*8+maxSplits*4) + 64
	switch {
	case major == 9 || major == 10:
		d.cluster = maxCluster
	case major > 10:
		d.cluster = cuda.PortableCluster
	}
	return d
}

// launch is the grid of one layer. The blocks of a cluster merge equal shares of the output.
func (d *decodeAttention) launch(splits, kvHeads, batch int) cuda.Launch {
	l := cuda.Launch{Grid: cuda.Dim{X: splits, Y: kvHeads, Z: batch}, Block: cuda.Dim{X: d.threads}, Shared: d.shared}
	if splits <= d.cluster && splits&(splits-1) == 0 {
		l.Cluster = splits
	}
	return l
}

const (
	maxSplits  = 32 // One lane of a warp weights one part if parts are merged in global memory.
	maxCluster = 16 // blocks of a cluster on Hopper; compute capability 10.0 is assumed to be like it
)

// splits is how many parts decode attention cuts the context into. Parts have 128 tokens or more;
// there are up to two blocks on each multiprocessor, and no more than a cluster takes. If those occupy
// a quarter of the multiprocessors or fewer, parts have 64 tokens. If they are less than a block for
// each multiprocessor of a long context, there are more parts, which are merged in global memory. (On
// an H200, attention of all layers of llama3.1-8b: at batch 1 and context 1024 it took 0.159 ms with 8
// parts and 0.174 with 16, and over two GPUs, each with half of the heads, 0.145 and 0.134; at batch 8
// 0.391 with 4; at batch 32 1.17 with 1 and 1.19 with 2; at batch 1 and context 16384 0.80 with 32.)
func splits(s *shape, batch, capacity, sms int) int {
	const tokens, long = 128, 16384
	blocks := batch * s.kvHeads
	if blocks*maxCluster < sms && capacity >= long {
		return maxSplits
	}
	n := 1
	for 2*n <= min(maxCluster, 2*sms/blocks, capacity/tokens) {
		n *= 2
	}
	if 2*n <= min(maxCluster, 2*capacity/tokens) && 4*n*blocks <= sms {
		n *= 2
	}
	return n
}

// splitsBesideWgmma is the least number of parts beside the wgmma GEMM on one GPU: two if whole heads
// are two blocks for each multiprocessor or fewer. Blocks that end late delay o_proj: on an H200
// attention of llama3.1-8b at batch 32 takes 1.091 ms, with whole heads 1.089, but the step takes
// 5.122 ms, before that 5.200 and 5.230 (docs/log/native-experiments.md).
func splitsBesideWgmma(s *shape, batch, capacity, sms int) int {
	const tokens = 256
	if batch*s.kvHeads <= 2*sms && capacity >= tokens {
		return 2
	}
	return 1
}

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
		return attentionTile{kernel: "attention_prefill_hopper", queries: 128, threads: 384, keys: 128, shared: 5*128*headDim*2 + 1024,
			stays: true}
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
	cache := cuda.Tensor{Size: [3]int{sh.headDim, a.length, a.count * sh.kvHeads}, Stride: [2]int{row, row * a.capacity},
		Box: [3]int{64, 128, 1}}
	queries, keys, values := cache, cache, cache
	queries.At, queries.Size, queries.Stride = a.qkv, [3]int{sh.qkvWidth(), a.length, a.count}, [2]int{width, width * a.length}
	keys.At, values.At = a.k, a.v
	return dev.TensorMaps(&queries, &keys, &values)
}
