package serving

import (
	"fmt"
	"math"

	"llmprof/unit"
)

// A closed loop may be simulated only for as many events as its caller has left. Beyond them its steady state is that of the open loop
// whose requests, by Little's law, are as many as the clients: the same server meets Poisson arrivals instead of those that follow answers.

// Within bounds the events that closed loops are simulated for: each takes a quarter of those left at most, and has its state by Little's
// law beyond.
func (t *Steadies) Within(events *int) { t.events = events }

// share is how many events one closed loop may take; all where they are not bounded.
func (t *Steadies) share() int {
	if t.events == nil {
		return math.MaxInt
	}
	return *t.events / 4
}

// spend takes events from those left.
func (t *Steadies) spend(events int) {
	if t.events != nil {
		*t.events -= events
	}
}

// nearCapacity is the share of the largest stable rate up to which an open loop stands for a closed one; further clients wait.
const nearCapacity = 0.99

// byLittle is the state of one queue with its part of the clients, by an open loop.
func (t *Steadies) byLittle(clients, replicas int) (*Steady, error) {
	f := t.flow
	n := float64(clients) / f.units(replicas)
	f.behindRouter(f.units(replicas))
	at := func(rate float64) *Steady {
		if f.steps == 0 {
			return f.open(rate)
		}
		return f.product(rate)
	}
	most := nearCapacity * f.capacity().Rate
	low := 1e-3 * most
	st := at(low)
	if st == nil {
		return nil, fmt.Errorf("%d clients: the steady state of so many has no closed form; simulate it", clients)
	}
	high := min(most, n/float64(st.E2E))
	for range 10 { // the rest is time that clients wait
		rate := (low + high) / 2
		if s := at(rate); s == nil || rate*float64(s.E2E) > n {
			high = rate
		} else {
			low, st = rate, s
		}
	}
	if longer := unit.Seconds(n/low) - st.E2E; longer > 0 {
		st.TTFT, st.E2E, st.Waiting = st.TTFT+longer, st.E2E+longer, st.Waiting+low*float64(longer)
	}
	return st, nil
}
