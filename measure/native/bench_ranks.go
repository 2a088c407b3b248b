package native

import (
	"errors"
	"slices"
	"time"

	"llmprof/analytic/operator"
	"llmprof/measure/native/cuda"
)

// These are the limits of all-reduces that are timed by themselves.
const (
	sumWidth          = 4096 // values of a row, as the stream of Llama-3.1-8B has
	minAllReduceCalls = 256  // calls in a graph of small messages, because ranks begin some microseconds apart
	maxAllReduceBytes = 4e9  // the most bytes of all messages of a graph
)

// allReduceOptions are the options of a team whose all-reduce of one block's output has the message of a
// query: so many bytes in 16 bits, as estimates count it, though the ranks exchange float32.
func allReduceOptions(q *Query) (o Options, rows int, err error) {
	values := q.Shape["bytes"] / 2
	width := min(sumWidth, values)
	if width == 0 || width%64 != 0 || values%width != 0 {
		return o, 0, unsupported("an all-reduce of %d bytes: of rows of up to %d values, a multiple of 64, in 16 bits", q.Shape["bytes"],
			sumWidth)
	}
	rows = values / width
	o = Options{Seed: 1, TP: q.TP, Workload: operator.Workload{Batch: 1, PromptLen: rows, GenLen: 1}}
	if skinnyNext(rows) {
		o.Batch, o.PromptLen, o.GenLen = rows, 1, 2
	}
	o.Config = denseConfig(map[string]int{"hidden": width, "width": 512, "heads": 8, "kv_heads": 8, "head_dim": 64, "n": 1024}, 1, false)
	return o, rows, o.readModel(q)
}

// timeAllReduce times all-reduces of random values as the engine's steps have them, over as many GPUs. Those of both
// blocks alternate, and nothing runs between them. If the all-reduce is fused into a GEMM, its time is what the GEMM
// takes longer with it.
func (b *Bencher) timeAllReduce(q *Query) (t Times, err error) {
	o, rows, err := allReduceOptions(q)
	if err != nil {
		return t, err
	}
	team, err := b.openTeam(o)
	if err != nil {
		return t, err
	}
	defer func() { err = errors.Join(err, team.Close()) }()
	if err := team.Each(func(_ int, e *Engine) error { return e.fillSums(rows) }); err != nil {
		return t, err
	}
	calls := max(2, min(b.allReduces, int(maxAllReduceBytes)/q.Shape["bytes"])) / 2 * 2
	t.Cold = true // This GPU's cache never has the peers' values.
	t.Seconds, err = timeShared(team, q, func(e *Engine) error { return e.queueAllReduces(rows, calls) })
	if err != nil {
		return t, err
	}
	less, err := b.withoutAllReduce(team, q, rows, calls)
	if err != nil {
		return t, err
	}
	if !t.perCall(calls, less) {
		return Times{}, unsupported("an all-reduce of %d bytes is fused into a GEMM here, which takes no longer with it than without: time it "+
			"again", q.Shape["bytes"])
	}
	return t, nil
}

// fillSums fills the inputs of all-reduces with random values, because zeros draw less power.
func (e *Engine) fillSums(rows int) error {
	sums := 2 * rows * e.shape.hidden // A value in float32 has the bits of two in bf16.
	if err := e.queueRandom(span{e.b.exchange[attentionBlock], sums}, span{e.b.exchange[feedForward], sums},
		span{e.b.att, rows * e.shape.attWidth()}); err != nil {
		return err
	}
	return e.s.Sync()
}

// withoutAllReduce is the time of the GEMMs without the all-reduces that are fused into them; 0 if a kernel
// of its own does the all-reduce.
func (b *Bencher) withoutAllReduce(team *Team, q *Query, rows, calls int) (float64, error) {
	if !team.engines[0].fusesAllReduce(rows) {
		return 0, nil
	}
	times, err := timeShared(team, q, func(e *Engine) error {
		w := &e.w.layers[0]
		for range calls {
			if err := e.queueResidual(e.stepGEMM(), e.b.att, w.o, e.shape.attWidth(), w.mlpNorm); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	return medianOf(times), nil
}

// timeShared times a graph of what every rank queues.
func timeShared(team *Team, q *Query, queue func(*Engine) error) (times []float64, err error) {
	graphs := make([]*cuda.Graph, team.Ranks())
	defer func() {
		err = errors.Join(err, team.Each(func(rank int, _ *Engine) error {
			if graphs[rank] == nil {
				return nil
			}
			return graphs[rank].Close()
		}))
	}()
	err = team.Each(func(rank int, e *Engine) (err error) {
		graphs[rank], err = e.s.Record(func() error { return queue(e) })
		return err
	})
	if err != nil {
		return nil, err
	}
	return repeatShared(team, graphs, q)
}

// skinnyNext reports whether a skinny GEMM follows an all-reduce of so many rows; the all-reduce then
// prepares its inputs.
func skinnyNext(rows int) bool { return gemmFor(skinnyGEMMs(), Unquantized, rows) != nil }

// fusesAllReduce reports whether the all-reduce of so many rows is fused into a GEMM.
func (e *Engine) fusesAllReduce(rows int) bool {
	return skinnyNext(rows) && e.opt.fusesAllReduce(&e.shape)
}

// queueAllReduces queues so many all-reduces, of both blocks alternately.
func (e *Engine) queueAllReduces(rows, calls int) error {
	o := outGEMM{x: e.b.att, w: e.w.layers[0].o, in: e.shape.attWidth()}
	if skinnyNext(rows) {
		o.next = e.w.layers[0].mlpNorm
	}
	queue := func() error { return e.queueAllReduce(rows, &o) }
	if e.fusesAllReduce(rows) {
		queue = func() error { return e.queueGEMMAllReduce(e.stepGEMM(), &o) }
	}
	for i := range calls {
		o.block = block(i % 2)
		if err := queue(); err != nil {
			return err
		}
	}
	return nil
}

// repeatShared launches the graphs of all ranks together, again and again. A sample is the least of
// the ranks' times, because the last rank to begin waits for none.
func repeatShared(team *Team, graphs []*cuda.Graph, q *Query) ([]float64, error) {
	begin := time.Now()
	var out []float64
	times, replays := make([]float64, team.Ranks()), 1
	const warm = 5
	for n := 0; !q.enough(len(out), time.Since(begin)); n++ {
		err := team.Each(func(rank int, e *Engine) (err error) {
			times[rank], err = timeReplays(e.s, graphs[rank], replays)
			return err
		})
		if err != nil {
			return nil, err
		}
		if n >= warm {
			out = append(out, slices.Min(times))
		} else if q.Seconds >= benchLong {
			replays = replaysOf(slices.Min(times))
		}
	}
	return out, nil
}
