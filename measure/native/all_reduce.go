package native

import (
	"cmp"
	"time"

	"llmprof/analytic/engine"
	"llmprof/measure/native/cuda"
	"llmprof/unit"
)

// A block is one of the two blocks of a layer. Each has an exchange buffer of its own, so the two
// buffers are written alternately (tensor_parallel.cu).
type block int

const (
	attentionBlock block = iota
	feedForward
)

// shared are the buffers through which the ranks of a model communicate (tensor_parallel.cu), and
// tables of the addresses of the other ranks' buffers. An engine with the whole model has none of
// them.
type shared struct {
	exchange   [2]cuda.Ptr // float32 [rows][hidden], the sums that the GEMMs of each block leave
	bests      cuda.Ptr    // uint64 [2][ranks][2·batch], LL packets with the halves of the ranks' best scores (ll_protocol.cuh)
	packets    cuda.Ptr    // uint64 [2][ranks][batch][hidden], LL packets with the sums of GEMMs (ll_protocol.cuh)
	epochs     cuda.Ptr    // uint32 [hidden/16], the last epoch of each unit's packets
	bestEpochs cuda.Ptr    // uint32 [2], the last epoch of the best scores, and how many sequences have theirs
	flags      cuda.Ptr    // uint32 [blocks][ranks], the barrier counts of the other ranks
	counts     cuda.Ptr    // uint32 [blocks], the barrier counts of this rank

	exchanges  [2]cuda.Ptr // [ranks], addresses of the buffers above; the following tables likewise
	packetsOf  cuda.Ptr
	bestsOf    cuda.Ptr
	flagsOf    cuda.Ptr
	embeddings cuda.Ptr
	blocks     int // the most blocks that synchronize at a barrier between ranks
}

// reduceThreads is the threads of a block of all_reduce. Each takes 16 bytes of every rank at a time.
const reduceThreads = 512

// maxMeetingBlocks bounds the blocks that synchronize between ranks. With seven peers, 64 blocks have
// 3.7 MB in flight, five times what a link of 450 GB/s carries in a latency of 1.5 µs.
const maxMeetingBlocks = 64

// An all-reduce of up to maxEarlyTokens tokens may start before the GEMM ahead of it has ended.
// All-reduces of prompts that did took 46 µs for 4 MiB and 325 for 32; those that waited took 32 and
// 218 (llmprof calibrate --tp 2 on two H200).
const maxEarlyTokens = 64

// oneShotBytes is the largest message of a one-shot all-reduce, as in the estimate.
func oneShotBytes(ranks int) int { return int(min(engine.OneShotBytes(ranks), maxBytes)) }

// peerTimeout is how long a rank waits for another before it gives up. It is longer than any step that
// this engine is meant for, and short enough for a user who waits for the error.
const peerTimeout = 10 * time.Second

// ranks is how many GPUs share the model.
func (o *Options) ranks() int { return cmp.Or(o.TP, 1) }

func (b *buffers) reserveShared(s *shape, o *Options, rows, sms int) {
	b.blocks = min(maxMeetingBlocks, sms)
	table := 8 * s.ranks
	for i, what := range []string{"the attention's sums", "the feed-forward's sums"} {
		b.reserve(&b.exchange[i], what, 4*rows*s.hidden)
		b.reserve(&b.exchanges[i], "the ranks' sums", table)
	}
	if o.fusesAllReduce(s) {
		b.reserve(&b.packets, "the packets of GEMMs", 2*s.ranks*llBytes*o.Batch*s.hidden)
		b.reserve(&b.epochs, "the epochs of the packets", 4*((s.hidden+15)/16))
		b.reserve(&b.packetsOf, "where the packets go", table)
	}
	b.reserve(&b.bests, "the ranks' best scores", 2*s.ranks*2*llBytes*o.Batch)
	b.reserve(&b.bestEpochs, "how often they were found", 8)
	b.reserve(&b.flags, "the ranks' flags", 4*b.blocks*s.ranks)
	b.reserve(&b.counts, "the meetings' counts", 4*b.blocks)
	b.reserve(&b.bestsOf, "where the best scores go", table)
	b.reserve(&b.flagsOf, "where the flags are", table)
	b.reserve(&b.embeddings, "where the embedding is", table)
}

// link writes the addresses of all ranks' shared buffers, its own too, to this rank's tables.
func (e *Engine) link(all []*Engine) error {
	for _, t := range []struct {
		table cuda.Ptr
		of    func(*Engine) cuda.Ptr
	}{
		{e.b.exchanges[0], func(r *Engine) cuda.Ptr { return r.b.exchange[0] }},
		{e.b.exchanges[1], func(r *Engine) cuda.Ptr { return r.b.exchange[1] }},
		{e.b.packetsOf, func(r *Engine) cuda.Ptr { return r.b.packets }},
		{e.b.bestsOf, func(r *Engine) cuda.Ptr { return r.b.bests }}, {e.b.flagsOf, func(r *Engine) cuda.Ptr { return r.b.flags }},
		{e.b.embeddings, func(r *Engine) cuda.Ptr { return r.w.embedding }},
	} {
		if t.table == 0 {
			continue // It was not reserved.
		}
		var at []uint64
		for _, r := range all {
			at = append(at, uint64(t.of(r)))
		}
		if err := cuda.Upload(e.dev, t.table, at); err != nil {
			return err
		}
	}
	return nil
}

// onRanks returns names of operators that the estimate has only if ranks share a model.
func (e *Engine) onRanks(names ...string) []string {
	if e.shape.ranks == 1 {
		return nil
	}
	return names
}

// llBytes is the size of an LL packet: a value and its epoch. The wgmma GEMM sends two values in a
// packet.
const llBytes = 8

// fusesAllReduce reports whether the last GEMM of each block of a decode step, with 16-bit weights,
// has the all-reduce fused.
func (o *Options) fusesAllReduce(s *shape) bool {
	gemm := o.gemmFor(o.rings(), o.Quantization)
	if s.ranks == 1 || gemm == nil || gemm.quant != Unquantized {
		return false
	}
	packets := llBytes * o.Batch * s.hidden
	if gemm.isWgmma() {
		packets /= 2
	}
	if o.oneShot > 0 {
		return packets <= o.oneShot
	}
	return engine.FusesAllReduce(s.ranks, unit.BF16.Bytes(float64(o.Batch*s.hidden)), gemm.isWgmma())
}

// queueGEMMAllReduce queues the last GEMM of a block with its all-reduce and the residual sum. If a
// norm follows, the residual sum is left to it.
func (e *Engine) queueGEMMAllReduce(gemm *gemmKernels, o *outGEMM) error {
	sh, b := &e.shape, e.b
	y, h := b.x, b.h
	if o.post != 0 {
		y, h = b.branch, 0
	}
	return e.queueFusedGEMM(gemm, gemm.allReduceGEMM, residualEpilogue,
		&gemmOperands{w: o.w, x: o.x, out: sh.hidden, in: o.in, y: y, y16: h, nextSquares: b.squares, nextNorm: o.next},
		&llOperands{buffers: b.packetsOf, timedOut: e.timedOut.Ptr(), limit: e.limit(), rank: sh.rank, epochs: b.epochs})
}

// allReduceNames are the names of the operators in a GEMM with fused all-reduce. Both blocks are one
// operator, because the estimate has one all_reduce for both.
func (e *Engine) allReduceNames() []string {
	if e.shape.experts > 0 {
		return []string{"o_proj", "all_reduce"}
	}
	return []string{"o_proj", "down_proj", "all_reduce"}
}

// addAllReduce adds the all-reduce of a block's output. If that of attention is fused into a GEMM, that of a
// MoE layer belongs to the same operator.
func (e *Engine) addAllReduce(s *sequence, layer, rows int, o outGEMM) {
	if e.shape.ranks == 1 {
		return
	}
	names := []string{"all_reduce"}
	if o.next != 0 && e.opt.fusesAllReduce(&e.shape) {
		names = e.allReduceNames()
	}
	s.add(layer, func() error { return e.queueAllReduce(rows, &o) }, names[0], names[1:]...)
}

// queueAllReduce queues the all-reduce of rows tokens. It adds to the stream and prepares the next GEMM, or
// leaves the sums for a norm.
func (e *Engine) queueAllReduce(rows int, o *outGEMM) error {
	sh, b := &e.shape, e.b
	n, y, adds, h, squares, norm := rows*sh.hidden, b.x, int32(1), cuda.Ptr(0), cuda.Ptr(0), cuda.Ptr(0)
	if o.post != 0 {
		y, adds = b.branch, 0
	} else if o.next != 0 {
		h, squares, norm = b.h, b.squares, o.next
	}
	two, values := int32(0), n
	if 4*n > cmp.Or(e.opt.oneShot, oneShotBytes(sh.ranks)) {
		two, values = 1, (n+sh.ranks-1)/sh.ranks
	}
	const each = 4 * reduceThreads // A block takes so many values at a time.
	l := cuda.Launch{Grid: cuda.Dim{X: min((values+each-1)/each, b.blocks)}, Block: cuda.Dim{X: reduceThreads}, Early: rows <= maxEarlyTokens}
	return e.p.allReduce.Queue(e.s, l, b.exchanges[o.block], b.flagsOf, b.counts, e.timedOut.Ptr(), uint64(e.limit()), int32(sh.rank), two,
		uint64(n),
		y, adds, h, squares, norm, int32(sh.hidden))
}

// queueSamplingShared queues the choice of the next tokens among the scores of all ranks.
func (e *Engine) queueSamplingShared(l cuda.Launch) error {
	sh, b := &e.shape, e.b
	return e.p.samplingShared.Queue(e.s, l, b.logits, int32(sh.tokens), int32(sh.firstToken), b.best, b.sampled, b.nextToken, b.positions,
		e.next.Ptr(),
		b.bestsOf, e.timedOut.Ptr(), uint64(e.limit()), int32(sh.rank), b.bestEpochs)
}

// limit is how long a rank waits for another.
func (e *Engine) limit() time.Duration {
	if e.opt.peerTimeout > 0 {
		return e.opt.peerTimeout
	}
	return peerTimeout
}
