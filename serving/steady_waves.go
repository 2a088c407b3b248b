package serving

import (
	"fmt"
	"math"
	"math/rand/v2"

	"llmprof/unit"
)

// A closed loop whose requests are alike runs in waves: clients that began together end together. Waves are simulated until one repeats an
// earlier one, or until their means are steady. Where they do neither, the first waves do not count, because they still follow from all
// clients beginning together. Where requests differ a wave is as many answers as there are clients, and some of them are simulated.
const (
	periods = 8    // waves between those that are alike, at most
	enough  = 12   // waves where none are alike, at least
	most    = 36   // waves where none are alike, at most
	begun   = 6    // first waves that do not count where means are not steady after the most waves
	settled = 2e-3 // by which means over the second third of the waves and over the last differ then, at most
)

// A wave is as many answers as there are clients, in the order in which they come.
type wave struct {
	times []float64 // TTFT, E2E and the time since the answer before, of each answer; then what schedulers remember
	end   totals
}

// totals are sums up to a time.
type totals struct{ answers, several, time, ttft, tpot, e2e, energy, busy, running float64 }

// A loop simulates clients until their waves are alike.
type loop struct {
	*cluster
	clients int
	prompts float64 // share of the KV blocks of a request whose prompt is computed
	from    int     // wave after which answers count, and the last one, where requests differ; else 0
	to      int
	waves   []wave // waves that have ended
	times   []float64
	sum     totals
}

// waves is the steady state of one queue of a closed loop whose requests are all alike. Requests go to replicas in turn: where clients
// divide evenly, a part of the replicas with the same part of the clients has the same waves.
func (t *Steadies) waves(clients, replicas int) (*Steady, error) {
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

// wave simulates clients until their waves repeat, or for some of them where requests differ.
func (t *Steadies) wave(clients, replicas int) (*Steady, error) {
	w := &loop{clients: clients, prompts: t.flow.begins}
	requests := clients * (most + 1)
	if t.prompt.Kind != "fixed" || t.gen.Kind != "fixed" {
		w.from = 5 + (passed+clients-1)/clients
		w.to = w.from + 10 + (counts+clients-1)/clients
		requests = 4 * clients * (w.to + 2) // some may be too long
	}
	part := t.server
	part.Replicas = replicas
	if t.priced == nil {
		t.priced = part.prices()
		t.priced.known = map[mixture]Cost{}
	}
	w.cluster = newCluster(&part, t.requests(requests, clients),
		&Options{Each: w.answered, sums: true, stepwise: t.stepwise, priced: t.priced})
	most := t.share()
	left := most
	defer func() { t.spend(most - max(left, 0)) }()
	for {
		ended := len(w.waves)
		if err := t.ctx.Err(); err != nil {
			return nil, err
		}
		if left--; left < 0 {
			return t.byLittle(clients, replicas)
		}
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

func (w *loop) answered(q *Record) {
	if tpot, ok := q.TPOT(); ok {
		w.sum.tpot += float64(tpot)
		w.sum.several++
	}
	w.times = append(w.times, float64(q.TTFT()), float64(q.E2E()), float64(q.Last)-w.sum.time)
	w.sum.answers++
	w.sum.time = float64(q.Last)
	w.sum.ttft += float64(q.TTFT())
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
	if w.to > 0 {
		w.waves, w.times = append(w.waves, wave{end: w.sum}), w.times[:0]
		return
	}
	w.waves, w.times = append(w.waves, wave{w.times, w.sum}), make([]float64, 0, cap(w.times))
}

// Answers of a loop whose requests differ that are passed over, and those that count, besides some waves of each.
const passed, counts = 200, 1000

// requests draws so many requests for clients: of each block of them the lengths are equally likely parts of their distributions, in any
// order.
func (t *Steadies) requests(n, clients int) Source {
	const block = 100
	random := rand.New(rand.NewPCG(1, 1))
	prompts, answers, alike := make([]int, block), make([]int, block), t.prompt.Kind == "fixed" && t.gen.Kind == "fixed"
	sent := 0
	return newClients(clients, func(at unit.Seconds) (Request, bool) {
		i := sent % block
		sent++
		if i == 0 && !alike {
			prompts, answers = random.Perm(block), random.Perm(block)
		}
		return Request{At: at, Prompt: t.prompt.part(prompts[i], block), Gen: t.gen.part(answers[i], block)}, sent <= n
	})
}

// begins is the wave after which the steady state begins; -1 if it is not known yet.
func (w *loop) begins() int {
	last := len(w.waves) - 1
	if w.to > 0 {
		if last < w.to {
			return -1
		}
		return w.from
	}
	for before := last - 1; before >= max(last-periods, 0); before-- {
		if w.same(before, last) {
			return before
		}
	}
	switch n := last + 1; {
	case n >= enough && w.settled(n/3, 2*n/3, last):
		return n / 3
	case n == most:
		return begun
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
	for _, x := range [...][2]float64{{a.Rate, b.Rate}, {float64(a.TTFT), float64(b.TTFT)}, {float64(a.TPOT), float64(b.TPOT)},
		{float64(a.Energy), float64(b.Energy)}} {
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
	rate := float64(w.clients) * w.server.peers() / replicas / ((b.e2e - a.e2e) / n) // by Little's law: time has parts of waves
	st := &Steady{
		Rate: rate, Waiting: rate * (b.ttft - a.ttft) / n, Running: rate * (b.e2e - a.e2e - b.ttft + a.ttft) / n,
		TTFT: unit.Seconds((b.ttft - a.ttft) / n), TPOT: unit.Seconds((b.tpot - a.tpot) / max(b.several-a.several, 1)),
		E2E:         unit.Seconds((b.e2e - a.e2e) / n),
		Utilization: min(busy/(time*replicas), 1), Energy: (unit.Joules(b.energy-a.energy) + idle).Times(1 / n),
	}
	st.otherBlocks = max((b.running-a.running)/units-st.Running, 0) * w.prompts
	return st
}
