package native

import (
	"llmprof/measure/engine/native/cuda"
)

// decodeAttention is how the attention of a decode step is launched.
type decodeAttention struct {
	threads      int
	shared       int // bytes of dynamic shared memory
	staticShared int // of static shared memory, or a little more
	cluster      int // most parts of a head that can be one cluster; 1 for none
}

// decodeFor repeats the sizes of attention_decode.cu: four warps, each with a ring of
// so many tiles of 16 keys, and of values.
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

// launch is the grid of one layer. The blocks of a cluster share the output evenly.
func (d *decodeAttention) launch(splits, kvHeads, batch int) cuda.Launch {
	l := cuda.Launch{Grid: cuda.Dim{X: splits, Y: kvHeads, Z: batch}, Block: cuda.Dim{X: d.threads}, Shared: d.shared}
	if splits <= d.cluster && splits&(splits-1) == 0 {
		l.Cluster = splits
	}
	return l
}

const (
	maxSplits  = 32 // one for each lane of the warp that weighs them, where they meet in memory
	maxCluster = 16 // blocks, of Hopper, which compute capability 10.0 is taken to be like
)

// splits is how many parts the context is cut into in decode attention: of 128 tokens
// or more, up to two blocks on each multiprocessor, and no more than a cluster takes.
// Where those are for a quarter of the multiprocessors or fewer, parts of 64 tokens. Where
// those are less than a block for each multiprocessor of a long context, they
// are more, and meet in memory. (On an H200, llama3.1-8b, attention of all layers: at
// batch 1 and context 1024 0.159 ms with 8 parts and 0.174 with 16, and over two GPUs,
// each with half of the heads, 0.145 and 0.134; at batch 8 0.391
// with 4; at batch 32 1.17 with 1 and 1.19 with 2; at batch 1 and context 16384 0.80
// with 32.)
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

// splitsOfWide is how many parts there are at least beside wide products on one GPU: two
// where whole heads are two blocks for each multiprocessor or fewer. Blocks that end late
// hold up o_proj: on an H200 attention of llama3.1-8b takes 1.091 ms for 1.089 at batch 32,
// but the step 5.122 for 5.200 and 5.230 (docs/log/native-experiments.md).
func splitsBesideWgmma(s *shape, batch, capacity, sms int) int {
	const tokens = 256
	if batch*s.kvHeads <= 2*sms && capacity >= tokens {
		return 2
	}
	return 1
}
