package serving

import (
	"math"
)

// A busy API server lets requests come to the engine in groups. Its event loop works in passes (frontend.go): the sample path has it for
// numbers of tokens.

// An eventLoop is the API server beside the steps that are followed: the event loop of frontend, for numbers of tokens.
type eventLoop struct {
	intake, half, closing, way float64
	rank                       float64     // share of the sequences that began before one whose answer ends
	turns                      *roundRobin // of clients that send a request when they have an answer; nil in an open loop

	running  bool // a pass runs
	plain    bool // it sends no tokens and takes none apart
	end      float64
	each     float64    // time of a pass without tokens
	ready    delivery   // tokens to send
	taken    delivery   // outputs that the pass takes apart
	outputs  []delivery // outputs of steps, not taken apart yet
	coming   []float64  // times at which requests come to the server
	come     int        // how many of them have come
	entering []entrant  // in the order of their arrival
	passes   int        // that have begun
	entered  []float64  // times at which requests come to the engine, which it does not know yet
	due      float64    // answers whose ends are not sent yet
	sums     loopSums
}

// loopSums are sums of times in the API server and of how many requests have them.
type loopSums struct{ in, firsts, ends, entered, began, ended float64 }

func (s *loopSums) add(o *loopSums) {
	s.in, s.firsts, s.ends = s.in+o.in, s.firsts+o.firsts, s.ends+o.ends
	s.entered, s.began, s.ended = s.entered+o.entered, s.began+o.began, s.ended+o.ended
}

// An entrant is a request on its way to the engine.
type entrant struct {
	sent float64
	last int // pass that it leaves with
}

// A delivery is the tokens of a step, or of several steps whose tokens are sent together: each sequence has one message then.
type delivery struct {
	// Messages: of sequences that had their first token before, with first tokens, and those of both that end answers.
	decodes, firsts, ends float64
	gain                  float64 // tokens
	firstsAt, endsAt      float64 // sums of the times at which the engine had the first tokens and the last ones
	last                  int     // pass that takes them apart
}

// followsAPI reports whether requests can be followed through the API server: it takes time, and replicas neither share experts nor get
// the cache of prompts.
func (f *flow) followsAPI() bool { return !f.front.free() && !f.handed && f.peers == 1 }

// newEventLoop is the API server of a flow; nil where requests are not followed through it.
func (f *flow) newEventLoop(t *roundRobin) *eventLoop {
	if !f.followsAPI() {
		return nil
	}
	front := &f.front
	return &eventLoop{intake: float64(front.intake), half: float64(front.token) / 2, closing: float64(front.closing), way: float64(front.way),
		rank: 1 - f.shorter, turns: t}
}

// deliver hands over the tokens of a step at a time.
func (p *eventLoop) deliver(h delivery, at float64) {
	p.until(at)
	h.last = p.passes + handed + 1
	h.firstsAt, h.endsAt = at*h.firsts, at*h.ends
	p.due += h.ends
	p.outputs = append(p.outputs, h)
	if !p.running {
		p.begin(at)
	}
}

// until lets the passes up to a time end, and requests come.
func (p *eventLoop) until(time float64) {
	for {
		switch { // as next, which takes longer
		case p.running && p.end <= time:
			if p.plain && p.alike(time) {
				return
			}
			p.finish()
			p.begin(p.end)
		case !p.running && p.come < len(p.coming) && p.coming[p.come] <= time:
			p.begin(p.coming[p.come])
		default:
			return
		}
	}
}

// alike lets passes up to a time end that are like the one that runs: they take no tokens apart, and no request comes or leaves with them.
// It reports whether the last of them ends later.
func (p *eventLoop) alike(time float64) bool {
	last, end, passes := math.MaxInt, p.end, p.passes
	if len(p.entering) > 0 {
		last = p.entering[0].last
	}
	if len(p.outputs) > 0 {
		last = min(last, p.outputs[0].last-1)
	}
	next := math.Inf(1)
	if p.come < len(p.coming) {
		next = p.coming[p.come]
	}
	for ; passes < last && end <= time && end < next; passes++ {
		end += p.each
	}
	p.end, p.passes = end, passes
	return end > time
}

// next is when a pass ends, or a request comes to a server that is idle; +Inf if nothing does.
func (p *eventLoop) next() float64 {
	switch {
	case p.running:
		return p.end
	case p.come < len(p.coming):
		return p.coming[p.come]
	}
	return math.Inf(1)
}

// arrive lets the requests enter that have come up to a time.
func (p *eventLoop) arrive(now float64) {
	for p.come < len(p.coming) && p.coming[p.come] <= now {
		p.entering = append(p.entering, entrant{p.coming[p.come] - p.way, p.passes + stages})
		p.come++
	}
	if left := len(p.coming) - p.come; left < p.come { // the room of those that have come is used again
		copy(p.coming, p.coming[p.come:])
		p.coming, p.come = p.coming[:left], 0
	}
}

// begin begins a pass if there is anything to do.
func (p *eventLoop) begin(now float64) {
	if p.come < len(p.coming) && p.coming[p.come] <= now {
		p.arrive(now)
	}
	if len(p.entering)+len(p.outputs) == 0 && p.ready.gain == 0 {
		return
	}
	p.passes++
	p.running, p.plain, p.end = true, true, now
	if p.ready.gain > 0 {
		p.plain, p.end = false, p.send(now)
	}
	for i := range p.outputs {
		if o := &p.outputs[i]; o.last <= p.passes {
			p.end += p.half * o.gain
			p.taken.join(o)
			p.plain = false
		}
	}
	p.each = p.intake * float64(len(p.entering)) / stages
	p.end += p.each
}

// send sends the tokens that are ready, from a time on, and gives when it is done: those of sequences that decode, in the order in which
// they began, before first ones. Those that end answers are at even distances around the rank that such a sequence has in the mean.
func (p *eventLoop) send(now float64) float64 {
	r := &p.ready
	p.due -= r.ends
	each, rank, before := r.decodes*p.half, 2*p.rank, r.ends*p.closing
	if r.decodes == 0 { // answers of one token: streams end between the first tokens of others
		each, rank, before = r.firsts*p.half, 1, 0
	}
	for i := 0.5; i < r.ends; i++ {
		at := now + min(rank*i/r.ends, 1)*each + (i-0.5)*p.closing
		if r.decodes == 0 {
			at += p.half / 2 // its own message is sent
		}
		p.sums.ends += at
		if p.turns != nil {
			p.turns.send(at + 2*p.way)
		}
	}
	p.sums.ends -= r.endsAt
	p.sums.ended += r.ends
	now += r.decodes*p.half + before
	p.sums.firsts += r.firsts*(now+(r.firsts+1)/2*p.half) + (r.firsts-1)/2*(r.ends*p.closing-before) - r.firstsAt
	p.sums.began += r.firsts
	now += r.firsts*p.half + r.ends*p.closing - before
	p.ready = delivery{}
	return now
}

// join adds the tokens of a later step. The sequences that it decodes are those of the earlier ones but for ended answers, so that it adds
// messages with first tokens alone, unless the earlier ones were of prompts alone.
func (h *delivery) join(o *delivery) {
	if h.decodes == 0 {
		h.decodes = max(o.decodes-h.firsts, 0)
	}
	h.firsts, h.ends, h.gain = h.firsts+o.firsts, h.ends+o.ends, h.gain+o.gain
	h.firstsAt, h.endsAt = h.firstsAt+o.firstsAt, h.endsAt+o.endsAt
}

// finish ends the pass that runs.
func (p *eventLoop) finish() {
	p.running = false
	if p.taken.gain > 0 {
		p.ready, p.taken = p.taken, delivery{}
	}
	n := 0
	for n < len(p.outputs) && p.outputs[n].last <= p.passes {
		n++
	}
	if n > 0 {
		p.outputs = p.outputs[:copy(p.outputs, p.outputs[n:])]
	}
	for n = 0; n < len(p.entering) && p.entering[n].last <= p.passes; n++ {
		p.sums.in += p.end - p.entering[n].sent
		p.sums.entered++
		p.entered = append(p.entered, p.end)
	}
	if n > 0 {
		p.entering = p.entering[:copy(p.entering, p.entering[n:])]
	}
}

// quiet reports whether no request is in the server and no answer waits to be ended, so that steps with so many tokens that take a time
// leave the loop idle until the next request comes.
func (p *eventLoop) quiet(decodes, yields, step float64) bool {
	return len(p.entering)+len(p.entered) == 0 && p.due == 0 && decodes*p.half*(1+yields) < step
}

// delays are the mean times of a request and of its first token in the API server and on the way, and how much longer the last token is
// there.
func (p *eventLoop) delays() (in, later float64) {
	s := &p.sums
	first := s.firsts / max(s.began, 1)
	return s.in/max(s.entered, 1) + first + p.way, s.ends/max(s.ended, 1) - first
}

// arrivals lets the requests come to the engine that do so up to a time.
func (w *path) arrivals(time float64) {
	if w.api.until(time); len(w.api.entered) == 0 {
		return
	}
	n := min(len(w.api.entered), len(w.jobs)-w.sent)
	for _, at := range w.api.entered[:n] {
		w.jobs[w.sent].at = at
		w.sent++
	}
	w.api.entered = w.api.entered[:0]
}

// enter sends the jobs of an open loop through the API server.
func (w *path) enter() {
	w.api.coming = make([]float64, 0, len(w.jobs))
	for i := range w.jobs {
		v := &w.jobs[i]
		w.api.coming = append(w.api.coming, v.at+w.api.way)
		v.at = math.Inf(1)
	}
}

// An API server is noticeable in the path of requests from some share of its time on, and lets prompts come in groups, which the product
// form of Poisson arrivals does not have, from a larger one. Both are half as large where prompts have steps of their own, for which all
// sequences wait. Below the first share its time is added to that of a path without it (go test ./serving -run SeldomBusy).
const noticeable, grouping, heldUp = 0.125, 0.4, 0.5

// apiBusy reports whether the API server of a replica is busy for a share of its time at a rate, or for half of that share where prompts
// have steps of their own.
func (f *flow) apiBusy(share, rate float64) bool {
	if !f.server.Scheduler.Mixed {
		share *= heldUp
	}
	return f.followsAPI() && f.front.load(rate, f.gen) >= share
}

// groupsArrivals reports whether the API server of a replica lets prompts come in groups at a rate, so that requests are followed through
// it.
func (f *flow) groupsArrivals(rate float64) bool { return f.apiBusy(grouping, rate) }
