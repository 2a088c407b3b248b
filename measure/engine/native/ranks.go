package native

import (
	"cmp"
	"time"

	"llmprof/measure/engine/native/cuda"
)

// block is which of a layer's two blocks a product ends. Each has an exchange
// buffer of its own, so that they are written in turn (ranks.cu).
type block int

const (
	attentionBlock block = iota
	feedForward
)

// shared are the buffers that ranks of a model meet with (ranks.cu), and the
// tables of where the others have theirs. Nothing of it is there where one GPU has
// the whole model.
type shared struct {
	exchange [2]cuda.Ptr // float32 [rows][hidden], what the products of each block leave
	bests    cuda.Ptr    // uint64 [batch], the best of this rank's scores
	flags    cuda.Ptr    // uint32 [blocks][ranks], how often a block of each rank was at a meeting
	counts   cuda.Ptr    // uint32 [blocks], how often this rank's was

	exchanges  [2]cuda.Ptr // [ranks] addresses of each of these
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
const mostMeeting = 64

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
		return mostBytes
	}
	n := float64(ranks)
	return int(latency * bandwidth / ((n - 1) * (1 - 2/n)))
}

// patience is how long a rank waits for another before it gives up: longer than any
// step that this engine is meant for, and short enough for who waits for an error.
const patience = 10 * time.Second

// ranks is how many GPUs share the model.
func (o *Options) ranks() int { return cmp.Or(o.TP, 1) }

// askShared adds what ranks share to the buffers of so many rows.
func (b *buffers) askShared(s *shape, o *Options, rows, sms int) {
	b.blocks = min(mostMeeting, sms)
	table := 8 * s.ranks
	for i, what := range []string{"the attention's sums", "the feed-forward's sums"} {
		b.ask(&b.exchange[i], what, 4*rows*s.hidden)
		b.ask(&b.exchanges[i], "the ranks' sums", table)
	}
	b.ask(&b.bests, "the rank's best scores", 8*o.Batch)
	b.ask(&b.flags, "the ranks' flags", 4*b.blocks*s.ranks)
	b.ask(&b.counts, "the meetings' counts", 4*b.blocks)
	b.ask(&b.bestsOf, "the ranks' best scores", table)
	b.ask(&b.flagsOf, "where the flags are", table)
	b.ask(&b.embeddings, "where the embedding is", table)
}

// link tells this rank where all of them, itself too, have what is shared.
func (e *Engine) link(all []*Engine) error {
	for _, t := range []struct {
		table cuda.Ptr
		of    func(*Engine) cuda.Ptr
	}{
		{e.b.exchanges[0], func(r *Engine) cuda.Ptr { return r.b.exchange[0] }}, {e.b.exchanges[1], func(r *Engine) cuda.Ptr { return r.b.exchange[1] }},
		{e.b.bestsOf, func(r *Engine) cuda.Ptr { return r.b.bests }}, {e.b.flagsOf, func(r *Engine) cuda.Ptr { return r.b.flags }},
		{e.b.embeddings, func(r *Engine) cuda.Ptr { return r.w.embedding }},
	} {
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

// addSum adds the sum over the ranks of a block's output.
func (e *Engine) addSum(s *sequence, layer, rows int, o outProduct) {
	if e.shape.ranks > 1 {
		s.add(layer, func() error { return e.queueSum(rows, &o) }, "all_reduce")
	}
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
	limit, two, values := e.opt.oneShot, int32(0), n
	if limit == 0 {
		limit = oneShotBytes(sh.ranks)
	}
	if 4*n > limit {
		two, values = 1, (n+sh.ranks-1)/sh.ranks
	}
	const each = 4 * reduceThreads // values of a block at a time
	l := cuda.Launch{Grid: cuda.Dim{X: min((values+each-1)/each, b.blocks)}, Block: cuda.Dim{X: reduceThreads}, Early: o.next != 0}
	return e.p.allReduce.Queue(e.s, l, b.exchanges[o.block], b.flagsOf, b.counts, e.late.Ptr(), uint64(e.limit()), int32(sh.rank), two, uint64(n),
		y, adds, h, squares, norm, int32(sh.hidden))
}

// queueSamplingShared queues the choice of the next tokens among the scores of all
// ranks; l is the launch of the choice among this rank's.
func (e *Engine) queueSamplingShared(l cuda.Launch) error {
	sh, b := &e.shape, e.b
	err := e.p.bestOfPart.Queue(e.s, l, b.logits, int32(sh.tokens), int32(sh.firstToken), b.best, b.sampled, b.bests)
	if err != nil {
		return err
	}
	const threads = 128
	all := cuda.Launch{Grid: cuda.Dim{X: min((e.opt.Batch+threads-1)/threads, b.blocks)}, Block: cuda.Dim{X: threads}, Early: l.Early}
	return e.p.bestOfAll.Queue(e.s, all, b.bestsOf, b.flagsOf, b.counts, e.late.Ptr(), uint64(e.limit()), int32(sh.rank), int32(e.opt.Batch), b.nextToken, b.positions)
}

// limit is how long a rank waits for another.
func (e *Engine) limit() time.Duration {
	if e.opt.patience > 0 {
		return e.opt.patience
	}
	return patience
}
