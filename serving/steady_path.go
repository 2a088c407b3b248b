package serving

import (
	"math"
	"math/rand/v2"

	"llmprof/analytic"
	"llmprof/unit"
)

// The queue of a replica has no closed form: it is a bulk service queue, served in groups of any size, whose service takes as long as the
// step of a group. Requests that are drawn are followed through it step by step instead, at tabulated costs: a sample path. It has the
// numbers of sequences, their KV blocks and their tokens in sums alone, and not each of them: all sequences that decode gain as much with
// each step, so that only those that begin, end or are preempted are looked at. It passes over steps that are alike.

// jobs is how many requests are followed: the more the nearer a server is to its largest rate, for the longer its busy periods are then,
// the fewer sequences run at once, for the rarer and longer are waits for one of them to end, and the more its answers vary: one that
// others meet is 1 + cv² times the mean, and few such ones have most of the time. At a rate where none meets another that does not count.
func (f *flow) jobs(rate float64) int {
	load := rate / f.capacity().Rate
	few := 1 + seldom/float64(f.most)
	long := 1 + f.spread*min(load/alone, 1)
	return int(min(fewestJobs*few*long*long/max(1-load, 1e-3), mostJobs))
}

// alone is the share of the largest rate below which requests meet others ever more seldom.
const alone = 0.01

// seldom is how many sequences run at once where as many requests again as elsewhere are followed.
const seldom = 10

const fewestJobs, mostJobs = 4000, 40000

// A job is a request that is followed.
type job struct {
	at, first, last float64 // times at which it came, and the host had its first token and its last; 0 before that
	life
	tokens float64 // tokens of its prompt that have to be computed
	begin  float64 // KV blocks of its prompt
	growth float64 // KV blocks that it needs with each step
	prompt int32   // tokens of its prompt
	steps  int32   // steps in which it decodes
	gaps   int32   // gaps between its tokens
}

// A life is how far a job has come.
type life struct {
	done int32   // steps that it decoded for before
	lost int32   // A preemption took the KV cache of so many of these steps, which are computed again.
	left int32   // steps that it decodes for after the latest step of its prompt
	ends float64 // number of the step that decodes and that it ends with; 0 while it does not decode
}

// drawJobs draws requests that are followed.
func (f *flow) drawJobs(n int) []job {
	jobs, random := make([]job, n), rand.New(rand.NewPCG(1, 1))
	prompts, outputs := f.prompts.stratified(n, random), f.outputs.stratified(n, random)
	for i := range jobs {
		v, prompt := &jobs[i], prompts[i]
		v.prompt, v.gaps = int32(prompt), int32(outputs[i])-1
		v.steps = f.server.stepsOf(v.gaps, random)
		if v.begin = f.of(float64(prompt)); v.steps > 0 {
			v.growth = (f.of(float64(prompt+outputs[i])) - v.begin) / float64(v.steps)
		}
		if !f.transferred {
			v.tokens = f.computed(prompt)
		}
	}
	return jobs
}

// computed is how many tokens of a prompt have to be computed. The tables of steps price all prompts at one length, whose attention is the
// mean of theirs: a longer one has more attention than that, and counts as a prompt of more tokens, a shorter one of fewer.
func (f *flow) computed(prompt int) float64 {
	tokens := float64(prompt - f.server.cached(prompt))
	return max(tokens*(1+f.longer*(tokens-f.uncached.length)), 1)
}

// come draws requests that come at a rate to one of the queues that a router serves in turn. Their intervals have as many exponential
// stages as there are queues, each of which has equally likely parts of its distribution, in any order.
func (f *flow) come(n int, rate float64) []job {
	jobs, random, at := f.drawJobs(n), rand.New(rand.NewPCG(1, 2)), 0.0
	for range f.stages {
		for i, part := range random.Perm(n) {
			jobs[i].at -= math.Log((float64(n-part) - 0.5) / float64(n))
		}
	}
	for i := range jobs {
		at += jobs[i].at
		jobs[i].at = at
	}
	for i := range jobs {
		jobs[i].at *= float64(n) / (at * rate)
	}
	return jobs
}

// A path is the steps of a replica, one after another.
type path struct {
	*flow
	clock
	occupied
	forming
	jobs  []job
	next  int     // job that has not begun
	sent  int     // jobs that have been sent by clients, each of which waits for an answer; 0 in an open loop
	again []int32 // jobs that were preempted, the one to begin next last
	cut   int32   // job of whose prompt a part is computed
	rest  float64 // tokens left of that prompt
	sums  pathSums
	late  float64 // time that a request takes besides its steps
}

// A clock is the times of the steps of a path.
type clock struct {
	power      float64 // power while no step runs
	now        float64
	formed     float64 // The next step knows of arrivals up to this time.
	ahead      bool    // it is formed while the one before it runs
	idleBefore float64 // time without work before it

	took       float64 // The last step took this time.
	steadyLead bool    // The host was as far ahead of the next step as of the last one: steps that cost as much take as long.
}

// An occupied is the sequences of a path that decode, and the KV blocks of all that run.
type occupied struct {
	cache   occupancy
	held    float64       // blocks of all that run, and of those whose last token the host does not have yet
	freeing float64       // blocks of the latter
	freed   bool          // there were some when the step that ran last began
	growth  float64       // blocks that a step adds which decodes
	young   []int32       // jobs in the order in which they began to decode, with some that have ended
	decoded float64       // steps that decode
	ends    agenda[int32] // jobs by the number of the step that they end with, with some that were preempted
	came    []int32       // jobs whose prompts end with the step that ran last
	done    []int32       // jobs that end with it
}

// A forming is the step that is formed.
type forming struct {
	takes, tokens float64 // tokens of prompts that it takes at most, and those that it has
	decodes       bool
	share         float64 // share of the sequences that decode in it
	prompts       []int32 // jobs whose prompts end with it
	ending        []int32 // jobs that end with it
	blocked       bool    // a job has come, and waits for others to end
	waits         [3]float64
}

// What jobs wait for that have come.
const (
	forTokens = iota
	forBlocks
	forSequences
)

// pathSums are sums over the steps from a time on.
type pathSums struct {
	begin, busy, energy, blocks float64
	gained                      float64 // steps of sequences that decode
	preempted                   float64
}

// longest is the blocks of a job at its end.
func (v *job) longest() float64 { return v.begin + v.growth*float64(v.steps) }

// sample is the steady state at a rate by a path of so many requests that are drawn.
func (f *flow) sample(rate float64, jobs int) (*Steady, *path) {
	w := f.newPath(f.come(jobs, rate))
	w.follow(jobs / 24)
	return w.steady(w.tally(), rate), w
}

// looped is the steady state of clients that have one request each at a time, by a path of requests that are drawn.
func (f *flow) looped(clients int) *Steady {
	all := f.drawJobs(min(fewestJobs+8*clients, mostJobs))
	for i := range all[clients:] {
		all[clients+i].at = math.Inf(1)
	}
	w := f.newPath(all)
	w.sent = clients
	w.follow(len(all) / 2)
	y := w.tally()
	return w.steady(y, y.requests/y.time)
}

// newPath is the path of jobs before its first step.
func (f *flow) newPath(all []job) *path {
	w := &path{flow: f, jobs: all, clock: clock{power: float64(f.idle())}}
	w.cache = occupancy{blocks: f.blocks, expect: expectFirst, of: f.of}
	return w
}

// follow follows the jobs, of which those before some do not count.
func (w *path) follow(before int) {
	for w.next < len(w.jobs) && w.ctx.Err() == nil {
		if w.next >= before && w.sums.begin == 0 {
			w.sums, w.waits = pathSums{begin: max(w.now, 1e-12)}, [3]float64{}
		}
		w.step()
	}
}

// answered are the records of the jobs whose last token came since the sums began.
func (w *path) answered(yield func(*Record) bool) {
	for i := range w.jobs {
		v := &w.jobs[i]
		request := Request{At: unit.Seconds(v.at - w.late), Prompt: int(v.prompt), Gen: int(v.gaps) + 1}
		if v.last > w.sums.begin && !yield(&Record{Index: i, Request: request, First: unit.Seconds(v.first), Last: unit.Seconds(v.last)}) {
			return
		}
	}
}

// tally is the sums over the jobs that count, and over the steps beside them.
func (w *path) tally() *tally {
	y := &tally{time: w.now - w.sums.begin, energy: w.sums.energy, busy: w.sums.busy, blocks: w.sums.blocks / w.blocks}
	for q := range w.answered {
		y.answered(q)
	}
	return y
}

// steady is the means over the jobs that count, which are answered at a rate.
func (w *path) steady(y *tally, rate float64) *Steady {
	st := y.steady(rate, unit.Watts(w.power))
	if !w.transferred {
		w.late = w.api(st.Running, rate) - w.sooner(st.Running, rate) + float64(w.server.Predictor.RequestTime())
	}
	st.TTFT, st.E2E = st.TTFT+unit.Seconds(w.late), st.E2E+unit.Seconds(w.late)
	st.Waiting += rate * w.late
	return st
}

// sooner is by how much a request begins sooner in a pipeline than it would behind whole turns of its batches, which n sequences share. One
// that comes while they only decode waits for one of them, and with asynchronous scheduling for one more.
func (w *path) sooner(n, rate float64) float64 {
	parts := float64(w.server.Predictor.Par.MicroBatches)
	turn := float64(w.cost(int(math.Ceil(n)), 0).Time)
	wait := math.Exp(-rate*turn) * turn / 2
	if w.server.Scheduler.Async {
		wait += turn
	}
	return (1 - 1/parts) * wait * min(n, 1)
}

// step forms and runs a step, and those after it that are alike.
func (w *path) step() {
	if !w.server.Scheduler.Async {
		w.free()
	}
	w.takes, w.tokens, w.decodes, w.blocked = w.left(w.besides(w.cache.running)), 0, false, false
	w.prompts, w.ending = w.prompts[:0], w.ending[:0]
	preempted := w.sums.preempted
	w.policy.form(w)
	if w.empty() {
		w.wait()
		return
	}
	if w.share = 1; !w.decodes {
		w.share = w.concurrentDecodes()
	}
	c := w.cost(w.cache.running, w.tokens)
	w.run(c)
	w.came, w.prompts, w.done, w.ending = w.prompts, w.came, w.ending, w.done
	if w.share > 0 {
		w.decode()
	}
	for _, i := range w.came {
		w.enter(i)
	}
	if w.tokens == 0 && w.sums.preempted == preempted {
		w.policy.decoded(&w.cache, 1)
	}
	w.repeat(c)
}

// concurrentDecodes is the share of the sequences that decode beside prompts which have steps of their own: those of other replicas that
// share experts. In the mean all sequences decode for that part of a step.
func (w *path) concurrentDecodes() float64 {
	share := max(1-w.busy(), 0)
	if w.cache.running == 0 {
		return 0
	}
	w.endWith(w.decoded + share)
	return share
}

// busy is the share of the replicas that have prompts in the step.
func (w *path) busy() float64 { return min(math.Ceil(w.tokens/w.uncached.mean-1e-9)/w.peers, 1) }

// empty reports whether the step has nothing to do.
func (w *path) empty() bool { return w.tokens == 0 && !w.decodes }

// continues gives the step the next part of a prompt that was begun, and a token of each sequence if they decode. It reports whether a
// sequence was preempted.
func (w *path) continues(decode bool) (preempted bool) {
	if w.rest > 0 && w.tokens == 0 {
		w.tokens = unit.Smaller(w.rest, w.takes)
		if w.rest -= w.tokens; w.rest == 0 {
			w.prompts = append(w.prompts, w.cut)
		}
	}
	if !decode || w.cache.running == 0 {
		return false
	}
	for w.held+w.growth > w.blocks*(1+1e-9) && w.preempt() {
		preempted = true
	}
	if w.decodes = w.cache.running > 0; w.decodes {
		w.endWith(w.decoded + 1)
	}
	return preempted
}

// endWith finds the jobs that end with a step.
func (w *path) endWith(step float64) {
	for len(w.ends) > 0 && float64(w.ends[0].at) <= step {
		e := w.ends.next()
		if v := &w.jobs[e.what]; v.ends == float64(e.at) {
			v.ends = 0
			w.ending = append(w.ending, e.what)
		}
	}
}

// admit lets jobs begin that have come and fit into the step.
func (w *path) admit() {
	rules := &w.server.Scheduler
	running := w.cache.running - len(w.ending) // sequences that end with the step make room
	most := rules.MaxSeqs * int(w.peers)
	for w.rest == 0 {
		i := int32(w.next)
		if n := len(w.again); n > 0 {
			i = w.again[n-1]
		} else if w.next == len(w.jobs) || w.jobs[i].at > w.formed {
			return
		}
		v := &w.jobs[i]
		tokens := v.tokens + float64(v.lost)*w.yields
		switch {
		case w.tokens >= w.takes || rules.Whole && w.tokens > 0 && w.tokens+tokens > w.takes:
			w.waits[forTokens]++
			return
		case running+len(w.prompts) >= most:
			w.waits[forSequences]++
			w.blocked = true
			return
		case running+len(w.prompts) > 0 && !w.fits(v): // what fits into no cache begins alone
			w.waits[forBlocks]++
			w.blocked = true
			return
		}
		w.begin(i, tokens)
	}
	w.waits[forTokens]++
}

// fits reports whether a job may begin.
func (w *path) fits(v *job) bool {
	w.cache.freeBlocks = w.blocks*(1-w.server.Scheduler.Watermark) - w.held
	return w.policy.admits(&w.cache, claim{need: v.begin + v.growth*float64(v.done), longest: v.longest(), left: v.due(w.yields)})
}

// due is how many tokens of its answer a job still generates.
func (v *job) due(yields float64) float64 { return max(float64(v.gaps)+1-float64(v.done)*yields, 0) }

// begin lets a job begin with tokens of its prompt, or to decode where the cache of its prompt is there.
func (w *path) begin(i int32, tokens float64) {
	v := &w.jobs[i]
	if n := len(w.again); n > 0 {
		w.again = w.again[:n-1]
	} else {
		w.next++
	}
	w.held += v.begin + v.growth*float64(v.done)
	w.cache.runs(v.longest(), float64(v.gaps)+1, v.due(w.yields))
	if v.lost > 0 {
		v.done++ // the token that comes with the prompt
	}
	if v.left = v.steps - v.done; w.transferred && tokens == 0 {
		v.first = w.now
		if w.enter(i); v.left <= 0 { // its only token came with its cache
			w.last(v, w.now)
			return
		}
		w.decodes = true
		w.endWith(w.decoded + 1)
		return
	}
	w.cache.due--
	if w.tokens += tokens; w.tokens > w.takes {
		w.cut, w.rest, w.tokens = i, w.tokens-w.takes, w.takes
		return
	}
	w.prompts = append(w.prompts, i)
}

// enter lets a job decode from the next step on that does, unless its answer ends with its prompt.
func (w *path) enter(i int32) {
	v := &w.jobs[i]
	if v.left <= 0 {
		w.leave(v)
		return
	}
	v.ends = w.decoded + float64(v.left)
	w.ends.add(unit.Seconds(v.ends), i)
	w.cache.running++
	w.growth += v.growth
	w.young = append(w.young, i)
}

// leave takes away a job that has its last token, whose blocks are free when the host has that.
func (w *path) leave(v *job) {
	w.cache.runs(-v.longest(), -float64(v.gaps)-1, 0)
	w.freeing += v.longest()
}

// preempt lets the sequence begin again later that began to decode last. It reports whether there was one.
func (w *path) preempt() bool {
	for n := len(w.young) - 1; n >= 0; n-- {
		i := w.young[n]
		w.young = w.young[:n]
		v := &w.jobs[i]
		left := v.ends - w.decoded
		if left <= 0 { // it has ended
			continue
		}
		v.ends, v.done = 0, v.steps-int32(math.Ceil(left))
		v.lost = max(v.done, 1)
		w.held -= v.begin + v.growth*float64(v.done)
		w.growth -= v.growth
		w.cache.running--
		w.cache.runs(-v.longest(), -float64(v.gaps)-1, -v.due(w.yields))
		w.again = append(w.again, i)
		w.sums.preempted++
		w.policy.preempted(&w.cache)
		return true
	}
	return false
}

// decode ends a step that decodes.
func (w *path) decode() {
	w.gain(w.share)
	w.cache.running -= len(w.done)
	for _, i := range w.done {
		v := &w.jobs[i]
		w.growth -= v.growth
		w.leave(v)
	}
	if w.cache.running == 0 { // what rounding leaves
		w.growth, w.young = 0, w.young[:0]
	}
}

// gain gives the sequences that decode the tokens of some steps.
func (w *path) gain(steps float64) {
	n := float64(w.cache.running)
	w.sums.gained += steps * n
	w.held += steps * w.growth
	w.cache.due -= steps * w.yields * n
	w.decoded += steps
}

// free frees the blocks of the jobs that have ended, which a step that was formed before knows nothing of.
func (w *path) free() {
	w.freed = w.freeing > 0
	w.held, w.freeing = max(w.held-w.freeing, 0), 0
}

// wait lets the tokens of the last step come, and then the next request.
func (w *path) wait() {
	w.emit(w.now)
	if w.next == len(w.jobs) {
		return
	}
	if !w.ahead {
		w.cache.expect = expectFirst
		w.idleBefore = max(w.jobs[w.next].at-w.now, 0)
		w.now += w.idleBefore
	}
	w.ahead, w.formed = false, w.now
}

// run runs a step with its cost, by the law of replica.run.
func (w *path) run(c *Cost) {
	if w.idleBefore > 0 {
		r := withHeadroom(*c, min(w.idleBefore/float64(analytic.Window), 1))
		c = &r
	}
	launch, out, slack := w.formed, w.now, w.now-w.formed
	if w.ahead {
		launch += float64(c.Before)
	}
	ahead := unit.Smaller(w.now-launch, float64(c.Waits)) // min and max take longer in a browser
	end := w.now + float64(c.Time) - ahead
	launched := unit.Smaller(launch+float64(c.Launch), end)
	if w.ahead && w.busy() == 1 { // hosts keep the tokens of the step before while they launch prompts, which others than that step's have
		out = unit.Larger(launched, out)
	}
	w.sums.blocks += (w.held - w.coming(w.rest)) * (end - w.now)
	w.emit(out)
	w.took = end - w.now
	w.sums.busy += w.took
	w.sums.energy += float64(c.Energy) - w.power*ahead
	w.formed = end
	if w.ahead = w.server.Scheduler.Async; w.ahead {
		w.formed = unit.Larger(w.now, launched)
	}
	w.now = end
	w.steadyLead = w.idleBefore == 0 && math.Abs(w.now-w.formed-slack) < 1e-9*w.took
	w.idleBefore = 0
}

// coming is the blocks that a prompt has yet to take of which a part is computed and tokens are left.
func (w *path) coming(left float64) float64 {
	if w.rest == 0 {
		return 0
	}
	v := &w.jobs[w.cut]
	return (v.begin + v.growth*float64(v.done)) * left / (v.tokens + float64(v.lost)*w.yields)
}

// repeat runs further steps that are like the last one: those of a prompt that fills them, and those that only decode, up to the next one
// which may have a prompt; up to one with which a job ends, or for which there are not enough blocks.
func (w *path) repeat(c *Cost) {
	decodes := w.tokens == 0
	if len(w.came)+len(w.done) > 0 || decodes && (w.rest > 0 || w.next == len(w.jobs) || w.blocked && (w.freed || w.policy.waits())) {
		return
	}
	length, slack := float64(c.Time), 0.0
	switch {
	case w.ahead && w.steadyLead:
		length, slack = w.took, w.now-w.formed
	case w.ahead: // Hosts are ahead by a step where they have launched each before it begins.
		length -= float64(c.Waits)
		if slack = length; min(w.now-w.formed, slack) < float64(c.Before+c.Launch) {
			return
		}
	}
	steps := w.alike(length, slack)
	if steps <= 0 {
		return
	}
	w.now += steps * length
	w.formed = w.now - slack
	w.sums.busy += steps * length
	w.sums.energy += steps * (float64(c.Energy) - w.power*(float64(c.Time)-length))
	w.sums.blocks += length * steps * (w.held + w.share*w.growth*(steps-1)/2 - w.coming(w.rest-w.takes*(steps+1)/2))
	w.gain(steps * w.share)
	if decodes {
		w.policy.decoded(&w.cache, steps)
		return
	}
	w.rest -= steps * w.takes
	w.waits[forTokens] += steps
}

// alike is how many further steps of a length are like the last one, which are formed a lead before they begin.
func (w *path) alike(length, lead float64) (steps float64) {
	steps = math.Inf(1)
	if w.tokens > 0 {
		steps = math.Ceil(w.rest/w.takes) - 1
	} else if next := w.jobs[w.next].at; !w.blocked {
		if steps = math.Ceil((next - w.now + lead) / length); w.formed >= next {
			return 0
		}
		steps = max(steps, 1)
	}
	if w.share == 0 {
		return steps
	}
	for len(w.ends) > 0 && w.jobs[w.ends[0].what].ends != float64(w.ends[0].at) { // preempted
		w.ends.next()
	}
	if len(w.ends) > 0 {
		steps = min(steps, math.Floor((float64(w.ends[0].at)-w.decoded)/w.share-1+1e-9))
	}
	if w.growth > 0 {
		steps = min(steps, math.Floor((w.blocks-w.held)/(w.share*w.growth)))
	}
	return steps
}

// last notes that the host has the last token of a job.
func (w *path) last(v *job, at float64) {
	if w.sent > 0 && w.sent < len(w.jobs) {
		w.jobs[w.sent].at = at + float64(w.server.Predictor.RequestTime())
		w.sent++
	}
	v.last = at
}

// emit gives out the tokens of the step that ended.
func (w *path) emit(at float64) {
	for _, i := range w.done {
		w.last(&w.jobs[i], at)
	}
	for _, i := range w.came {
		v := &w.jobs[i]
		if v.first == 0 {
			v.first = at
		}
		if v.left <= 0 {
			w.last(v, at)
		}
	}
	w.came, w.done = w.came[:0], w.done[:0]
	w.free()
}
