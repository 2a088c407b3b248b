package serving

import "llmprof/unit"

// A packed is a request in 32 bytes: millions may wait.
type packed struct {
	at          unit.Seconds
	index       int
	prompt, gen int32
	prefix      *prefix // nil where the blocks of the prompt have no names
}

// A prefix is the names of the blocks of a prompt.
type prefix struct {
	hashes []uint64
	tokens int // of each
}

func pack(index int, r *Request) packed {
	p := packed{at: r.At, index: index, prompt: int32(r.Prompt), gen: int32(r.Gen)}
	if len(r.Hashes) > 0 {
		p.prefix = &prefix{r.Hashes, r.HashTokens}
	}
	return p
}

func (p *packed) request() Request {
	r := Request{At: p.at, Prompt: int(p.prompt), Gen: int(p.gen)}
	if p.prefix != nil {
		r.Hashes, r.HashTokens = p.prefix.hashes, p.prefix.tokens
	}
	return r
}

// An arrival is a request that waits for its first step.
type arrival struct {
	packed
	came unit.Seconds // when the engine had it
}

// A prefilled is a request that another replica began, and that waits for a decode step.
type prefilled struct {
	*stream
	came unit.Seconds // when its cache had arrived
}

// A late is a sequence that was preempted, and that waits behind others.
type late struct {
	*sequence
	after int // sequences that leave the queue before it, of all that ever do
}

// A queue is what waits at a replica: sequences that were preempted, then those that were handed over, then requests.
type queue struct {
	again     []*sequence // the next one last
	late      fifo[late]
	prefilled fifo[prefilled]
	fresh     fifo[arrival]
	left      int        // of those that were handed over and of requests
	some      []sequence // memory for sequences
	streams   []stream   // memory for their streams
}

func (w *queue) len() int { return len(w.again) + w.late.n + w.prefilled.n + w.fresh.n }

// front is the sequence that is the next to begin; nil if none waits.
func (w *queue) front() *sequence {
	if n := len(w.again); n > 0 {
		return w.again[n-1]
	}
	switch {
	case w.late.n > 0 && w.late.front().after <= w.left:
		w.again = append(w.again, w.late.pop().sequence)
		return w.again[0]
	case w.prefilled.n > 0:
		p := w.prefilled.pop()
		q := w.sequence(p.stream, p.came)
		q.computed, q.generated = q.goal, 1
		q.goal++
	case w.fresh.n > 0:
		a := w.fresh.pop()
		s := one(&w.streams)
		s.packed = a.packed
		w.sequence(s, a.came)
	default:
		return nil
	}
	w.left++
	return w.again[0]
}

// sequence makes a sequence that is the next to begin.
func (w *queue) sequence(s *stream, came unit.Seconds) *sequence {
	q := one(&w.some)
	q.stream, q.Request, q.arrived, q.goal = s, s.request(), came, int(s.prompt)
	w.again = append(w.again, q)
	return q
}

// one takes the first of some values, which it makes where there is none.
func one[T any](some *[]T) *T {
	if len(*some) == 0 {
		*some = make([]T, 64)
	}
	first := &(*some)[0]
	*some = (*some)[1:]
	return first
}

func (w *queue) popFront() { w.again = w.again[:len(w.again)-1] }

func (w *queue) pushFront(q *sequence) { w.again = append(w.again, q) }

func (w *queue) pushBack(q *sequence) { w.late.push(late{q, w.left + w.prefilled.n + w.fresh.n}) }

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
