package serving

import (
	"fmt"
	"math"

	"llmprof/unit"
)

// A closed loop whose answers have one length runs in waves: clients that began together end together. Waves are simulated until one repeats an earlier
// one, or until their means are steady.
const (
	periods = 8    // waves between those that are alike, at most
	enough  = 12   // waves where none are alike, at least
	most    = 44   // and at most
	settled = 2e-3 // by which means over the second third of the waves and over the last differ then, at most
)

// A wave is as many answers as there are clients, in the order in which they come.
type wave struct {
	times []float64 // TTFT, E2E and the time since the answer before, of each answer; then what schedulers remember
	end   totals
}

// totals are sums up to a time.
type totals struct{ answers, time, ttft, tpot, e2e, energy, busy, running float64 }

// A loop simulates clients until their waves are alike.
type loop struct {
	*cluster
	clients int
	prompts float64 // share of the KV blocks of a request whose prompt is computed
	waves   []wave  // waves that have ended
	times   []float64
	sum     totals
}

// waves is the steady state of one queue of a closed loop whose answers have one length. Clients beyond a crowd wait for longer and change nothing else.
func (t *Steadies) waves(clients, replicas int) (*Steady, error) {
	limit := crowd * t.flow.most * int(math.Ceil(t.flow.units(replicas)))
	st, err := t.shared(min(clients, limit), replicas)
	if more := float64(clients-limit) / t.flow.units(replicas); err == nil && more > 0 {
		longer := unit.Seconds(more / st.Rate)
		st.TTFT, st.E2E, st.Waiting = st.TTFT+longer, st.E2E+longer, st.Waiting+more
	}
	return st, err
}

// crowd is how many times as many clients as sequences run at once keep a server busy at all times.
const crowd = 6

// shared simulates waves. Requests go to replicas in turn: where clients divide evenly, a part of the replicas with the same part of the clients has the
// same waves.
func (t *Steadies) shared(clients, replicas int) (*Steady, error) {
	parts := 1
	if peers := t.server.Predictor.Par.ExpertReplicas(); replicas%peers == 0 {
		parts = divisor(clients, replicas/peers)
	}
	return t.wave(clients/parts, replicas/parts)
}

// divisor is the greatest one that two numbers have in common.
func divisor(a, b int) int {
	for b > 0 {
		a, b = b, a%b
	}
	return a
}

// wave simulates clients until their waves repeat.
func (t *Steadies) wave(clients, replicas int) (*Steady, error) {
	l := Load{Arrival: Arrival{Kind: "closed", Concurrency: clients}, Prompt: t.prompt, Gen: t.gen, Requests: clients * (most + 1)}
	source, err := l.Source()
	if err != nil {
		return nil, err
	}
	w := &loop{clients: clients, prompts: t.flow.begins}
	part := t.server
	part.Replicas = replicas
	if t.priced == nil {
		t.priced = part.prices()
		t.priced.known = map[mixture]Cost{}
	}
	w.cluster = newCluster(&part, source, &Options{Each: w.answered, sums: true, stepwise: t.stepwise, priced: t.priced})
	for {
		ended := len(w.waves)
		if !w.step() {
			return nil, fmt.Errorf("%d clients: only %d requests are answered", clients, w.result.Completed)
		}
		if n := len(w.waves); n > ended {
			if from := w.begins(); from >= 0 {
				return w.steady(from, n-1), nil
			}
		}
	}
}

// answered enters an answer.
func (w *loop) answered(q *Record) {
	tpot, _ := q.TPOT()
	w.times = append(w.times, float64(q.TTFT()), float64(q.E2E()), float64(q.Last)-w.sum.time)
	w.sum.answers++
	w.sum.time = float64(q.Last)
	w.sum.ttft += float64(q.TTFT())
	w.sum.tpot += float64(tpot)
	w.sum.e2e += float64(q.E2E())
	if len(w.times) < 3*w.clients {
		return
	}
	w.catchUpAll(q.Replica)
	for _, r := range w.mixed {
		w.times = append(w.times, r.expect)
	}
	r := w.result
	w.sum.energy, w.sum.busy, w.sum.running = float64(r.Energy), r.busy, r.running
	w.waves = append(w.waves, wave{w.times, w.sum})
	w.times = nil
}

// begins is the wave after which the steady state begins; -1 if it is not known yet.
func (w *loop) begins() int {
	last := len(w.waves) - 1
	for before := last - 1; before >= max(last-periods, 0); before-- {
		if w.same(before, last) {
			return before
		}
	}
	if n := last + 1; n == most || n >= enough && w.settled(n/3, 2*n/3, last) {
		return n / 3
	}
	return -1
}

// same reports whether all answers of two waves take as long, but for rounding.
func (w *loop) same(a, b int) bool {
	for i, v := range w.waves[a].times {
		if math.Abs(v-w.waves[b].times[i]) > 1e-9*w.waves[b].end.time {
			return false
		}
	}
	return true
}

// settled reports whether the means over two spans of waves are nearly the same.
func (w *loop) settled(from, middle, to int) bool {
	a, b := w.steady(from, middle), w.steady(middle, to)
	for _, x := range [...][2]float64{{a.Rate, b.Rate}, {float64(a.TTFT), float64(b.TTFT)}, {float64(a.TPOT), float64(b.TPOT)}, {float64(a.Energy), float64(b.Energy)}} {
		if math.Abs(x[0]-x[1]) > settled*x[0] {
			return false
		}
	}
	return true
}

// steady is the means over the waves after one, up to another.
func (w *loop) steady(from, to int) *Steady {
	a, b, replicas := &w.waves[from].end, &w.waves[to].end, float64(w.server.Replicas)
	n := b.answers - a.answers
	time, busy := b.time-a.time, b.busy-a.busy
	idle := w.server.idle().For(unit.Seconds(max(time*replicas-busy, 0)))
	units := time * replicas / w.server.peers()
	st := &Steady{
		Rate: n / units, Waiting: (b.ttft - a.ttft) / units, Running: (b.e2e - a.e2e - b.ttft + a.ttft) / units, // by Little's law
		TTFT: unit.Seconds((b.ttft - a.ttft) / n), TPOT: unit.Seconds((b.tpot - a.tpot) / n), E2E: unit.Seconds((b.e2e - a.e2e) / n),
		Utilization: min(busy/(time*replicas), 1), Energy: (unit.Joules(b.energy-a.energy) + idle).Times(1 / n),
	}
	st.beside = max((b.running-a.running)/units-st.Running, 0) * w.prompts
	return st
}
