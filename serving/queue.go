package serving

import "llmprof/unit"

// An arrival is a request that waits for its first step. Millions may wait, so that it is kept in 40 bytes.
type arrival struct {
	at, came    unit.Seconds // when the client sent it, and when the engine had it
	index       int
	prompt, gen int32
	prefix      *prefix // nil where the blocks of the prompt have no names
}

// A prefix is the names of the blocks of a prompt.
type prefix struct {
	hashes []uint64
	tokens int // of each
}

func arrivalOf(index int, r *Request) arrival {
	a := arrival{at: r.At, index: index, prompt: int32(r.Prompt), gen: int32(r.Gen)}
	if len(r.Hashes) > 0 {
		a.prefix = &prefix{r.Hashes, r.HashTokens}
	}
	return a
}

func (a *arrival) request() Request {
	r := Request{At: a.at, Prompt: int(a.prompt), Gen: int(a.gen)}
	if a.prefix != nil {
		r.Hashes, r.HashTokens = a.prefix.hashes, a.prefix.tokens
	}
	return r
}

// A queue is what waits at a replica: sequences that were preempted, then those that were handed over, then requests.
type queue struct {
	again []*sequence // the next one last
	whole fifo[*sequence]
	fresh fifo[arrival]
	some  []sequence // memory for sequences
}

func (w *queue) len() int { return len(w.again) + w.whole.n + w.fresh.n }

// front is the sequence that is the next to begin; nil if none waits.
func (w *queue) front() *sequence {
	if n := len(w.again); n > 0 {
		return w.again[n-1]
	}
	switch {
	case w.whole.n > 0:
		w.again = append(w.again, w.whole.pop())
	case w.fresh.n > 0:
		w.again = append(w.again, w.begins())
	default:
		return nil
	}
	return w.again[0]
}

// begins makes a sequence of the request that came first.
func (w *queue) begins() *sequence {
	if len(w.some) == 0 {
		w.some = make([]sequence, 64)
	}
	q := &w.some[0]
	w.some = w.some[1:]
	a := w.fresh.pop()
	q.Index, q.Request, q.arrived, q.goal = a.index, a.request(), a.came, int(a.prompt)
	return q
}

func (w *queue) popFront() { w.again = w.again[:len(w.again)-1] }

func (w *queue) pushFront(q *sequence) { w.again = append(w.again, q) }

// A fifo is a queue in pieces, so that it grows without a copy and gives back the memory of those that have left.
type fifo[T any] struct {
	pieces [][]T
	left   int // those of the first piece that have left
	n      int
}

// mostPiece is the length of a piece of a long queue.
const mostPiece = 512

func (f *fifo[T]) push(v T) {
	last := len(f.pieces) - 1
	if last < 0 || len(f.pieces[last]) == cap(f.pieces[last]) {
		f.pieces = append(f.pieces, make([]T, 0, min(f.n+16, mostPiece)))
		last++
	}
	f.pieces[last] = append(f.pieces[last], v)
	f.n++
}

func (f *fifo[T]) front() *T { return &f.pieces[0][f.left] }

// pop takes the first.
func (f *fifo[T]) pop() (first T) {
	var none T
	first, *f.front() = *f.front(), none
	f.left++
	f.n--
	switch {
	case f.n == 0:
		f.pieces[0], f.left = f.pieces[0][:0], 0
	case f.left == len(f.pieces[0]):
		f.pieces[0] = nil
		f.pieces, f.left = f.pieces[1:], 0
	}
	return first
}
