package serving

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"llmprof/analytic"
	"llmprof/analytic/engine"
	"llmprof/unit"
)

const never = unit.Seconds(math.MaxFloat64)

// Options say what a simulation does besides.
type Options struct {
	SLO      SLO
	Warmup   int           // requests at the beginning that no figure counts
	Steady   bool          // figures are of the steady state alone, where the load reaches one
	InEngine bool          // requests come to the engine, and it takes the times: there is no API server, and no way
	Seed     uint64        // seed of what is drawn besides the load
	Each     func(*Record) // gets every request that was answered, in the order of their ends
	Progress func(answered int, at unit.Seconds)

	Intervals bool // the result has intervals of percentiles

	priced *prices             // steps that were priced before; nil without any
	until  int                 // request from which on no figure counts; 0 for none
	scale  *analytic.TimeScale // nil for that which is expected
}

// A cluster is the replicas of a server and what happens next to them.
type cluster struct {
	server    *Server
	source    Source
	options   *Options
	result    *Result
	longest   int
	way       unit.Seconds // time of a request to the engine, and of its tokens back
	now       unit.Seconds
	arrivals  arriving
	handovers agenda[*stream] // caches on their way from replicas that prefilled
	kept      kept
	replicas
}

// An arriving is the request that comes next.
type arriving struct {
	next Request
	any  bool
	sent int
}

// replicas are those of a server.
type replicas struct {
	all   []*replica
	mixed []*replica       // replicas that decode
	first []*replica       // replicas that prefill; those that decode where none only prefills
	turns map[*replica]int // turns of the replicas that prefill and of those that decode, by the first replica of each
}

// Simulate runs the requests of a source through a server. A context that ends stops it; the
// result is then of what was answered so far, and says so.
func Simulate(ctx context.Context, s *Server, source Source, o Options) (*Result, error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	c := newCluster(s, source, &o)
	for steps := 0; c.step(); steps++ {
		if ctx.Err() != nil {
			c.result.Interrupted = true
			break
		}
		if steps%1024 == 0 && o.Progress != nil {
			o.Progress(c.result.Completed, c.now)
		}
	}
	if err := source.Err(); err != nil && !c.result.Interrupted {
		return nil, err
	}
	c.result.finish(c.all, c.now, o.Steady)
	if err := c.unanswered(); err != nil {
		return nil, err
	}
	if o.Intervals && !c.result.Interrupted {
		var err error
		if c.result.Intervals, err = c.intervals(ctx); err != nil {
			return nil, err
		}
	}
	return c.result, nil
}

// unanswered is an error where no request was answered that counts, for there are no figures of none, or where a request was neither
// answered nor refused.
func (c *cluster) unanswered() error {
	r := c.result
	switch left := c.arrivals.sent - r.Completed - r.Refused; {
	case r.Interrupted:
		return nil
	case left > 0:
		return fmt.Errorf("%d of %d requests are never answered, for the scheduler cannot go on with any of them", left, c.arrivals.sent)
	case c.arrivals.sent == 0:
		return errors.New("no request came: there is nothing to serve")
	case r.Completed == 0:
		return fmt.Errorf("all %d requests were refused: %s", r.Refused, r.Refusal)
	case r.Counted() == 0:
		return fmt.Errorf("none of the %d requests answered counts: the first %d that came are left out", r.Completed, c.options.Warmup)
	}
	return nil
}

// refuse ends a request that cannot be answered.
func (c *cluster) refuse(index int, req *Request, why error) {
	if c.result.Refused++; c.result.Refusal == "" {
		c.result.Refusal = fmt.Sprintf("request %d of %d + %d tokens: %v", index+1, req.Prompt, req.Gen, why)
	}
	c.source.Finished(c.now)
}

// tooLong is why a request of so many tokens does not fit; nil if it does.
func (c *cluster) tooLong(tokens int) error {
	switch {
	case tokens <= c.longest:
		return nil
	case c.longest == c.server.Context:
		return fmt.Errorf("the server takes at most %d tokens, prompt and answer", c.longest)
	case c.server.Scheduler.Admission == engine.ForSlot:
		return fmt.Errorf("a slot of the KV cache holds at most %d tokens, prompt and answer: the cache of a replica is divided among %d",
			c.longest, c.server.Scheduler.MaxSeqs)
	}
	return fmt.Errorf("the KV cache of a replica holds at most %d tokens of a sequence, prompt and answer", c.longest)
}

func newCluster(s *Server, source Source, o *Options) *cluster {
	front := frontend{}
	if !o.InEngine {
		front = s.frontend()
	}
	if o.scale != nil {
		front.apiTimes = front.scaled(o.scale.Host)
	}
	if o.priced == nil {
		o.priced = s.prices()
	}
	c := &cluster{server: s, source: source, options: o, way: front.way, replicas: replicas{turns: map[*replica]int{}}}
	r := s.room()
	c.longest = s.longest(r)
	prefill, decode := s.Prefillers, s.Replicas
	var draft *prices
	if s.Drafter != nil {
		draft = newPrices(s.Drafter, 0, false)
	}
	blocksOf := func(tokens float64) float64 { return float64(r.of(int(tokens))) }
	for i := range decode + prefill {
		one := &replica{server: s, index: i, front: front, cache: occupancy{blocks: float64(r.blocks), expect: expectFirst, of: blocksOf}}
		one.instance = instance{rules: &s.Scheduler, policy: policyOf(&s.Scheduler), prices: o.priced, draft: draft, scale: o.scale, kv: r,
			pool: newPool(r.blocks, int(float64(s.Offload)/float64(r.each))), pipe: s.pipeline(),
			random: rand.New(rand.NewPCG(o.Seed, uint64(i)+1)), only: i >= decode, longest: c.longest}
		one.stopped = -analytic.Window
		c.all = append(c.all, one)
	}
	c.mixed, c.first = c.all[:decode], c.all[decode:]
	for _, all := range [2][]*replica{c.mixed, c.first} {
		sharing := s.Predictor.Par.ExpertReplicas()
		groups := (len(all) + sharing - 1) / sharing // They take turns, as servers behind a router do.
		for i, r := range all {
			for j := i % groups; j < len(all); j += groups {
				r.peers = append(r.peers, all[j])
			}
		}
	}
	if prefill == 0 {
		c.first = c.mixed
	}
	c.result = &Result{Limited: o.SLO != SLO{}, summing: summing{replicas: float64(len(c.all)), batches: newBatchMeans(o),
		bins: timeline{width: 1e-3}}}
	if loop, ok := source.(*clients); ok {
		c.kept.clients = len(loop.ready)
	}
	c.arrivals.next, c.arrivals.any = source.Next()
	return c
}

// A happening is what happens at a time.
type happening uint8

const (
	nothing happening = iota
	requestComes
	cacheComes
	stepEnds   // a step ends, or a replica that waited for a cache begins
	passEnds   // a pass of the API server ends
	outputsDue // outputs are due that the host held
)

// An upcoming is what happens next, and when.
type upcoming struct {
	at   unit.Seconds
	what happening
}

func (r *replica) upcoming() upcoming {
	next := upcoming{at: never}
	for _, own := range [...]upcoming{{r.held, outputsDue}, {r.end, stepEnds}, {r.front.end, passEnds}} {
		if own.at > 0 && own.at < next.at {
			next = own
		}
	}
	return next
}

// step lets the next thing happen: an arrival, the arrival of a cache, or what is next of a replica. It reports
// whether anything did.
func (c *cluster) step() bool {
	next, who := upcoming{at: never}, (*replica)(nil)
	if c.arrivals.any {
		next = upcoming{c.arrivals.next.At + c.way, requestComes}
	}
	if len(c.handovers) > 0 && c.handovers[0].at < next.at {
		next = upcoming{c.handovers[0].at, cacheComes}
	}
	for _, r := range c.all {
		if own := r.upcoming(); own.at < next.at {
			next, who = own, r
		}
	}
	if next.what == nothing {
		return false
	}
	c.now = max(c.now, next.at)
	switch next.what {
	case requestComes:
		c.arrive()
	case cacheComes:
		who = c.route(c.mixed, &Request{})
		who.waiting.begun(c.handovers.next().what, c.now)
		c.wake(who)
	case stepEnds:
		c.ended(who)
	case passEnds:
		who.front.finish(func(p packed) { c.enter(who, p) })
		who.front.begin(c.now, c.sent)
	case outputsDue:
		if who.pipe != nil {
			c.leaves(who)
		} else {
			c.output(who)
		}
	}
	return true
}

// arrive hands the next request to a replica, or refuses it.
func (c *cluster) arrive() {
	req := c.arrivals.next
	index := c.arrivals.sent
	c.arrivals.sent++
	c.result.arrive(index, req.At)
	if c.options.Intervals {
		c.kept.add(&req)
	}
	err := req.check()
	if err == nil {
		err = c.tooLong(req.Prompt + req.Gen)
	}
	if err != nil {
		c.refuse(index, &req, err)
	} else if to := c.route(c.first, &req); to.front.free() {
		c.enter(to, pack(index, &req))
	} else {
		to.front.enters(pack(index, &req))
		to.front.begin(c.now, c.sent)
	}
	c.arrivals.next, c.arrivals.any = c.source.Next()
}

// enter puts a request into the queue of a replica, which begins at once if it is idle.
func (c *cluster) enter(r *replica, p packed) {
	r.waiting.fresh.push(arrival{p, c.now})
	c.wake(r)
}

// wake lets a replica begin if it is idle.
func (c *cluster) wake(r *replica) {
	if r.busy {
		return
	}
	for _, p := range r.peers {
		if len(p.running) == 0 {
			p.cache.expect = expectFirst
		}
	}
	c.start(r, c.now)
}

// start begins a step of a replica and its peers if there is something to do. One that has nothing runs a token
// for the others, as vLLM does.
func (c *cluster) start(r *replica, seen unit.Seconds) {
	wakes, work, tokens := never, false, 0.0
	for _, p := range r.peers {
		if p.pipe != nil {
			seen = p.cutoff(c.now)
		}
		work = p.form(c.now, seen) || work
		c.refuseThose(p)
		tokens += max(p.batch.tokens(p.server.Drafts), 1)
		wakes = min(wakes, p.wakes(c.now))
		p.busy, p.end, p.cost = false, 0, Cost{}
	}
	if !work {
		if r.pipe != nil && c.skips(r) {
			return
		}
		if wakes < never {
			r.end = wakes
		}
		return
	}
	var longest *Cost
	for _, p := range r.peers {
		if len(r.peers) > 1 {
			p.batch.together = tokens
		}
		if !p.batch.empty() {
			p.cost = p.price()
		}
		if longest == nil || p.cost.Time > longest.Time {
			longest = &p.cost
		}
	}
	whole := *longest
	for _, p := range r.peers {
		p.launch(c.now, seen, &whole)
		c.result.step(p)
	}
}

// refuseThose ends the requests that a replica can never begin.
func (c *cluster) refuseThose(r *replica) {
	for _, q := range r.refused {
		c.refuse(q.index, &q.Request, c.server.beyondWatermark(r.kv, q.goal))
	}
	if len(r.refused) > 0 && !c.arrivals.any {
		c.arrivals.next, c.arrivals.any = c.source.Next()
	}
	r.refused = r.refused[:0]
}

// ended is the end of a step. With asynchronous scheduling the next one was formed before, and knows neither
// requests that came since nor blocks that it frees; while the host launches that one it takes no output.
func (c *cluster) ended(r *replica) {
	if !r.busy { // a cache has arrived
		c.start(r, c.now)
		return
	}
	if r.pipe != nil {
		for _, p := range r.peers {
			p.busy = false
		}
		c.start(r, c.now)
		return
	}
	formed := max(r.begin, r.launched)
	for _, p := range r.peers {
		if p.held > 0 { // The host held them until now.
			c.output(p)
		}
		p.outputs, p.gains, p.ended = p.gains, p.outputs, p.ending
		p.busy, p.stopped, p.held, p.overlaps = false, c.now, c.now, p.rules.Async
	}
	if r.rules.Async {
		c.start(r, formed)
	}
	for _, p := range r.peers {
		if p.overlaps && p.busy && len(p.batch.chunks) > 0 { // what launching a decode step takes is in the time of a request
			p.held = max(c.now, p.launched)
		}
		p.overlaps = false
		if p.held == c.now {
			c.output(p)
		}
		p.free(p.ended)
	}
	if !r.busy {
		c.start(r, c.now)
	}
}

// output gives out the tokens of a step that ended.
func (c *cluster) output(r *replica) {
	f := &r.front
	r.held = 0
	free := f.free()
	if free || r.only {
		for _, o := range r.outputs {
			s := o.stream
			if free {
				s.unsent += o.gain
				if s.complete = o.ended; f.sends(s) {
					c.sent(s, c.now+c.way)
				}
			}
			if r.only && !o.ended {
				c.handovers.add(c.now+r.move(int(s.prompt), c.server.Link), s)
			}
		}
	}
	if !free {
		f.hand(r.outputs)
		f.begin(c.now, c.sent)
	}
}

// sent is a client that has tokens at a time: the first ones, the last ones or those between.
func (c *cluster) sent(s *stream, at unit.Seconds) {
	if s.last == 0 {
		s.first = at
	} else {
		c.result.batches.of(s.index).gap(at - s.last)
	}
	s.last, s.unsent = at, 0
	if !s.complete {
		return
	}
	c.result.answered(s.record(), c.options)
	c.source.Finished(at)
	if !c.arrivals.any {
		c.arrivals.next, c.arrivals.any = c.source.Next()
	}
}

// route is the replica for a request, whose prompt it may have the beginning of. One whose cache is handed over has no use for that.
func (c *cluster) route(among []*replica, q *Request) *replica {
	if len(among) == 1 {
		return among[0]
	}
	switch c.server.Routing {
	case "least-loaded":
		return least(among)
	case "prefix-aware":
		return c.prefixAware(among, q)
	}
	turn := c.turns[among[0]]
	c.turns[among[0]]++
	return among[turn%len(among)]
}

// least is the replica with the fewest requests, the first of several.
func least(among []*replica) *replica {
	return slices.MinFunc(among, func(a, b *replica) int { return a.load() - b.load() })
}

// maxImbalance is by how many requests a replica may be ahead of the least loaded one and
// still get those whose prefix it has.
const maxImbalance = 32

// prefixAware is the replica that has most of a request's prefix, unless it is much
// busier than another.
func (c *cluster) prefixAware(among []*replica, q *Request) *replica {
	idle := least(among)
	best, most := idle, 0
	for _, r := range among {
		gpu, host := r.finds(q)
		if gpu+host > most && r.load() <= idle.load()+maxImbalance {
			best, most = r, gpu+host
		}
	}
	return best
}
