package serving

import (
	"math"
	"slices"

	"llmprof/analytic"
	"llmprof/unit"
)

// open is the steady state of an open queue at a rate; nil where it has none, as where the sequences that decode leave too little of a step to
// prompts.
func (f *flow) open(rate float64) *Steady {
	switch {
	case f.groupsArrivals(rate):
		return f.sampled(rate, f.newEventLoop(nil))
	case f.shortAnswers(rate):
		return f.sampled(rate, nil)
	}
	return f.product(rate)
}

// product is open by the product form.
func (f *flow) product(rate float64) *Steady {
	st := &Steady{Rate: rate}
	weights, cycles := f.weights(rate)
	if weights == nil {
		return nil
	}
	var running, power, ttft float64
	behind := 0.0 // by how much longer than others the decode steps after a prompt are
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
		behind += w * m.behind
		st.otherBlocks += w * rate * f.beside(m.own, m.step)
	}
	if st.TTFT = unit.Seconds(ttft + f.queued(rate, weights, cycles)/rate); !f.handed {
		st.TTFT += f.server.Predictor.RequestTime()
	}
	if f.steps > 0 {
		st.Running = running + rate*behind
		st.TPOT = unit.Seconds(st.Running / rate / max(f.gen-1, 1))
	}
	st.E2E = st.TTFT + unit.Seconds(st.Running/rate)
	st.Energy = unit.Joules(power / rate)
	st.Waiting = rate * float64(st.TTFT) // by Little's law
	return st
}

// A state is the replica while some number of its sequences decode: means over that time.
type levelMeans struct {
	busy   float64 // share of the time
	power  float64
	first  float64 // from the arrival of a request to its first token
	own    float64 // part of first in the step of its prompt
	step   float64 // length of a step
	behind float64 // by how much longer than others the steps after a prompt are, in all
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
	return levelMeans{busy: 1, power: c.energy / c.decode, first: c.first - f.pipelined(n, rate, c.mean) + f.out(float64(n)), own: c.computes, step: c.mean, behind: c.excess}
}

// pipelined is by how much a request begins sooner in a pipeline than it would behind whole turns of its batches. One that comes while they only
// decode waits for one of them, and with asynchronous scheduling for one more.
func (f *flow) pipelined(n int, rate, turn float64) float64 {
	parts := float64(f.server.Predictor.Par.MicroBatches)
	if parts == 1 {
		return 0
	}
	decode := float64(f.level(n).decode.Time)
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

// queued is the mean number of requests that wait because no more sequences fit: the queue of as many servers. The wait is that of exponential service
// times for answers that vary as much, that of constant ones by Cosmetatos (1976) for answers of one length, and on the line between for others. While
// prompts are computed no sequence ends, so that those that come meanwhile are a batch.
func (f *flow) queued(rate float64, weights []float64, cycles []*cycle) float64 {
	c := f.fitting()
	if float64(len(weights)) <= c.least() {
		return 0
	}
	first, load := slices.IndexFunc(weights, func(w float64) bool { return w > 0 }), 0.0
	full, up, sum, ratio, waits := 1.0, 1.0, 1.0, 0.0, 0.0
	for n := first + 1; n <= c.most(); n++ {
		at := cycles[min(n, f.most, len(cycles)-1)]
		run := c.of(n)
		m := rate * f.steps * at.decode
		ratio, load = m/run, at.load
		full = f.birth(n, m) * float64(n) / run * up
		up = full*(1-load) + load*up
		waits += full * (float64(n) - run)
		if sum += full; sum > 1e200 {
			full, up, sum, waits = full*1e-200, up*1e-200, sum*1e-200, waits*1e-200
		}
	}
	if f.outgrows() && full/sum > unlikely {
		ratio = max(ratio, rate/f.capacity().Rate)
	}
	ratio = min(ratio, 0.999)
	more := 1 - (ratio*(1-load) + load) // each further request that waits is less likely by so much
	beyond := ratio * up / more
	sum += beyond
	waits += beyond * (float64(c.most()) - c.mean)
	n := c.mean
	constant := min((1+(1-ratio)*(n-1)*(math.Sqrt(4+5*n)-2)/(16*ratio*n))/2, 1)
	spread := min(f.spread, 1)
	even := (1/float64(f.stages) + spread) / (1 + spread) // arrivals in turn wait for less
	return even*(waits+beyond/more)/sum*(constant+spread*(1-constant)) + load*(full+beyond)/sum
}

// A fitting is how many sequences fit. Where they hold different numbers of blocks that varies as sequences come and go: it is about normal, which three
// points stand for.
type fitting struct{ mean, off float64 }

func (f *flow) fitting() fitting {
	c := fitting{mean: float64(f.most)}
	if f.outgrows() {
		c.off = min(math.Sqrt(3*c.mean*f.varies)/f.held, c.mean-1)
	}
	return c
}

// least and most are between how many sequences the number lies.
func (c fitting) least() float64 { return c.mean - c.off }
func (c fitting) most() int      { return int(math.Ceil(c.mean + c.off)) }

// of is the mean number of n sequences that run.
func (c fitting) of(n int) float64 {
	x := float64(n)
	return (min(x, c.mean-c.off) + 4*min(x, c.mean) + min(x, c.mean+c.off)) / 6
}

// beside is the time for which a request holds blocks and does not decode, times their share of the cache: the step of its prompt, and where scheduling
// is asynchronous the step that was formed before its last one ended.
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
