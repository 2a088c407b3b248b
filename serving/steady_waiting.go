package serving

import (
	"math"
	"slices"
)

// queued is the mean number of requests that wait because no more sequences fit: the queue of as many servers. The wait is that of
// exponential service times for answers that vary as much, that of constant ones by Cosmetatos (1976) for answers of one length, and on
// the line between for others. While prompts are computed no sequence ends, so that those that come meanwhile are a batch.
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

// A fitting is how many sequences fit. Where they hold different numbers of blocks that varies as sequences come and go: it is about
// normal, which three points stand for.
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
