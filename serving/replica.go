package serving

import (
	"math/rand/v2"
	"slices"

	"llmprof/analytic"
	"llmprof/analytic/engine"
	"llmprof/unit"
)

// A sequence is a request on its way through a replica.
type sequence struct {
	Request Request
	*stream
	progress
	holding
	arrived unit.Seconds // time at which the engine had it
	ready   unit.Seconds // not before: the cache is on its way
}

// A progress is how far a sequence has come.
type progress struct {
	goal      int // tokens whose cache has to be there before the next token comes
	computed  int // tokens whose cache is there
	generated int
	turn      int // batch of a pipeline from which on it may decode
}

// A holding is the KV blocks of a sequence.
type holding struct {
	blocks  int  // blocks of the sequence alone
	holds   int  // context up to which it needs no further ones; 0 where that is not known
	shared  int  // leading hashes whose entries it holds
	kept    bool // the blocks of its prompt were entered into the prefix cache
	swapped bool // The cache is in host memory.
}

// A stream is what a client has of an answer, and what its record says. Millions may wait for the API server when the engine is done with
// them, so that it is kept in 72 bytes.
type stream struct {
	packed
	first, last                        unit.Seconds // when the client had the first tokens, and the latest
	cached, preempted, replica, unsent int32        // unsent are the tokens that wait to be sent
	complete                           bool         // The tokens that it has, or those that were sent, are all of the answer.
}

// record is what became of a request that was answered.
func (s *stream) record() *Record {
	return &Record{Index: s.index, Request: s.request(), First: s.first, Last: s.last, Cached: int(s.cached), Preempted: int(s.preempted),
		Replica: int(s.replica)}
}

func (q *sequence) decoding() bool { return q.generated > 0 && q.goal-q.computed == 1 }

// A replica is one instance of the model with its scheduler's state.
type replica struct {
	server *Server
	index  int
	peers  []*replica // replicas that share its experts, itself among them: their steps run side by side
	front  frontend
	instance
	waiting queue
	running []*sequence
	cache   occupancy
	stepping
	timing
	preempted int
	refused   []*sequence // sequences that can never begin, until the cluster takes them
}

// An instance is what a replica runs with.
type instance struct {
	rules   *engine.Scheduler
	policy  policy
	prices  *prices
	draft   *prices
	scale   *analytic.TimeScale // nil for that which is expected
	kv      *kvBlocks
	pool    *pool
	pipe    *pipeline
	random  *rand.Rand
	only    bool // it prefills and hands over
	longest int  // tokens of a sequence, prompt and answer
}

// A stepping is the step of a replica that runs, or is formed.
type stepping struct {
	batch  batch
	cost   Cost
	tokens int
	budget int                               // tokens that it still takes
	formed struct{ now, known unit.Seconds } // when it begins, and until when requests had to come for it
	deaf   int                               // steps that only decoded since the scheduler received requests
	heard  unit.Seconds                      // until when requests had to come then

	gains         []output    // what it brings
	outputs       []output    // what the step brought that ended last
	ending, ended []*sequence // sequences whose last token it brings, and the step before
}

// A timing is the times of the step that runs.
type timing struct {
	busy       bool
	overlaps   bool         // the step is formed before the one before it has ended
	begin, end unit.Seconds // begin and end of the step that runs
	stopped    unit.Seconds // when the step before ended
	launched   unit.Seconds // when the host has launched all of that step
	held       unit.Seconds // until when the host keeps the outputs of the step before; 0 if it has none
}

// form makes the next step of what had arrived when it was formed. It reports whether there is one.
func (r *replica) form(now, formed unit.Seconds) bool {
	r.batch.reset(len(r.prices.windows))
	r.gains, r.ending = r.gains[:0], nil
	r.tokens, r.budget, r.formed.now, r.formed.known = 0, r.rules.Budget, now, r.received(formed)
	preempted := r.preempted
	if r.policy.form(r); r.batch.empty() && r.heard < formed { // Nothing runs: it receives requests again at once.
		r.heard, r.formed.known = formed, formed
		r.policy.form(r)
	}
	if len(r.batch.chunks) == 0 && r.batch.decodes > 0 {
		if r.deaf++; r.preempted == preempted {
			r.policy.decoded(&r.cache, 1)
		}
	} else {
		r.deaf = r.rules.Receives
	}
	return !r.batch.empty()
}

// received is until when requests had to come that the next step knows of: those that came before the scheduler received requests last. It
// does so after every step with a prompt, and after so many steps that only decode (SchedulerRecvSkipper of SGLang's
// managers/scheduler_components/recv_skipper.py, whose weights are 1000 and 1).
func (r *replica) received(formed unit.Seconds) unit.Seconds {
	if r.deaf >= r.rules.Receives {
		r.deaf, r.heard = 0, formed
	}
	return min(formed, r.heard)
}

// empty reports whether the step has nothing to do.
func (r *replica) empty() bool { return r.batch.empty() }

// launch starts the step that was formed before now, beside those of its peers: all take as long as the longest.
func (r *replica) launch(now, formed unit.Seconds, longest *Cost) {
	own := r.cost
	r.cost = *longest
	r.cost.Energy = own.Energy + r.server.idle().For(longest.Time-own.Time)
	if r.overlaps {
		formed += r.cost.Before
	}
	r.busy = true
	if r.pipe != nil {
		r.enters(now)
		return
	}
	r.run(now, formed)
}

// run gives the step its times. The host launches it from a time on when the step before may still run: so
// much less the kernels wait for launches.
func (r *replica) run(now, launch unit.Seconds) {
	c := &r.cost
	*c = withHeadroom(*c, min(float64((now-r.stopped)/analytic.Window), 1))
	ahead := min(now-launch, c.Waits) // below 0 if the GPU is idle until the host is ready
	c.Time -= ahead
	c.Energy -= r.server.idle().For(ahead)
	r.begin, r.end = now, now+c.Time
	r.launched = min(launch+c.Launch, r.end)
}

// price prices the step, and what the drafting of its tokens takes.
func (r *replica) price() Cost {
	c := r.prices.cost(&r.batch, r.server.Drafts)
	if r.draft != nil {
		d := r.server.drafting(r.draft, &r.batch)
		c = plus(&c, &d, 1)
	}
	if r.scale != nil {
		c = scaledCost(c, r.scale, len(r.batch.chunks) > 0)
	}
	return c
}

// drafting is what the drafts of a step's batch take. A module of the model has to see all tokens of the step
// first, those of prompts too, and drafts with them; each further token is a pass of its own.
func (s *Server) drafting(draft *prices, b *batch) (sum Cost) {
	passes := s.Drafts
	switch {
	case draft == nil:
		return sum
	case s.Modules > 0:
		sum = draft.cost(b, s.Drafts)
		passes--
	}
	if b.decodes > 0 && passes > 0 {
		one := *b
		one.chunks, one.together = nil, 0
		d := draft.decodes(&one, 1)
		sum = plus(&sum, &d, float64(passes))
	}
	return sum
}

// continues gives the running sequences their tokens, in their order; without decode those that do have to wait. It
// reports whether a sequence was preempted.
func (r *replica) continues(decode bool) (preempted bool) {
	kept, before, now := r.running[:0], r.preempted, r.formed.now
	for i := 0; i < len(r.running); i++ {
		q := r.running[i]
		n := q.goal - q.computed
		decodes := q.decoding()
		if decodes {
			n = min(n+r.server.Drafts, max(r.longest-q.computed, n)) // drafts go no further than a sequence may
		}
		n = min(n, r.budget)
		if n == 0 || q.ready > now || decodes && (!decode || r.pipe != nil && q.turn > r.pipe.turn) {
			kept = append(kept, q)
			continue
		}
		if !r.grow(q, n, i, now) {
			break // it was the last one, and was preempted itself
		}
		r.budget -= n
		if !r.advance(q, n, decodes) {
			kept = append(kept, q)
		}
	}
	clear(r.running[len(kept):])
	r.running = kept
	return r.preempted > before
}

// grow takes the blocks for n more tokens of running sequence i, and preempts the last
// sequences until there are enough. It fails where that comes to the sequence itself.
func (r *replica) grow(q *sequence, n, i int, now unit.Seconds) bool {
	for q.computed+n > q.holds && !r.gets(q, n) {
		last := len(r.running) - 1
		victim := r.running[last]
		r.running = r.running[:last]
		r.preempt(victim, now)
		if last == i {
			return false
		}
	}
	return true
}

// gets takes the blocks for n more tokens of a sequence, if there are enough.
func (r *replica) gets(q *sequence, n int) bool {
	more := r.more(q, q.computed+n)
	if more > 0 {
		if !r.pool.take(more) {
			return false
		}
		q.blocks += more
	}
	q.holds = r.kv.whole(q.computed + n)
	return true
}

// more is how many blocks a sequence lacks for a context.
func (r *replica) more(q *sequence, context int) int {
	return r.kv.of(context) - q.blocks - q.shared*r.entryBlocks(q)
}

// entryBlocks is the blocks of one hash of the sequence's prompt.
func (r *replica) entryBlocks(q *sequence) int {
	if q.Request.HashTokens == 0 {
		return 0
	}
	return r.kv.of(q.Request.HashTokens)
}

// preempt takes a sequence's blocks away.
func (r *replica) preempt(q *sequence, now unit.Seconds) {
	r.preempted++
	q.preempted++
	r.leave(q)
	if r.rules.Swap && q.decoding() {
		q.swapped = true
		q.ready = now + r.move(q.computed, r.server.ToHost)
	} else {
		q.computed, q.kept = 0, false
	}
	r.cache.running = len(r.running)
	r.policy.preempted(&r.cache)
	if r.policy.behind() {
		r.waiting.pushBack(q)
	} else {
		r.waiting.again = append(r.waiting.again, q)
	}
}

// move is the time in which the cache of so many tokens goes over a link of each GPU.
func (r *replica) move(tokens int, link unit.BytesPerSec) unit.Seconds {
	return r.kv.bytes(float64(tokens)).Over(link)
}

// leave returns what a sequence holds.
func (r *replica) leave(q *sequence) {
	r.pool.free += q.blocks
	r.pool.release(q.Request.Hashes[:q.shared])
	q.blocks, q.shared, q.holds = 0, 0, 0
	r.cache.runs(-float64(r.kv.of(q.Request.Prompt+q.Request.Gen)), -float64(q.Request.Gen), -float64(q.Request.Gen-q.generated))
}

// admit lets waiting sequences begin, in their order.
func (r *replica) admit() {
	now, formed := r.formed.now, r.formed.known
	for r.budget > 0 && len(r.running) < r.rules.MaxSeqs {
		q := r.waiting.front()
		if q == nil || q.arrived > formed || q.ready > now {
			return
		}
		gpu, host := 0, 0
		if q.computed == 0 {
			gpu, host = r.finds(&q.Request)
		}
		n := min(q.goal-r.found(q, gpu+host), r.budget)
		if r.rules.Whole && q.goal-r.found(q, gpu+host) > r.budget && !r.batch.empty() {
			return
		}
		if !r.fits(q, gpu) {
			if r.kv.of(q.goal) <= r.pool.total-r.server.kept(r.pool.total) {
				return
			}
			r.waiting.popFront() // as vLLM ignores a request that not even an empty cache could admit
			r.refused = append(r.refused, q)
			continue
		}
		r.waiting.popFront()
		r.start(q, gpu, host, now)
		if q.ready > now {
			r.join(q)
			continue
		}
		q.blocks += r.pool.must(r.more(q, q.computed+n))
		if !r.rules.Mixed && q.decoding() { // its cache was handed over, so it decodes with the others
			r.join(q)
			continue
		}
		r.budget -= n
		if !r.advance(q, n, q.decoding()) {
			r.join(q)
		}
	}
}

// join adds a sequence to those that run, in the order in which they are preempted, the first one last. Where drafts are accepted as many
// tokens as it happens, that order is the one in which they began.
func (r *replica) join(q *sequence) {
	at := len(r.running)
	for at > 0 && r.server.Drafts == 0 && r.policy.sooner(r.running[at-1], q) {
		at--
	}
	r.running = slices.Insert(r.running, at, q)
}

// finds is how many leading hashes of a prompt the GPU's cache has, and host memory beyond.
func (r *replica) finds(q *Request) (gpu, host int) {
	if r.server.NoCache || len(q.Hashes) == 0 {
		return 0, 0
	}
	return r.pool.lookup(q.Hashes[:q.cacheable()])
}

// cacheable is how many hashes of a prompt cover whole blocks before its last token.
func (q *Request) cacheable() int { return min(len(q.Hashes), (q.Prompt-1)/q.HashTokens) }

// found is how many tokens of a sequence need not be computed.
func (r *replica) found(q *sequence, hashes int) int {
	switch {
	case q.computed > 0:
		return q.computed
	case hashes > 0:
		return hashes * q.Request.HashTokens
	case r.server.NoCache || len(q.Request.Hashes) > 0:
		return 0
	}
	return r.server.cached(q.Request.Prompt)
}

// fits reports whether a waiting sequence may begin.
func (r *replica) fits(q *sequence, gpu int) bool {
	r.cache.running = len(r.running)
	r.cache.freeBlocks = float64(r.pool.available() - r.server.kept(r.pool.total) - r.pool.idleOf(q.Request.Hashes[:gpu]))
	return r.policy.admits(&r.cache, claim{need: float64(r.kv.of(q.goal) - gpu*r.entryBlocks(q)),
		longest: float64(r.kv.of(q.Request.Prompt + q.Request.Gen)), left: float64(q.Request.Gen - q.generated)})
}

// start gives a sequence what the caches have of it.
func (r *replica) start(q *sequence, gpu, host int, now unit.Seconds) {
	q.replica = int32(r.index)
	found := r.found(q, gpu+host)
	if q.generated == 0 && q.computed == 0 {
		q.cached = int32(found)
	}
	q.computed = found
	r.cache.runs(float64(r.kv.of(q.Request.Prompt+q.Request.Gen)), float64(q.Request.Gen), float64(q.Request.Gen-q.generated))
	if gpu+host > 0 {
		r.pool.must(r.pool.use(q.Request.Hashes[:gpu+host]))
		q.shared = gpu + host
		if host > 0 {
			q.ready = now + r.move(host*q.Request.HashTokens, r.server.ToHost)
		}
	}
	if q.swapped {
		q.swapped = false
		q.blocks += r.pool.must(r.more(q, q.computed))
		q.ready = now + r.move(q.computed, r.server.ToHost)
	}
}

// advance adds n tokens of a sequence to the step, and reports whether the step is its last.
func (r *replica) advance(q *sequence, n int, decodes bool) (ends bool) {
	gain := 1
	if decodes {
		r.batch.decode(r.prices.windows, q.computed)
		gain = r.accepted(n-1, q)
	} else {
		done := q.computed+n == q.goal
		r.batch.chunk(n, q.computed, done)
		r.tokens += n
		q.computed += n
		if !done {
			return false
		}
		q.computed-- // the token that comes is computed by the step after
		r.keep(q)
	}
	q.computed += gain
	q.goal = q.computed + 1
	q.generated += gain
	r.cache.due -= float64(gain)
	r.tokens += gain
	last := q.generated == q.Request.Gen
	r.gains = append(r.gains, output{q.stream, int32(gain), last})
	if r.pipe != nil {
		q.turn = r.pipe.turn + r.pipe.most()
	}
	if ends = last || r.only; ends {
		r.ending = append(r.ending, q)
	}
	return ends
}

// accepted is how many tokens a decode step gains that verifies drafts tokens.
func (r *replica) accepted(drafts int, q *sequence) int {
	gain := 1
	for ; gain <= drafts; gain++ {
		if r.random.Float64() >= r.server.Acceptance {
			break
		}
	}
	return min(gain, q.Request.Gen-q.generated)
}

// keep enters the blocks of a prompt into the prefix cache.
func (r *replica) keep(q *sequence) {
	if r.server.NoCache || q.kept || len(q.Request.Hashes) == 0 {
		return
	}
	q.kept = true
	given, held := r.pool.keep(q.Request.Hashes[:q.Request.cacheable()], q.shared, r.entryBlocks(q))
	q.blocks -= given
	q.holds = 0
	q.shared = held
}

// free returns the blocks of the sequences whose last token came.
func (r *replica) free(ended []*sequence) {
	for _, q := range ended {
		r.leave(q)
	}
}

// wakes is when the next sequence has its cache; +Inf if none waits for it.
func (r *replica) wakes(now unit.Seconds) unit.Seconds {
	at := never
	for _, q := range r.running {
		if q.ready > now {
			at = min(at, q.ready)
		}
	}
	if q := r.waiting.front(); q != nil && q.ready > now {
		at = min(at, q.ready)
	}
	return at
}

func (r *replica) load() int {
	return len(r.front.entering) + r.waiting.len() + len(r.running) + len(r.ending)
}
