package serving

import (
	"math"
	"math/rand/v2"
	"slices"
	"sync"

	"llmprof/analytic"
	"llmprof/unit"
)

// The queue of a replica whose answers are short, or whose prompts come in groups, has no closed form: it is a bulk service queue, served
// in groups of any size, whose number of sequences changes as fast as its steps do. Requests that are drawn are followed through it step
// by step instead, at tabulated costs: a sample path. It has the numbers of sequences alone, not each of them, and passes over steps that
// are alike.

// Answers are short that take no more than so many times as long to decode as prompts that follow each other, and longer where steps with
// prompts decode none, so that one prompt after another holds up all answers. Both are the edges beyond which the product form agrees with
// simulations (go test ./serving -run SteadyOfBriefAnswers).
const (
	shortAnswer = 4
	shortHeldUp = 8
)

// shortAnswers reports whether answers are short at a rate: whether they take little longer to decode than a time in which each step has
// prompts, up to the first one during which none comes.
func (f *flow) shortAnswers(rate float64) bool {
	if f.handed || f.peers > 1 || f.steps == 0 {
		return f.steps == 0
	}
	prompt := float64(f.level(0).all(f.uncached.length, 1).Time) // one as others meet it
	times := float64(shortAnswer)
	if !f.server.Scheduler.Mixed {
		times = shortHeldUp
	}
	return f.steps*float64(f.decode(1).Time) < times*prompt*math.Exp(rate*prompt)
}

// jobs is how many requests are followed: the more the nearer a server, or the thread of its API server, is to its largest rate, for the
// longer its busy periods are then, and the more its answers vary: one that others meet is 1 + cv² times the mean, and few such ones have
// most of the time.
func (f *flow) jobs(rate float64) int {
	idle := 1 - rate/f.unpreempted().Rate
	if f.groupsArrivals(rate) {
		idle = min(idle, 1-f.front.load(rate, f.gen))
	}
	return int(min(fewestJobs*(1+f.spread)*(1+f.spread)/max(idle, 1e-3), mostJobs))
}

const fewestJobs, mostJobs = 4000, 40000

// A job is a request that is followed.
type job struct {
	at     float64 // arrival
	begun  float64
	tokens float64 // of its prompt, that have to be computed
	steps  int32   // in which it decodes
	gaps   int32   // between its tokens
}

// jobBuffers keeps slices of jobs, which need not grow again.
var jobBuffers = sync.Pool{New: func() any { return new([]job) }}

// drawJobs draws requests, whose lengths are equally likely parts of their distributions, in any order.
func (f *flow) drawJobs(jobs int) *[]job {
	buffer := jobBuffers.Get().(*[]job)
	*buffer = slices.Grow((*buffer)[:0], jobs)[:jobs]
	all, random := *buffer, rand.New(rand.NewPCG(1, 1))
	prompts, answer := f.uncached.sum(1), int32(f.answers.part(0, 1))
	for i := range all {
		all[i] = job{tokens: prompts[0], gaps: answer - 1}
	}
	if len(prompts) > 1 {
		for i, part := range random.Perm(jobs) {
			all[i].tokens = prompts[part%len(prompts)]
		}
	}
	if f.answers.Kind != "fixed" {
		for i, part := range random.Perm(jobs) {
			all[i].gaps = int32(f.answers.part(part, jobs)) - 1
		}
	}
	for i := range all {
		all[i].steps = all[i].gaps
	}
	if f.server.Drafts > 0 {
		for i := range all {
			all[i].steps = f.server.stepsOf(all[i].gaps, random)
		}
	}
	return buffer
}

// arriveAt lets jobs come at a rate to one of the queues that a router serves in turn. Their intervals have as many stages as there are
// queues, which other jobs far away have too.
func (f *flow) arriveAt(all []job, rate float64) {
	stage, at := stagesDrawn(), 0.0
	for i := range all {
		for k := range f.stages {
			at += stage[(i+k*farAway)%len(stage)]
		}
		all[i].at = at
	}
	each := float64(len(all)) / (at * rate)
	for i := range all {
		all[i].at *= each
	}
}

// farAway is how many jobs are between two that have the same stage. It has no factor in common with mostJobs, so that all stages of a job
// are others.
const farAway = 15013

// stagesDrawn are stages of the intervals of as many jobs as are followed at most: equally likely parts of their distribution, in any
// order.
var stagesDrawn = sync.OnceValue(func() []float64 {
	all := make([]float64, mostJobs)
	for i, part := range rand.New(rand.NewPCG(1, 2)).Perm(mostJobs) {
		all[i] = -math.Log1p(-(float64(part) + 0.5) / mostJobs)
	}
	return all
})

// A path is the steps of a replica, one after another.
type path struct {
	*flow
	jobs   []job
	idle   float64 // power
	now    float64
	formed float64 // up to when the next step knows of arrivals
	ahead  bool    // it is formed while the one before it runs
	rested float64 // time without work before it

	next    int         // job that has not begun
	sent    int         // jobs that have come; of a closed loop, or after an API server
	turns   *roundRobin // replicas that clients use in turn; nil in an open loop
	horizon float64     // time up to which other replicas let no request come
	stuck   bool        // it is idle until a request comes
	api     *eventLoop  // API server; nil where it takes no time, or where its time is added
	gained  int         // sequences that gained a token by the step that ran last
	rest    float64     // tokens left of the prompt before it
	running int         // sequences that decode
	ends    []ending    // with the next steps that decode, a ring
	ring    int         // place of the last step that decoded in the ring
	came    span        // jobs whose first token comes with the step that ran last
	done    ending      // with that step
	sums    pathSums
}

// pathSums are sums over the jobs that count, and over the steps beside them.
type pathSums struct {
	begin, busy, energy       float64
	ttft, decode, tpot        float64 // of times
	own, after                float64 // from the begin of a prompt to its end; of the steps after those with which jobs end
	firsts, answered, several float64 // jobs that have their first token, their last, and several tokens
}

// A span is jobs from one up to another.
type span struct{ from, to int }

// An ending is jobs that end with the same step: their number, the sum of the times of their first tokens, and the sums of both over the
// gaps between their tokens.
type ending struct{ n, firsts, inverse, firstsInverse float64 }

// batchCosts are the costs of steps beside some sequences.
type batchCosts struct {
	decode  Cost // without prompts; zero before it is asked for, as beside many sequences hardly a step is without
	prompts *tokenCosts
	left    float64 // tokens of prompts that a step takes
	each    float64 // tokens of a mean prompt
	known   [8]promptCost
}

// A promptCost is the cost of a step with tokens of prompts.
type promptCost struct {
	tokens float64 // 0 if it is not known
	cost   Cost
}

// prompt is the cost of a step with tokens of prompts. Most steps have the tokens of the last one with about as many prompts.
func (c *batchCosts) prompt(tokens float64) *Cost {
	k := &c.known[int(tokens/c.each)%len(c.known)]
	if k.tokens != tokens {
		k.tokens, k.cost = tokens, c.prompts.at(tokens)
	}
	return &k.cost
}

// current is the costs beside as many sequences as decode.
func (w *path) current() *batchCosts {
	n := w.running
	if more := n + 1 - len(w.batches); more > 0 {
		w.batches = append(w.batches, make([]*batchCosts, more+n)...)
	}
	if c := w.batches[n]; c != nil {
		return c
	}
	beside := w.besides(n)
	c := &batchCosts{prompts: w.table(beside, 0), left: w.left(beside, 0), each: w.uncached.mean}
	w.batches[n] = c
	return c
}

// plain is the cost of a step that only decodes, beside as many sequences as decode.
func (w *path) plain(c *batchCosts) *Cost {
	if c.decode.Time == 0 && w.running > 0 {
		c.decode = w.graphStep(w.running)
	}
	return &c.decode
}

// sampled is the steady state at a rate by a path of requests that are drawn, through an API server if there is one.
func (f *flow) sampled(rate float64, api *eventLoop) *Steady {
	jobs := f.jobs(rate)
	all := f.drawJobs(jobs)
	defer jobBuffers.Put(all)
	f.arriveAt(*all, rate)
	return f.follow(*all, jobs/16, api).state(rate)
}

// follow follows jobs, of which those before some do not count.
func (f *flow) follow(all []job, before int, api *eventLoop) *path {
	w := f.newPath(all)
	if w.api = api; api != nil {
		w.enter()
	}
	for w.next < len(all) && f.ctx.Err() == nil {
		w.counts(before)
		if w.step(); w.stuck {
			w.arrivals(api.next())
		}
	}
	return w
}

// newPath is the path of jobs before its first step.
func (f *flow) newPath(all []job) *path {
	w := &path{flow: f, jobs: all, idle: float64(f.idle()), horizon: math.Inf(1)}
	longest := 1
	for i := range all {
		longest = max(longest, int(all[i].steps))
	}
	w.ends = make([]ending, longest+1)
	return w
}

// counts lets the sums begin if so many jobs have begun.
func (w *path) counts(before int) {
	if w.next < before || w.sums.begin > 0 {
		return
	}
	w.sums = pathSums{begin: w.now}
	if w.api != nil {
		w.api.sums = loopSums{}
	}
}

// state is the means over the jobs that count, which are answered at a rate.
func (w *path) state(rate float64) *Steady {
	sums := &w.sums
	time, answered := w.now-sums.begin, max(sums.answered, 1)
	st := &Steady{Rate: rate, Utilization: sums.busy / time, Running: rate * sums.decode / answered}
	st.TTFT, st.TPOT = unit.Seconds(sums.ttft/sums.firsts), unit.Seconds(sums.tpot/max(sums.several, 1))
	decode := sums.decode / answered
	if w.api != nil {
		in, later := w.api.delays()
		if st.TTFT += unit.Seconds(in); w.steps == 0 {
			later = 0
		}
		st.TPOT += unit.Seconds(later / max(w.gen-1, 1))
		decode += later
	} else {
		st.TTFT += unit.Seconds(w.out(st.Running)) + w.server.Predictor.RequestTime()
	}
	st.E2E = st.TTFT + unit.Seconds(decode)
	st.Energy = unit.Joules((sums.energy + w.idle*(time-sums.busy)) / (rate * time))
	st.Waiting = rate * float64(st.TTFT) // by Little's law
	st.otherBlocks = rate * w.beside(sums.own/sums.firsts, sums.after/answered)
	return st
}

func (w *path) step() {
	w.stuck = false
	costs := w.current()
	tokens, came := w.admit(costs.left)
	decodes := w.running > 0 && (tokens == 0 || w.server.Scheduler.Mixed)
	switch {
	case tokens > 0:
		w.run(costs.prompt(tokens), true)
	case decodes:
		w.run(w.plain(costs), false)
	default: // the next one begins when a request has come and the tokens of the one before are known
		w.emit(w.now)
		if w.api != nil {
			w.arrivals(w.now)
		}
		if w.stuck = math.IsInf(w.jobs[w.next].at, 1); w.stuck {
			return
		}
		if !w.ahead {
			w.rested = max(w.jobs[w.next].at-w.now, 0)
			w.now += w.rested
		}
		w.ahead, w.formed = false, w.now
		return
	}
	w.gained = 0
	if w.came = came; decodes {
		w.gained = w.running
		w.ring = w.place(1)
		e := w.end(0)
		w.done, *e = *e, ending{}
		w.running -= int(w.done.n)
	}
	for i := came.from; i < came.to; i++ {
		if steps := w.jobs[i].steps; steps > 0 {
			w.running++
			w.end(int(steps)).n++
		}
	}
	if tokens == 0 {
		w.repeat(&costs.decode)
	}
}

// end is the jobs that end with a step that decodes, so many after the last one.
func (w *path) end(steps int) *ending { return &w.ends[w.place(steps)] }

// place is the place in the ring of a step that decodes, so many after the last one.
func (w *path) place(steps int) int {
	at := w.ring + steps
	if at >= len(w.ends) {
		at -= len(w.ends)
	}
	return at
}

// admit lets prompts begin that have come and fit into the step, and gives the tokens of prompts in it and the jobs whose prompts it ends.
func (w *path) admit(left float64) (tokens float64, came span) {
	rules := &w.server.Scheduler
	if w.api != nil {
		w.arrivals(w.formed)
	}
	came = span{w.next, w.next}
	if w.rest > 0 {
		if tokens = unit.Smaller(w.rest, left); tokens < w.rest {
			w.rest -= tokens
			return tokens, span{}
		}
		came.from, w.rest = w.next-1, 0
	}
	running := w.running
	if running > 0 && rules.Mixed { // those that end with the step make room
		running -= int(w.end(1).n)
	}
	for w.next < len(w.jobs) && w.jobs[w.next].at <= w.formed && tokens < left && running+w.next-came.from < w.most {
		v := &w.jobs[w.next]
		if rules.Whole && tokens > 0 && tokens+v.tokens > left {
			break
		}
		v.begun = w.now
		w.next++
		if tokens += v.tokens; tokens > left {
			w.rest = tokens - left
			return left, came
		}
		came.to = w.next
	}
	return tokens, came
}

// run runs a step with its cost, by the law of replica.run.
func (w *path) run(c *Cost, prompts bool) {
	if w.rested > 0 {
		r := rested(*c, min(w.rested/float64(analytic.Window), 1))
		c = &r
	}
	launch, out := w.formed, w.now
	if w.ahead {
		launch += float64(c.Before)
	}
	ahead := unit.Smaller(w.now-launch, float64(c.Waits)) // min and max take longer in a browser
	end := w.now + float64(c.Time) - ahead
	launched := unit.Smaller(launch+float64(c.Launch), end)
	if w.ahead && prompts { // the host keeps the tokens of the step before while it launches them
		out = unit.Larger(out, launched)
	}
	w.sums.after += w.done.n * (end - out)
	w.emit(out)
	w.sums.busy += end - w.now
	w.sums.energy += float64(c.Energy) - w.idle*ahead
	w.formed = end
	if w.ahead = w.server.Scheduler.Async; w.ahead {
		w.formed = unit.Larger(w.now, launched)
	}
	w.now, w.rested = end, 0
}

// repeat runs further steps that only decode and are like the last one: up to the next one which may have a prompt or with which a job
// ends.
func (w *path) repeat(c *Cost) {
	if w.rest > 0 || w.done.n > 0 || w.next == len(w.jobs) ||
		w.api != nil && !w.api.quiet(float64(w.running), w.server.Yields(), float64(c.Time-c.Waits)) {
		return
	}
	length, lead := float64(c.Time), 0.0
	if w.ahead { // by as much as a step takes, if the host has launched each before its begin
		length -= float64(c.Waits)
		if lead = length; min(w.now-w.formed, lead) < float64(c.Before+c.Launch) {
			return
		}
	}
	next, steps := w.jobs[w.next].at, 0.0
	// A request meets the tokens of the last step in the API server, which steps that are passed over do not hand to it.
	if w.api != nil && w.api.come < len(w.api.coming) {
		next = min(next, w.api.coming[w.api.come]-2*length)
	}
	if w.running >= w.most {
		next = math.Inf(1)
	}
	now, formed := w.now, w.formed
	for next = min(next, w.horizon); formed < next && w.end(1).n == 0; w.ring = w.place(1) {
		now += length
		formed = now - lead
		steps++
	}
	w.now, w.formed = now, formed
	w.sums.busy += steps * length
	w.sums.energy += steps * (float64(c.Energy) - w.idle*(float64(c.Time)-length))
}

// emit gives out the tokens of the step that ended.
func (w *path) emit(at float64) {
	d, s := &w.done, &w.sums
	ended := int(d.n)
	s.decode += d.n*at - d.firsts
	s.tpot += d.inverse*at - d.firstsInverse
	for i := w.came.from; i < w.came.to; i++ {
		v := &w.jobs[i]
		s.firsts++
		s.ttft += at - v.at
		s.own += at - v.begun
		if v.steps == 0 {
			ended++
			continue
		}
		s.several++
		e, each := w.end(int(v.steps)), 1/float64(v.gaps)
		e.firsts += at
		e.inverse += each
		e.firstsInverse += at * each
	}
	s.answered += float64(ended)
	if w.api != nil {
		firsts, decodes := float64(w.came.to-w.came.from), float64(w.gained)
		w.api.deliver(delivery{decodes: decodes, firsts: firsts, ends: float64(ended), gain: decodes*w.server.Yields() + firsts}, at)
	}
	w.came, w.done, w.gained = span{}, ending{}, 0
	if w.turns != nil && w.api == nil {
		for range ended {
			w.turns.send(at + float64(w.server.Predictor.RequestTime()))
		}
	}
}
