package serving

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

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

// A span is how long a simulation is: up to so many answers, or to fewer after some events. A share of its parts, which have so many
// answers each, does not count.
type span struct {
	part, least, most float64
	spread            float64 // answers where sequences are preempted, which spreads clients over time, slowly; 0 for no more than others
	events            int
	skip              float64
	alike             bool // Its parts may repeat, and two of them are enough then.
	open              bool // it ends with the last arrival, for later answers see a server that others leave
}

// enough reports whether so many answers and events of a cluster are enough.
func (s *span) enough(c *cluster, answers float64, events int) bool {
	if s.open && !c.arrivals.any {
		return true
	}
	if answers < s.most && (events <= s.events || answers < s.least) {
		return false
	}
	preempted := func(r *replica) bool { return r.preempted > 0 }
	return answers >= s.spread || !slices.ContainsFunc(c.mixed, preempted)
}

// simulated is the sums over the answers of so many replicas that count; of none where too few end within the bound of events.
func (t *Steadies) simulated(replicas int, source Source, s span) (tally, error) {
	server, most := t.server, mostEvents
	server.Replicas, server.Prefillers = replicas, 0
	if t.events != nil {
		most = min(most, *t.events/4)
	}
	var sum tally
	parts := []tally{{}}
	c := newCluster(&server, source, &Options{Each: sum.answered, sums: true, priced: t.prices})
	events := 0
	for ; events < most && !s.enough(c, sum.answers, events) && c.step(); events++ {
		if events%64 == 0 && t.ctx.Err() != nil {
			return sum, t.ctx.Err()
		}
		if sum.answers >= float64(len(parts))*s.part {
			if parts = append(parts, sum.at(c)); s.alike && repeated(parts) {
				parts = parts[len(parts)-3:]
				s.skip = 0
				break
			}
		}
	}
	if t.events != nil {
		*t.events -= events
	}
	last := len(parts) - 1
	first := min(int(math.Ceil(s.skip*float64(last))), max(last-1, 0))
	return parts[last].since(&parts[first]), nil
}

// repeated reports whether the last part is like the last but one before it, so that all later ones are like these two: waves of equal
// requests soon repeat, each or in turns.
func repeated(parts []tally) bool {
	n := len(parts)
	if n < 5 {
		return false
	}
	last, before := parts[n-1].since(&parts[n-2]), parts[n-3].since(&parts[n-4])
	same := func(a, b float64) bool { return math.Abs(a/last.answers-b/before.answers) <= 1e-3*a/last.answers }
	return same(last.time, before.time) && same(last.ttft, before.ttft) && same(last.e2e, before.e2e)
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
	all, peers := f.draw(n, rand.New(rand.NewPCG(1, 1))), int(f.peers)
	for i, at := range f.arrivals(n, rate) {
		all[i].At = unit.Seconds(at)
	}
	sums, err := t.simulated(peers, Replay(all), span{part: float64(n) / 64, least: float64(n), most: float64(n), skip: 1.0 / 8, open: true})
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
const fewSimulated = 2000

// Clients of a closed loop begin together. Those whose requests are alike end together too, in waves, which are soon the same; others
// spread over time. Where sequences are preempted they do so slowly: TPOT of deepseek-v2-lite on an L40S still grew after 36 waves.
const (
	waves        = 18
	manyWaves    = 72
	fewAnswers   = 1000
	manyAnswers  = 6000
	someEvents   = 1 << 16
	turning      = 4 // replicas that take turns, at most: a client has most of its requests at others than the one that answered it last
	leastClients = 8 // of so many replicas, at least, for they are a whole number
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
	each := waves * min(few, float64(f.most*part.Replicas)/f.peers) // They are waves of the sequences that run at once.
	length := span{part: few, least: each, most: each, skip: 1.0 / 3,
		alike: t.prompt.Kind == "fixed" && t.gen.Kind == "fixed" && !t.server.gainsVary()}
	if !length.alike {
		length.least, length.most, length.events = max(length.least, fewAnswers), max(length.most, manyAnswers), someEvents
		length.spread = manyWaves * few
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
	if sums.answers == 0 { // it would take too long
		return f.looped(int(math.Ceil(few / float64(part.Replicas) * f.peers))), t.ctx.Err()
	}
	longer := part.Beyond * sums.e2e / few
	sums.e2e, sums.ttft = sums.e2e+longer, sums.ttft+longer
	rate := float64(clients) / float64(replicas) * sums.answers / sums.e2e
	st := sums.steady(&t.server, rate, part.Replicas)
	st.Rate, st.Running, st.Waiting = rate*f.peers, st.Running*f.peers, st.Waiting*f.peers
	return st, nil
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
			prompts, answers = random.Perm(block), random.Perm(block)
		}
		return Request{At: at, Prompt: t.prompt.part(prompts[i], block), Gen: t.gen.part(answers[i], block)}, true
	})
}
