package serving

import (
	"math"

	"llmprof/analytic/engine"
	"llmprof/unit"
)

// The requests of a closed loop come when answers end, and answers end with steps: arrivals and steps depend on each other, and have no closed form.
// The requests of one replica are followed at tabulated costs where the KV cache holds none up. Other servers are simulated.

// closed is the steady state of one queue of a closed loop whose answers or prompts differ.
func (t *Steadies) closed(clients, replicas int) (*Steady, error) {
	if replicas == 1 {
		if st := t.flow.followed(clients); st != nil {
			return st, nil
		}
	}
	return t.several(float64(clients), replicas)
}

// turning is how many replicas that take turns are simulated at most: a client has most of its requests at others than the one that answered it last.
const turning = 4

// several simulates the replicas, or as many of them as stand for all with their part of the clients: a mean number of them.
func (t *Steadies) several(clients float64, replicas int) (*Steady, error) {
	peers := t.server.Predictor.Par.ExpertReplicas()
	some := min(replicas, turning*peers)
	if peers > 1 && replicas%peers != 0 {
		some = replicas
	}
	each := clients * float64(some) / float64(replicas)
	few := math.Floor(each)
	if each == few {
		return t.wave(int(each), some)
	}
	more, err := t.wave(int(few)+1, some)
	if err != nil {
		return nil, err
	}
	if few == 0 {
		more.among(each, t.flow.idle())
		return more, nil
	}
	st, err := t.wave(int(few), some)
	if err == nil {
		st.toward(more, each-few)
	}
	return st, err
}

// toward makes the state that of replicas of which a share has another one.
func (st *Steady) toward(o *Steady, share float64) {
	line := func(a, b float64) float64 { return a + share*(b-a) }
	answers := share * o.Rate / line(st.Rate, o.Rate)
	mean := func(a, b unit.Seconds) unit.Seconds { return a + (b - a).Times(answers) }
	st.TTFT, st.TPOT, st.E2E = mean(st.TTFT, o.TTFT), mean(st.TPOT, o.TPOT), mean(st.E2E, o.E2E)
	st.Energy += (o.Energy - st.Energy).Times(answers)
	st.Rate, st.Running, st.Waiting = line(st.Rate, o.Rate), line(st.Running, o.Running), line(st.Waiting, o.Waiting)
	st.Utilization, st.beside = line(st.Utilization, o.Utilization), line(st.beside, o.beside)
}

// busiest is the share of its time up to which an API server is busy that sends the tokens of each step before the next ones come.
const busiest = 0.8

// followed is the steady state of the clients of one replica; nil where its KV cache may be full, or its API server hardly keeps up.
func (f *flow) followed(clients int) *Steady {
	if f.handed || f.peers > 1 || f.answers.Kind == "fixed" && f.gen > 1 || !f.holds(clients) {
		return nil
	}
	st := f.inBriefOf(clients)
	if f.front.load(st.Rate, f.gen) > busiest {
		return nil
	}
	return st
}

// holds reports whether the KV cache has room for so many sequences, or for as many of them as run at once, at their longest.
func (f *flow) holds(sequences int) bool {
	s := f.server
	if s.Scheduler.Admission == engine.ForSlot {
		return true
	}
	n := float64(min(sequences, s.Scheduler.MaxSeqs))
	mean, variance := blocksMet(s.room(), f.prompts, f.answers, 1)
	return n*mean+4*math.Sqrt(n*variance) < 1-s.Scheduler.Watermark
}
