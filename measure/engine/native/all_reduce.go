package native

import (
	"cmp"
	"time"

	"llmprof/measure/engine/native/cuda"
)

// block is which of a layer's two blocks a product ends. Each has an exchange
// buffer of its own, so that they are written in turn (tensor_parallel.cu).
type block int

const (
	attentionBlock block = iota
	feedForward
)

// shared are the buffers that ranks of a model meet with (tensor_parallel.cu), and the
// tables of where the others have theirs. Nothing of it is there where one GPU has
// the whole model.
type shared struct {
	exchange   [2]cuda.Ptr // float32 [rows][hidden], what the products of each block leave
	bests      cuda.Ptr    // uint64 [2][ranks][2·batch], the halves of the ranks' best scores (ll_protocol.cuh)
	packets    cuda.Ptr    // uint64 [2][ranks][batch][hidden], what products post to each other (ll_protocol.cuh)
	epochs     cuda.Ptr    // uint32 [hidden/16], how often they did
	bestEpochs cuda.Ptr    // uint32 [2], how often best scores were found, and of how many sequences they are
	flags      cuda.Ptr    // uint32 [blocks][ranks], how often a block of each rank was at a meeting
	counts     cuda.Ptr    // uint32 [blocks], how often this rank's was

	exchanges  [2]cuda.Ptr // [ranks] addresses of each of these
	packetsOf  cuda.Ptr
	bestsOf    cuda.Ptr
	flagsOf    cuda.Ptr
	embeddings cuda.Ptr
	blocks     int // of a meeting, at most
}

// reduceThreads are the threads of a block of all_reduce, each with 16 bytes of
// every rank at a time.
const reduceThreads = 512

// mostMeeting bounds the blocks of a meeting: with seven peers, 64 blocks have
// 3.7 MB under way, five times what a link of 450 GB/s carries in a latency of
// 1.5 µs.
const maxMeetingBlocks = 64

// mostEarly is of how many tokens a sum may start before the product ahead of it has
// ended. Sums of prompts that did took 46 µs for 4 MiB and 325 for 32, where those
// that waited had taken 32 and 218 (llmprof calibrate --tp 2 on two H200).
const maxEarlyTokens = 64

// oneShotBytes is up to which size a sum over the ranks is read by every rank from
// all; beyond, each rank sums a slice. One shot reads (n-1)·M of a message of M
// bytes, two shots 2(n-1)/n·M and one meeting more, so they are even at
//
//	M = latency · bandwidth / ((n-1)(1 - 2/n))
//
// which for two ranks is never. The latency of a meeting, 2 µs, is assumed, and
// the bandwidth is NVLink 4's in one direction (hardware.toml); neither was
// measured here. vLLM has 512 KiB for 4 and 256 KiB for 8 ranks
// (csrc/custom_all_reduce.cuh), where this gives 600 and 171 kB.
func oneShotBytes(ranks int) int {
	const latency, bandwidth = 2e-6, 450e9
	if ranks <= 2 {
		return maxBytes
	}
	n := float64(ranks)
	return int(latency * bandwidth / ((n - 1) * (1 - 2/n)))
}

// patience is how long a rank waits for another before it gives up: longer than any
// step that this engine is meant for, and short enough for who waits for an error.
const peerTimeout = 10 * time.Second

// ranks is how many GPUs share the model.
func (o *Options) ranks() int { return cmp.Or(o.TP, 1) }

// askShared adds what ranks share to the buffers of so many rows.
func (b *buffers) reserveShared(s *shape, o *Options, rows, sms int) {
	b.blocks = min(maxMeetingBlocks, sms)
	table := 8 * s.ranks
	for i, what := range []string{"the attention's sums", "the feed-forward's sums"} {
		b.reserve(&b.exchange[i], what, 4*rows*s.hidden)
		b.reserve(&b.exchanges[i], "the ranks' sums", table)
	}
	if o.fusesAllReduce(s) {
		b.reserve(&b.packets, "what products post to each other", 2*s.ranks*llBytes*o.Batch*s.hidden)
		b.reserve(&b.epochs, "the turns of what they post", 4*((s.hidden+15)/16))
		b.reserve(&b.packetsOf, "where it is posted to", table)
	}
	b.reserve(&b.bests, "the ranks' best scores", 2*s.ranks*2*llBytes*o.Batch)
	b.reserve(&b.bestEpochs, "how often they were found", 8)
	b.reserve(&b.flags, "the ranks' flags", 4*b.blocks*s.ranks)
	b.reserve(&b.counts, "the meetings' counts", 4*b.blocks)
	b.reserve(&b.bestsOf, "where the best scores go", table)
	b.reserve(&b.flagsOf, "where the flags are", table)
	b.reserve(&b.embeddings, "where the embedding is", table)
}

// link tells this rank where all of them, itself too, have what is shared.
func (e *Engine) link(all []*Engine) error {
	for _, t := range []struct {
		table cuda.Ptr
		of    func(*Engine) cuda.Ptr
	}{
		{e.b.exchanges[0], func(r *Engine) cuda.Ptr { return r.b.exchange[0] }}, {e.b.exchanges[1], func(r *Engine) cuda.Ptr { return r.b.exchange[1] }},
		{e.b.packetsOf, func(r *Engine) cuda.Ptr { return r.b.packets }},
		{e.b.bestsOf, func(r *Engine) cuda.Ptr { return r.b.bests }}, {e.b.flagsOf, func(r *Engine) cuda.Ptr { return r.b.flags }},
		{e.b.embeddings, func(r *Engine) cuda.Ptr { return r.w.embedding }},
	} {
		if t.table == 0 {
			continue // not asked for
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

// onRanks are names of operators that the estimate has where ranks share a model.
func (e *Engine) onRanks(names ...string) []string {
	if e.shape.ranks == 1 {
		return nil
	}
	return names
}

// blockOut is where the product that ends a block leaves its sums: in the stream,
// or before the ranks' sum or a norm.
func (e *Engine) blockOut(b block) cuda.Ptr {
	switch {
	case e.shape.ranks > 1:
		return e.b.exchange[b]
	case e.shape.sandwich:
		return e.b.branch
	}
	return e.b.x
}

// postedBytes are of a value that is posted, and of its turn; of a wide product's they are
// half as many.
const llBytes = 8

// posts is whether the products that end a block of a decode step exchange their sums
// themselves: own ones of 16-bit weights, as long as one shot is the faster, for
// every rank gets all sums of the others.
func (o *Options) fusesAllReduce(s *shape) bool {
	gemm := o.stepGEMM(o.rings())
	if s.ranks == 1 || gemm == nil || gemm.quant != Unquantized {
		return false
	}
	bytes, limit := llBytes*o.Batch*s.hidden, o.oneShotLimit(s.ranks)
	if gemm.isWgmma() {
		bytes /= 2
	}
	if gemm.isWgmma() && s.ranks <= maxFusedRanks {
		limit = cmp.Or(o.oneShot, maxBytes)
	}
	return bytes <= limit
}

// mostPosting is over how many ranks wide products post whatever there is, for all_reduce
// took longer there than oneShotBytes has it: on four H200s a step of llama3.1-8b of 32
// sequences 2.31 ms with sums posted and 2.73 by all_reduce.
const maxFusedRanks = 4

// oneShotLimit is oneShotBytes, or what a test says.
func (o *Options) oneShotLimit(ranks int) int { return cmp.Or(o.oneShot, oneShotBytes(ranks)) }

// queueSummed queues the product that ends a block, the sum over the ranks, and its sum
// with the stream, or the sum over the ranks alone where a norm takes it.
func (e *Engine) queueGEMMAllReduce(gemm *gemmKernels, o *outProduct) error {
	sh, b := &e.shape, e.b
	y, h := b.x, b.h
	if o.post != 0 {
		y, h = b.branch, 0
	}
	return e.queueFusedGEMM(gemm, gemm.allReduceGEMM, residualEpilogue,
		&gemmOperands{w: o.w, x: o.x, out: sh.hidden, in: o.in, y: y, y16: h, nextSquares: b.squares, nextNorm: o.next},
		&llOperands{buffers: b.packetsOf, timedOut: e.timedOut.Ptr(), limit: e.limit(), rank: sh.rank, epochs: b.epochs})
}

// summedNames are the estimate's for a block's product and the sum over the ranks: one
// operator for both blocks, for the estimate has one all_reduce for both.
func (e *Engine) allReduceNames() []string {
	if e.shape.experts > 0 {
		return []string{"o_proj", "all_reduce"}
	}
	return []string{"o_proj", "down_proj", "all_reduce"}
}

// addSum adds the sum over the ranks of a block's output. Where the attention's is
// within a product, a mixture's is one operator with that.
func (e *Engine) addSum(s *sequence, layer, rows int, o outProduct) {
	if e.shape.ranks == 1 {
		return
	}
	names := []string{"all_reduce"}
	if o.next != 0 && e.opt.fusesAllReduce(&e.shape) {
		names = e.allReduceNames()
	}
	s.add(layer, func() error { return e.queueSum(rows, &o) }, names[0], names[1:]...)
}

// queueSum queues the sum over the ranks for rows tokens: to the stream, with what
// an own product needs of it, or to where a norm takes it from.
func (e *Engine) queueSum(rows int, o *outProduct) error {
	sh, b := &e.shape, e.b
	n, y, adds, h, squares, norm := rows*sh.hidden, b.x, int32(1), cuda.Ptr(0), cuda.Ptr(0), cuda.Ptr(0)
	if o.post != 0 {
		y, adds = b.branch, 0
	} else if o.next != 0 {
		h, squares, norm = b.h, b.squares, o.next
	}
	two, values := int32(0), n
	if 4*n > e.opt.oneShotLimit(sh.ranks) {
		two, values = 1, (n+sh.ranks-1)/sh.ranks
	}
	const each = 4 * reduceThreads // values of a block at a time
	l := cuda.Launch{Grid: cuda.Dim{X: min((values+each-1)/each, b.blocks)}, Block: cuda.Dim{X: reduceThreads}, Early: rows <= maxEarlyTokens}
	return e.p.allReduce.Queue(e.s, l, b.exchanges[o.block], b.flagsOf, b.counts, e.timedOut.Ptr(), uint64(e.limit()), int32(sh.rank), two, uint64(n),
		y, adds, h, squares, norm, int32(sh.hidden))
}

// queueSamplingShared queues the choice of the next tokens among the scores of all
// ranks.
func (e *Engine) queueSamplingShared(l cuda.Launch) error {
	sh, b := &e.shape, e.b
	return e.p.samplingShared.Queue(e.s, l, b.logits, int32(sh.tokens), int32(sh.firstToken), b.best, b.sampled, b.nextToken, b.positions, e.next.Ptr(),
		b.bestsOf, e.timedOut.Ptr(), uint64(e.limit()), int32(sh.rank), b.bestEpochs)
}

// limit is how long a rank waits for another.
func (e *Engine) limit() time.Duration {
	if e.opt.peerTimeout > 0 {
		return e.opt.peerTimeout
	}
	return peerTimeout
}
