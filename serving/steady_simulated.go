package serving

import (
	"fmt"
	"math"
	"math/rand/v2"

	"llmprof/unit"
)

// What no sample path has is simulated, for a bounded number of events: closed loops, whose requests come when answers end, and busy API
// servers.

// mostEvents bounds the events of a simulation.
const mostEvents = 1 << 19

// Within bounds the events that closed loops are simulated for from now on: each takes a quarter of those left at most.
func (t *Steadies) Within(events *int) { t.events = events }

// A tally is sums over answers, and what replicas did up to the last of them.
type tally struct {
	answers, several, time, ttft, tpot, e2e float64
	energy, busy, blocks                    float64
}

// answered adds an answer.
func (y *tally) answered(q *Record) {
	if tpot, ok := q.TPOT(); ok {
		y.tpot += float64(tpot)
		y.several++
	}
	y.answers++
	y.ttft += float64(q.TTFT())
	y.e2e += float64(q.E2E())
}

// at adds what the replicas of a cluster did up to now.
func (y tally) at(c *cluster) tally {
	r := c.result
	y.time, y.energy, y.busy, y.blocks = float64(c.now), float64(r.Energy), r.busy, r.cache
	return y
}

// since is the sums beyond earlier ones.
func (y tally) since(x *tally) tally {
	return tally{y.answers - x.answers, y.several - x.several, y.time - x.time, y.ttft - x.ttft, y.tpot - x.tpot, y.e2e - x.e2e,
		y.energy - x.energy, y.busy - x.busy, y.blocks - x.blocks}
}

// simulated is the sums over the answers of so many replicas, up to when so many requests have been sent, or less where events run out. The
// first share of the parts, which have so many answers each, does not count. There are none where too few answers end.
func (t *Steadies) simulated(replicas int, source Source, requests, part int, skip float64) (tally, error) {
	server, most := t.server, mostEvents
	server.Replicas, server.Prefillers = replicas, 0
	if t.events != nil {
		most = min(most, *t.events/4)
	}
	var sum tally
	parts := []tally{{}}
	c := newCluster(&server, source, &Options{Each: sum.answered, priced: t.prices})
	events := 0
	for ; events < most && c.arrivals.sent < requests && c.step(); events++ {
		if events%64 == 0 && t.ctx.Err() != nil {
			return sum, t.ctx.Err()
		}
		if sum.answers >= float64(len(parts)*part) {
			parts = append(parts, sum.at(c))
		}
	}
	if t.events != nil {
		*t.events -= events
	}
	last := len(parts) - 1
	first := min(int(math.Ceil(skip*float64(last))), max(last-1, 0))
	return parts[last].since(&parts[first]), nil
}

// steady is the means over the answers of so many replicas, each of which answers requests at a rate.
func (y *tally) steady(s *Server, rate float64, replicas int) *Steady {
	n, time := y.answers, y.time*float64(replicas)
	st := &Steady{TTFT: unit.Seconds(y.ttft / n), E2E: unit.Seconds(y.e2e / n), TPOT: unit.Seconds(y.tpot / max(y.several, 1))}
	st.Waiting, st.Running = rate*float64(st.TTFT), rate*float64(st.E2E-st.TTFT) // by Little's law
	st.Utilization, st.Cache = min(y.busy/time, 1), min(y.blocks/time, 1)
	st.Energy = (unit.Joules(y.energy) + s.idle().For(unit.Seconds(max(time-y.busy, 0)))).Times(1 / (rate * time))
	return st
}

// opened is the steady state of one queue of an open loop, at a rate.
func (t *Steadies) opened(f *flow, rate float64) (*Steady, error) {
	idle := 1 - f.front.load(rate, f.gen)/f.peers
	n := int(min(fewSimulated*(1+f.spread)/max(idle, 0.01), float64(f.jobs(rate))))
	all, peers := draw(&t.prompt, &t.gen, n, rand.New(rand.NewPCG(1, 1))), int(f.peers)
	for i, at := range f.arrivals(n, rate) {
		all[i].At = unit.Seconds(at)
	}
	open := *t
	open.events = nil
	sums, err := open.simulated(peers, Replay(all), n, n/64, 1.0/8) // answers after the last arrival see a server that others leave
	if err != nil {
		return nil, err
	}
	if sums.answers == 0 {
		return nil, fmt.Errorf("%g requests a second: fewer than %d answers end within %d events; simulate it", rate, n/64, mostEvents)
	}
	st := sums.steady(&t.server, rate/f.peers, peers)
	st.Running, st.Waiting = st.Running*f.peers, st.Waiting*f.peers
	return st, nil
}

// fewSimulated is how many requests of an open loop are simulated whose answers have one length and whose API server has little to do.
const fewSimulated = 4000

// Clients of a closed loop begin together. Those whose requests are alike end together too, in waves, which are soon the same; others
// spread over time.
const (
	waves        = 18
	answersDrawn = 3000 // at least, where they differ
	turning      = 4    // replicas that take turns, at most: a client has most of its requests at others than the one that answered it last
	leastClients = 8    // of so many replicas, at least, for they are a whole number
	crowd        = 2    // times as many clients as sequences run at once keep a server busy at all times: those beyond wait for longer
	block        = 100  // requests of which the lengths are equally likely parts of their distributions
)

// clients is the steady state of one of the queues that a router serves in turn, whose clients have one request each at a time. Some
// replicas with their part of the clients stand for all.
func (t *Steadies) clients(clients, replicas int) (*Steady, error) {
	f, n := t.flow, float64(clients)
	some := turning * int(f.peers)
	for some < replicas && n*float64(some) < leastClients*float64(replicas) {
		some *= 2
	}
	some = min(some, replicas)
	n *= float64(some) / float64(replicas)
	limit := float64(crowd*f.most*some) / f.peers
	few := int(max(math.Round(min(n, limit)), 1))
	requests := waves * few
	if t.prompt.Kind != "fixed" || t.gen.Kind != "fixed" || t.server.gainsVary() {
		requests = max(requests, answersDrawn)
	}
	sums, err := t.simulated(some, t.requests(few), requests+few, few, 1.0/3)
	if err != nil {
		return nil, err
	}
	if sums.answers == 0 { // it would take too long
		return f.looped(int(math.Ceil(float64(few) / float64(some) * f.peers))), t.ctx.Err()
	}
	if longer := max(n/float64(few)-1, 0) * sums.e2e; n > limit { // by Little's law
		sums.e2e, sums.ttft = sums.e2e+longer, sums.ttft+longer
	}
	rate := float64(clients) / float64(replicas) * sums.answers / sums.e2e
	st := sums.steady(&t.server, rate, some)
	st.Rate, st.Running, st.Waiting = rate*f.peers, st.Running*f.peers, st.Waiting*f.peers
	return st, nil
}

// requests draws the requests of clients without end.
func (t *Steadies) requests(clients int) Source {
	random := rand.New(rand.NewPCG(1, 1))
	var all []Request
	return newClients(clients, func(at unit.Seconds) (q Request, ok bool) {
		if len(all) == 0 {
			all = draw(&t.prompt, &t.gen, block, random)
		}
		q, all = all[0], all[1:]
		q.At = at
		return q, true
	})
}
