package serving

import (
	"math"

	"llmprof/analytic"
	"llmprof/unit"
)

// Sequences that decode share each step, so that all of them progress at the same rate: a processor-sharing queue whose rate depends on
// their number. The stationary distribution of that number has a product form, which depends on the lengths of answers by their mean alone
// (Kelly, Reversibility and Stochastic Networks, 1979, section 3.3). By PASTA a request that arrives meets the means over that
// distribution.

// open is the steady state of an open queue at a rate; nil where it has none, as where the sequences that decode leave too little of a
// step to prompts.
func (f *flow) open(rate float64) *Steady {
	var st *Steady
	if f.groupsArrivals(rate) || f.shortAnswers(rate) {
		var api *eventLoop
		if f.apiBusy(noticeable, rate) {
			api = f.newEventLoop(nil)
		}
		if st = f.sampled(rate, api); api != nil {
			return st
		}
	} else if st = f.product(rate); st == nil {
		return nil
	}
	st.apiLoad = f.front.load(rate, f.gen) / f.peers
	return st
}

// product is open by the product form.
func (f *flow) product(rate float64) *Steady {
	st := &Steady{Rate: rate}
	weights, cycles := f.weights(rate)
	if weights == nil {
		return nil
	}
	var running, power, ttft float64
	excess := 0.0 // by how much longer than others the decode steps after a prompt are
	for n, w := range weights {
		if w == 0 {
			continue
		}
		at := min(n, f.most)
		running += float64(at) * w
		m := f.levelMeans(at, rate, cycles[at])
		st.Utilization += w * m.busy
		power += w * m.power
		ttft += w * m.first
		excess += w * m.excess
		st.otherBlocks += w * rate * f.beside(m.own, m.step)
	}
	if st.TTFT = unit.Seconds(ttft + f.queued(rate, weights, cycles)/rate); !f.handed {
		st.TTFT += f.server.Predictor.RequestTime()
	}
	if f.steps > 0 {
		st.Running = running + rate*excess
		st.TPOT = unit.Seconds(st.Running / rate / max(f.gen-1, 1))
	}
	st.E2E = st.TTFT + unit.Seconds(st.Running/rate)
	st.Energy = unit.Joules(power / rate)
	st.Waiting = rate * float64(st.TTFT) // by Little's law
	return st
}

// A levelMeans is the replica while some number of its sequences decode: means over that time.
type levelMeans struct {
	busy   float64 // share of the time
	power  float64
	first  float64 // from the arrival of a request to its first token
	own    float64 // part of first in the step of its prompt
	step   float64 // length of a step
	excess float64 // by how much longer than others the steps after a prompt are, in all
}

// levelMeans is the replica while n sequences decode.
func (f *flow) levelMeans(n int, rate float64, c *cycle) levelMeans {
	idle := float64(f.idle())
	switch {
	case n == 0 && f.handed:
		return levelMeans{power: idle}
	case n == 0:
		return f.empty(rate)
	case f.handed: // its first token is known already
		wait := c.mean / 2
		if f.server.Scheduler.Async {
			wait += c.mean
		}
		return levelMeans{busy: 1, power: c.energy / c.decode, first: wait, step: c.mean}
	}
	return levelMeans{busy: 1, power: c.energy / c.decode, first: c.first - f.pipelined(n, rate, c.mean) + f.out(float64(n)), own: c.computes,
		step: c.mean, excess: c.excess}
}

// pipelined is by how much a request begins sooner in a pipeline than it would behind whole turns of its batches. One that comes while
// they only decode waits for one of them, and with asynchronous scheduling for one more.
func (f *flow) pipelined(n int, rate, turn float64) float64 {
	parts := float64(f.server.Predictor.Par.MicroBatches)
	if parts == 1 {
		return 0
	}
	decode := float64(f.graphStep(n).Time)
	wait := math.Exp(-rate*turn) * decode / turn * decode / 2
	if f.server.Scheduler.Async {
		wait += decode
	}
	return (1 - 1/parts) * wait
}

// alone is a prompt that comes to a replica without work.
func (f *flow) alone(rate float64) Cost {
	window := rate * float64(analytic.Window)
	return rested(f.level(0).extra(1), (1-math.Exp(-window))/window) // the mean share of the window before an arrival
}

// empty is the replica while none of its sequences decodes: it is idle, or computes a prompt.
func (f *flow) empty(rate float64) levelMeans {
	a := f.alone(rate)
	time := float64(a.Time)
	busy := rate * time / (1 + rate*time)
	return levelMeans{busy: busy, power: busy*float64(a.Energy)/time + (1-busy)*float64(f.idle()), first: time + busy*time/2, own: time}
}

// beside is the time for which a request holds blocks and does not decode, times their share of the cache: the step of its prompt, and
// where scheduling is asynchronous the step that was formed before its last one ended.
func (f *flow) beside(own, step float64) float64 {
	held := own * f.begins
	if f.server.Scheduler.Async {
		held += step * f.ends
	}
	return held
}

// out is the time for which a first token waits until the API server has sent n tokens of the same step.
func (f *flow) out(n float64) float64 {
	if !f.server.Scheduler.Mixed { // those of decode steps were sent while the prompt was computed
		return 0
	}
	return n / f.peers * float64(f.front.token)
}

// idle is the power while no step runs.
func (f *flow) idle() unit.Watts { return unit.Watts(float64(f.server.idle()) * f.peers) }
