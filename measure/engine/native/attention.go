package native

import (
	"strconv"
	"strings"

	"llmprof/measure/engine/native/cuda"
)

// decodeAttention is how the attention of a decode step is launched.
type decodeAttention struct {
	kernel  string
	threads int
	shared  int // bytes of dynamic shared memory
	cluster int // most parts of a head that can be one cluster; 1 for none
	alone   int // bytes of which two blocks leave no room for a product's on a multiprocessor
	hold    bool
}

// decodeFor repeats the sizes of attention_decode_mma.cu: warps, and a ring of each of
// so many tiles of 16 keys, and of values.
func decodeFor(major int, s *shape, defines []string) decodeAttention {
	of := func(name string, standard int) int {
		for _, d := range defines {
			if v, ok := strings.CutPrefix(d, name+"="); ok {
				if n, err := strconv.Atoi(v); err == nil {
					return n
				}
			}
		}
		return standard
	}
	if of("ATT_OLD", 0) == 1 {
		return decodeAttention{kernel: "attention_decode", threads: 256, cluster: 1}
	}
	d := decodeAttention{kernel: "attention_decode_mma", cluster: 1, hold: of("ATT_HOLD", 0) == 1, alone: of("ATT_ALONE", 0) * (64 << 10)}
	warps, keys, values := of("DEC_WARPS", 4), of("DEC_KEY_STAGES", 256/s.headDim), of("DEC_VALUE_STAGES", (128+s.headDim-1)/s.headDim)
	d.threads, d.shared = 32*warps, warps*(keys+values)*16*s.headDim*2
	if of("ATT_REG", 0) == 1 {
		warps := of("REG_WARPS", 4)
		d.kernel, d.threads, d.shared = "attention_decode_reg", 32*warps, warps*s.heads/s.kvHeads*s.headDim*4
	}
	switch {
	case of("ATT_GLOBAL", 0) == 1:
	case major == 9 || major == 10:
		d.cluster = 16
	case major > 10:
		d.cluster = 8
	}
	return d
}

// launch is the grid of one layer: a block for each part of each head, and as many
// more as give every multiprocessor one or two, or as there are whole clusters for.
func (d *decodeAttention) launch(splits, kvHeads, batch, sms int) cuda.Launch {
	l := cuda.Launch{Grid: cuda.Dim{X: splits, Y: kvHeads, Z: batch}, Block: cuda.Dim{X: d.threads}, Shared: d.shared}
	if d.kernel == "attention_decode" {
		return l
	}
	blocks := splits * kvHeads * batch
	n := blocks
	for each := 1; d.hold && each <= 2 && n == blocks; each++ {
		n = max(n, each*sms)
	}
	if d.cluster > 1 && splits <= d.cluster && splits&(splits-1) == 0 { // shares of the output are equal
		l.Cluster = splits
		n -= (n - blocks) % max(splits, 1)
	}
	if blocks <= sms {
		l.Shared = max(l.Shared, d.alone)
	}
	l.Grid = cuda.Dim{X: n}
	return l
}

// args are what the kernel is told of its grid.
func (d *decodeAttention) args(splits, kvHeads, batch int) []any {
	if d.kernel == "attention_decode" {
		return nil
	}
	return []any{int32(splits), int32(kvHeads), int32(batch)}
}

// mostSplits is one for each lane of the warp that weighs them, mostCluster the blocks
// of a cluster.
const (
	mostSplits  = 32
	mostCluster = 16
)

// splits is how many parts the context is cut into in decode attention: up to two
// blocks on each multiprocessor, of four warps that have a tile of 16 keys each, and as
// many as a cluster takes. Where a cluster of every head leaves half of the
// multiprocessors idle in a long context, there are more, which meet in memory.
func splits(s *shape, batch, capacity, sms int) int {
	const tokens, long = 64, 16384
	blocks := batch * s.kvHeads
	if 2*blocks*mostCluster < sms && capacity >= long {
		return mostSplits
	}
	n := 1
	for 2*n <= min(mostCluster, 2*sms/blocks, capacity/tokens) {
		n *= 2
	}
	return n
}
