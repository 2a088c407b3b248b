package serving

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"llmprof/unit"
)

// What no sample path has is simulated, for a bounded number of events: closed loops, whose requests come when answers end, busy API
// servers, and pipelines, whose batches wait for each other.

// mostEvents bounds the events of a simulation.
const mostEvents = 1 << 19

// Within bounds the events that closed loops are simulated for from now on: each takes a quarter of those left at most.
func (t *Steadies) Within(events *int) { t.events = events }

// A tally is sums over answers, and what replicas did up to the last of them.
type tally struct {
	requests, several, time, ttft, tpot, e2e float64
	energy, busy, blocks                     float64
}

// answered adds an answer.
func (y *tally) answered(q *Record) {
	if tpot, ok := q.TPOT(); ok {
		y.tpot += float64(tpot)
		y.several++
	}
	y.requests++
	y.ttft += float64(q.TTFT())
	y.e2e += float64(q.E2E())
}

// at adds what the replicas of a cluster did up to now: the energy of those of a queue, and the mean of the others.
func (y tally) at(c *cluster) tally {
	r := c.result
	queues := r.replicas / float64(len(c.mixed[0].peers))
	y.time, y.energy, y.busy, y.blocks = float64(c.now), float64(r.Energy)/queues, r.busy/r.replicas, r.cache/r.replicas
	return y
}

// since is the sums beyond earlier ones.
func (y tally) since(x *tally) *tally {
	return &tally{y.requests - x.requests, y.several - x.several, y.time - x.time, y.ttft - x.ttft, y.tpot - x.tpot, y.e2e - x.e2e,
		y.energy - x.energy, y.busy - x.busy, y.blocks - x.blocks}
}

// A span is how long a simulation is: up to so many answers and so many events. A share of its parts, which have so many answers each, does
// not count.
type span struct {
	part, answers float64
	spread        float64 // answers where sequences are preempted, which spreads clients over time, slowly; 0 for no more than others
	events        int
	skip          float64
	alike         bool // Requests are equal, so that parts may repeat, and two of them are enough then.
}

// enough reports whether so many answers and events of a cluster are enough.
func (s *span) enough(c *cluster, answers float64, events int) bool {
	preempted := func(r *replica) bool { return r.preempted > 0 }
	return answers >= s.answers && events >= s.events && (answers >= s.spread || !slices.ContainsFunc(c.mixed, preempted))
}

// simulated is the sums over the answers of so many replicas that count; of none where too few end within the bound of events.
func (t *Steadies) simulated(replicas int, source Source, s span) (*tally, error) {
	server, most := t.server, mostEvents
	server.Replicas, server.Prefillers = replicas, 0
	sum, parts, events := tally{}, []tally{{}}, 0
	c := newCluster(&server, source, &Options{Each: sum.answered, priced: t.prices})
	if c.kept.clients > 0 {
		most = min(most, *t.events/4)
	}
	for ; events < most && !s.enough(c, sum.requests, events) && c.step(); events++ {
		if events%64 == 0 && t.ctx.Err() != nil {
			return nil, t.ctx.Err()
		}
		if sum.requests >= float64(len(parts))*s.part {
			if parts = append(parts, sum.at(c)); s.alike && repeated(parts) {
				parts, s.skip = parts[len(parts)-3:], 0
				break
			}
		}
	}
	if c.kept.clients > 0 {
		*t.events -= events
	}
	last := len(parts) - 1
	return parts[last].since(&parts[int(s.skip*float64(last+1))]), nil
}

// repeated reports whether the last part is like the last but one before it, so that all later ones are like these two: waves of equal
// requests soon repeat, each or in turns.
func repeated(parts []tally) bool {
	n := len(parts)
	if n < 5 {
		return false
	}
	last, before := parts[n-1].since(&parts[n-2]), parts[n-3].since(&parts[n-4])
	same := func(a, b float64) bool { return math.Abs(a/last.requests-b/before.requests) <= 1e-3*a/last.requests }
	return same(last.time, before.time) && same(last.ttft, before.ttft) && same(last.e2e, before.e2e)
}

// steady is the means over answers, of which so many come a second, of a queue that draws so much power while no step runs.
func (y *tally) steady(rate float64, idle unit.Watts) *Steady {
	n, time := max(y.requests, 1), y.time
	st := &Steady{Rate: rate, TTFT: unit.Seconds(y.ttft / n), E2E: unit.Seconds(y.e2e / n), TPOT: unit.Seconds(y.tpot / max(y.several, 1))}
	st.Waiting, st.Running = rate*float64(st.TTFT), rate*float64(st.E2E-st.TTFT) // This is Little's law.
	st.Utilization, st.Cache = min(y.busy/time, 1), min(y.blocks/time, 1)
	st.Energy = (unit.Joules(y.energy) + idle.For(unit.Seconds(max(time-y.busy, 0)))).Times(1 / (rate * time))
	return st
}

// fewSimulated is how many requests of an open loop are simulated whose answers have one length, far below the largest rate.
const fewSimulated = 2000

// opened is the steady state of one queue of an open loop at a rate.
func (t *Steadies) opened(f *flow, rate float64) (*Steady, error) {
	busy := max(f.front.load(rate, f.gen)/f.peers, rate/f.capacity().Rate)
	n := int(min(fewSimulated*(1+f.spread)/max(1-busy, 0.01), float64(f.jobs(rate))))
	if f.pipelined() { // A search asks for many.
		n = min(n, fewSimulated/2)
	}
	jobs, sent := f.come(n, rate), -1
	again := open(func() (Request, bool) {
		sent++
		v := &jobs[sent%n]
		return Request{At: unit.Seconds(v.at + float64(sent/n*n)/rate), Prompt: int(v.prompt), Gen: int(v.gaps) + 1}, true
	})
	sums, err := t.simulated(int(f.peers), again, span{part: float64(n) / 64, answers: float64(n), skip: 1.0 / 8})
	if err != nil {
		return nil, err
	}
	least := n / 64
	if f.pipelined() {
		least = n / 2
	}
	if sums.requests < float64(max(least, 1)) {
		return nil, fmt.Errorf("%g requests a second: fewer than %d answers end within %d events; simulate it", rate, least, mostEvents)
	}
	return sums.steady(rate, f.idle()), nil
}

// Clients of a closed loop begin together. Those whose requests are alike end together too, in waves, which are soon the same; others
// spread over time. Where sequences are preempted they do so slowly: TPOT of deepseek-v2-lite on an L40S still grew after 36 waves.
const (
	rounds       = 18
	manyRounds   = 72
	fewRequests  = 1000
	someEvents   = 1 << 16
	turning      = 4 // replicas that take turns, at most: a client has most of its requests at others than the one that answered it last
	leastClients = 8 // fewest clients of the replicas, for their number is rounded
	crowd        = 2 // times as many clients as sequences run at once keep a server busy at all times: those beyond wait for longer
	block        = 100
)

// A Crowd is some replicas of a closed loop with their clients, which stand for all of it.
type Crowd struct {
	Replicas, Clients int
	Beyond            float64 // clients who are left out: they make all wait for longer, by Little's law
}

// Crowd is the part of a closed loop of clients that is simulated: a few of the replicas that take turns, or one queue where all are always
// busy.
func (t *Steadies) Crowd(clients, replicas int) Crowd {
	peers := int(t.flow.peers)
	some, n := replicas, float64(clients)
	busy := float64(crowd*t.flow.most) / t.flow.peers // clients of a replica
	part := turning * peers
	if n > busy*float64(some) {
		part = peers
	}
	for part < some && n*float64(part) < leastClients*float64(some) {
		part *= 2
	}
	if part < some {
		some, n = part, n*float64(part)/float64(some)
	}
	few := max(math.Round(min(n, busy*float64(some))), 1)
	return Crowd{some, int(few), max(n-few, 0)}
}

// Wait adds to figures of the clients what requests wait for those who are left out.
func (c *Crowd) Wait(f *Figures) {
	if c.Beyond > 0 {
		by := c.Beyond * f.E2E.Mean() / float64(c.Clients)
		f.TTFT, f.E2E = f.TTFT.later(by), f.E2E.later(by)
	}
}

// clients is the steady state of one of the queues that a router serves in turn, whose clients have one request each at a time. Some
// replicas with their part of the clients stand for all.
func (t *Steadies) clients(clients, replicas int) (*Steady, error) {
	f, part := t.flow, t.Crowd(clients, replicas)
	few := float64(part.Clients)
	round := min(few, float64(f.most*part.Replicas)/f.peers) // sequences that run at once
	length := span{part: few, answers: rounds * round, skip: 2.0 / 3, alike: true}
	if t.prompt.Kind != "fixed" || t.gen.Kind != "fixed" || t.server.gainsVary() {
		length = span{part: few, answers: max(rounds*round, fewRequests), events: someEvents, spread: manyRounds * few, skip: 1.0 / 3}
	}
	alone := [2]int{part.Replicas, part.Clients}
	sums, known := t.crowds[alone]
	if !known {
		var err error
		if sums, err = t.simulated(part.Replicas, t.requests(part.Clients), length); err != nil {
			return nil, err
		}
		t.crowds[alone] = sums
	}
	if sums.requests == 0 { // it would take too long
		return f.looped(int(math.Ceil(few / float64(part.Replicas) * f.peers))), t.ctx.Err()
	}
	all, longer := *sums, part.Beyond*sums.e2e/few
	all.e2e, all.ttft = all.e2e+longer, all.ttft+longer
	return all.steady(float64(clients)/f.units(replicas)*all.requests/all.e2e, f.idle()), nil
}

// requests draws the requests of clients without end: of each block of them the lengths are equally likely parts of their distributions, in
// any order.
func (t *Steadies) requests(clients int) Source {
	random := rand.New(rand.NewPCG(1, 1))
	var prompts, answers []int
	sent := 0
	return newClients(clients, func(at unit.Seconds) (Request, bool) {
		i := sent % block
		if sent++; i == 0 {
			prompts, answers = t.prompt.stratified(block, random), t.gen.stratified(block, random)
		}
		return Request{At: at, Prompt: prompts[i], Gen: answers[i]}, true
	})
}
