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
}

// decodeFor repeats the sizes of attention_decode_mma.cu: warps, and a ring of each
// of so many tiles of 16 keys and values.
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
		return decodeAttention{"attention_decode", 256, 0, 1}
	}
	d := decodeAttention{kernel: "attention_decode_mma", cluster: 1}
	warps, stages := of("DEC_WARPS", 4), of("DEC_STAGES", 256/s.headDim)
	d.threads, d.shared = 32*warps, warps*stages*16*s.headDim*2*2
	switch {
	case of("ATT_GLOBAL", 0) == 1:
	case major == 9 || major == 10:
		d.cluster = 16
	case major > 10:
		d.cluster = 8
	}
	return d
}

// launch is the grid of one layer.
func (d *decodeAttention) launch(splits, kvHeads, batch int) cuda.Launch {
	l := cuda.Launch{Grid: cuda.Dim{X: splits, Y: kvHeads, Z: batch}, Block: cuda.Dim{X: d.threads}, Shared: d.shared}
	if splits <= d.cluster && splits&(splits-1) == 0 { // shares of the output are equal
		l.Cluster = splits
	}
	return l
}

// mostSplits is one for each lane of the warp that weighs them.
const mostSplits = 32

// splits is how many parts the context is cut into in decode attention. Of a
// short context few multiprocessors are enough, and the others begin to fill the
// next product's ring; a long one needs the bandwidth of all, two blocks on each
// where their registers allow it. (On an H200, llama3.1-8b at batch 1: a step at
// context 1024 takes 4.72 ms with 17 parts and 4.48 with 10; at context 16384 6.05
// with 17 and 5.26 with 32.)
func splits(s *shape, batch, capacity, sms int) int {
	const tokens = 128 // of a part, where there are blocks enough
	blocks, onEach := batch*s.kvHeads, 2
	if s.heads/s.kvHeads > 4 {
		onEach = 1 // attention_decode.cu: its launch bounds
	}
	least := (6*sms/10 + blocks - 1) / blocks
	most := onEach * sms / blocks
	return max(min(max(min((capacity+tokens-1)/tokens, most), least), mostSplits), 1)
}
