package serving

import (
	"math"

	"llmprof/analytic/engine"
	"llmprof/unit"
)

// A closed loop has no closed form: requests come when answers end, and answers end with steps, so that arrivals and steps depend on each
// other. Where the KV cache holds none up and one batch is under way, sample paths of up to four replicas are followed. Other servers are
// simulated (steady_waves.go).

// closed is the steady state of one queue of a closed loop whose answers, prompts or gains of steps differ: of all replicas, or of as many
// of them as stand for all with their part of the clients.
func (t *Steadies) closed(clients, replicas int) (*Steady, error) {
	peers := t.server.Predictor.Par.ExpertReplicas()
	some := min(replicas, turning*peers)
	if peers > 1 && replicas%peers != 0 {
		some = replicas
	}
	each := float64(clients) * float64(some) / float64(replicas)
	few := int(each)
	if each == float64(few) {
		return t.ofReplicas(few, some)
	}
	more, err := t.ofReplicas(few+1, some)
	if err != nil {
		return nil, err
	}
	st, share := &Steady{}, each-float64(few)
	if few == 0 {
		st.Energy = t.flow.idle().For(unit.Seconds((1 - share) / (share * more.Rate))) // of replicas without clients, a request
		more.Energy += st.Energy
	} else if st, err = t.ofReplicas(few, some); err != nil {
		return nil, err
	}
	st.toward(more, share)
	return st, nil
}

// turning is how many replicas that take turns are followed at most: a client has most of its requests at others than the one that
// answered it last.
const turning = 4

// ofReplicas is the steady state of replicas with so many clients.
func (t *Steadies) ofReplicas(clients, replicas int) (*Steady, error) {
	if jobs := fewestJobs + 30*clients; jobs <= t.share() {
		if st := t.flow.followed(clients, replicas); st != nil {
			t.spend(jobs)
			return st, nil
		}
	}
	return t.wave(clients, replicas)
}

// toward makes the state that of replicas of which a share has another one.
func (st *Steady) toward(o *Steady, share float64) {
	line := func(a, b float64) float64 { return a + share*(b-a) }
	answers := share * o.Rate / line(st.Rate, o.Rate)
	mean := func(a, b unit.Seconds) unit.Seconds { return a + (b - a).Times(answers) }
	st.TTFT, st.TPOT, st.E2E = mean(st.TTFT, o.TTFT), mean(st.TPOT, o.TPOT), mean(st.E2E, o.E2E)
	st.Energy += (o.Energy - st.Energy).Times(answers)
	st.Rate, st.Running, st.Waiting = line(st.Rate, o.Rate), line(st.Running, o.Running), line(st.Waiting, o.Waiting)
	st.Utilization, st.otherBlocks = line(st.Utilization, o.Utilization), line(st.otherBlocks, o.otherBlocks)
}

// followed is the steady state of replicas whose clients' requests are followed; nil where a KV cache may be full, or several batches
// are under way in a pipeline.
func (f *flow) followed(clients, replicas int) *Steady {
	if f.handed || f.peers > 1 || f.server.Predictor.Par.MicroBatches > 1 || f.answers.Kind == "fixed" && !f.server.gainsVary() ||
		!f.holds((clients+replicas-1)/replicas) {
		return nil
	}
	all := f.newRoundRobin(clients, replicas)
	all.run(10 * clients / replicas)
	w := all.sum()
	return w.state(w.sums.answered / (w.now - w.sums.begin))
}

// A roundRobin is the paths of replicas that requests of clients go to in turn.
type roundRobin struct {
	all  []*path
	next int
}

// newRoundRobin is the paths of replicas before the first step, when all clients send their first requests.
func (f *flow) newRoundRobin(clients, replicas int) *roundRobin {
	t := &roundRobin{next: clients}
	drawn := f.drawJobs(fewestJobs + 30*clients)
	defer jobBuffers.Put(drawn)
	jobs := *drawn
	for i := range replicas {
		var all []job
		for k := i; k < len(jobs); k += replicas {
			all = append(all, jobs[k])
		}
		w := f.newPath(all)
		w.turns, w.api, w.sent = t, f.newEventLoop(t), (clients+replicas-1-i)/replicas
		for k := range all {
			if all[k].at = 0; k >= w.sent { // comes when an answer has been given
				all[k].at = math.Inf(1)
			}
		}
		t.all = append(t.all, w)
	}
	return t
}

// send gives the next request to the replica whose turn it is.
func (t *roundRobin) send(at float64) {
	w := t.all[t.next%len(t.all)]
	t.next++
	for _, o := range t.all { // which it may answer from then on
		o.horizon = min(o.horizon, at)
	}
	if w.api != nil {
		w.api.coming = later(w.api.coming, at)
		return
	}
	i := w.sent
	if i == len(w.jobs) {
		return
	}
	for w.sent++; i > w.next && w.jobs[i-1].at > at; i-- { // another replica sent that one
		w.jobs[i].at = w.jobs[i-1].at
	}
	w.jobs[i].at = at
}

// later inserts a time after those that are not later.
func later(all []float64, at float64) []float64 {
	i := len(all)
	for all = append(all, at); i > 0 && all[i-1] > at; i-- {
		all[i] = all[i-1]
	}
	all[i] = at
	return all
}

// run follows the paths until one of them has no further jobs, or their context ends. Those of each before some do not count.
func (t *roundRobin) run(before int) {
	for {
		w := t.first()
		if w == nil || w.next == len(w.jobs) || w.ctx.Err() != nil {
			return
		}
		w.counts(before)
		w.step()
	}
}

// first is the path whose next step is formed first, for which all others have sent what comes until then; nil if none is.
func (t *roundRobin) first() *path {
	for {
		var first *path
		at := math.Inf(1)
		for _, w := range t.all {
			if next := w.nextStep(); next < at || first == nil {
				first, at = w, next
			}
		}
		if math.IsInf(at, 1) {
			return nil
		}
		if first.stuck && math.IsInf(first.jobs[first.next].at, 1) {
			first.arrivals(at)
			continue
		}
		first.horizon = math.Inf(1)
		for _, w := range t.all {
			if w != first {
				if w.api != nil {
					w.arrivals(first.formed)
				}
				first.horizon = min(first.horizon, w.nextSend())
			}
		}
		return first
	}
}

// nextStep is when the path forms a step, or when something comes to its API server if it is idle.
func (w *path) nextStep() float64 {
	switch {
	case !w.stuck:
		return w.now
	case w.next < len(w.jobs) && !math.IsInf(w.jobs[w.next].at, 1):
		return w.jobs[w.next].at
	case w.api != nil:
		return w.api.next()
	}
	return math.Inf(1)
}

// nextSend is a time before which the path lets no further request come: that of its next step, or of the next one with which an answer
// ends.
func (w *path) nextSend() float64 {
	switch {
	case w.api != nil && w.api.due > 0:
		return w.api.next()
	case w.stuck || w.rest > 0 || w.done.n > 0 || w.came.from < w.came.to || w.next < len(w.jobs) && w.jobs[w.next].at <= w.now ||
		w.running == 0:
		return w.nextStep()
	}
	steps := 1
	for steps < len(w.ends) && w.end(steps).n == 0 {
		steps++
	}
	c := *w.plain(w.current())
	return w.now + float64(steps-1)*float64(c.Time-c.Waits)
}

// sum is a path with the sums over all of them.
func (t *roundRobin) sum() *path {
	w := *t.all[0]
	end := 0.0
	for _, o := range t.all {
		end = max(end, o.now)
	}
	sums, time := pathSums{}, 0.0
	if w.api != nil {
		w.api = &eventLoop{way: w.api.way}
	}
	for _, o := range t.all {
		s := &o.sums
		if o.stuck {
			o.now = end
		}
		time += o.now - s.begin
		sums.busy, sums.energy, sums.ttft, sums.decode, sums.tpot = sums.busy+s.busy, sums.energy+s.energy, sums.ttft+s.ttft,
			sums.decode+s.decode, sums.tpot+s.tpot
		sums.own, sums.after, sums.firsts, sums.answered, sums.several = sums.own+s.own, sums.after+s.after, sums.firsts+s.firsts,
			sums.answered+s.answered, sums.several+s.several
		if o.api != nil {
			w.api.sums.add(&o.api.sums)
		}
	}
	w.sums, w.now = sums, time
	return &w
}

// holds reports whether the KV cache has room for so many sequences, or for as many of them as run at once, at their longest.
func (f *flow) holds(sequences int) bool {
	s := f.server
	if s.Scheduler.Admission == engine.ForSlot {
		return true
	}
	n := float64(min(sequences, s.Scheduler.MaxSeqs))
	mean, variance := blocksHeld(s.room(), f.prompts, f.answers, 1)
	return n*mean+4*math.Sqrt(n*variance) < 1-s.Scheduler.Watermark
}
