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
	tokens int // tokens of each sequence
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

// A late is a sequence that was preempted, and that waits behind others.
type late struct {
	*sequence
	after int // sequences that leave the queue before it, of all that ever do
}

// A queue is what waits at a replica: sequences that were preempted, then those that were handed over, then requests.
type queue struct {
	again     []*sequence // the next one last
	late      fifo[late]
	prefilled fifo[*sequence]
	fresh     fifo[arrival]
	left      int // how many handed-over sequences and requests have left the queue
}

func (w *queue) len() int { return len(w.again) + len(w.late) + len(w.prefilled) + len(w.fresh) }

// front is the sequence that is the next to begin; nil if none waits.
func (w *queue) front() *sequence {
	if n := len(w.again); n > 0 {
		return w.again[n-1]
	}
	switch {
	case len(w.late) > 0 && w.late[0].after <= w.left:
		w.again = append(w.again, w.late.pop().sequence)
		return w.again[0]
	case len(w.prefilled) > 0:
		w.again = append(w.again, w.prefilled.pop())
	case len(w.fresh) > 0:
		a := w.fresh.pop()
		w.again = append(w.again, newSequence(&stream{packed: a.packed}, a.came))
	default:
		return nil
	}
	w.left++
	return w.again[0]
}

func newSequence(s *stream, came unit.Seconds) *sequence {
	return &sequence{stream: s, Request: s.request(), arrived: came, progress: progress{goal: int(s.prompt)}}
}

// begun lets a request wait that another replica began, for a decode step, from when its cache has arrived.
func (w *queue) begun(s *stream, came unit.Seconds) {
	q := newSequence(s, came)
	q.computed, q.generated = q.goal, 1
	q.goal++
	w.prefilled.push(q)
}

func (w *queue) popFront() { w.again = w.again[:len(w.again)-1] }

func (w *queue) pushBack(q *sequence) { w.late.push(late{q, w.left + len(w.prefilled) + len(w.fresh)}) }

// A fifo is a queue, the first one first.
type fifo[T any] []T

func (f *fifo[T]) push(v T) { *f = append(*f, v) }

// pop takes the first.
func (f *fifo[T]) pop() (first T) {
	var none T
	first, (*f)[0] = (*f)[0], none
	*f = (*f)[1:]
	return first
}
