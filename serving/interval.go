package serving

import (
	"context"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"

	"llmprof/analytic"
)

// A percentile of a simulation is uncertain for three independent reasons: the constants of the kernels, the host, and the luck of the
// seed. Servers that are as fast and as slow as the constants leave possible, and then as the host leaves possible, answer the first of the
// same requests again: the ratio of a percentile to that of the simulation over the same requests is that end of its interval. Both have
// the same arrivals and lengths, so that few requests say much of it. The luck of the seed is in the batch means of the simulation itself.

// Percentiles are those of which a result has intervals.
var Percentiles = [...]float64{0.5, 0.9, 0.95, 0.99}

// Intervals are those of the percentiles of TTFT, TPOT, ITL and E2E.
type Intervals [4][len(Percentiles)]Interval

// An Interval is where a percentile lies with 90 % probability, by what makes it uncertain.
type Interval struct{ Constants, Host, Seed Ends }

// Ends are those of an interval, over what is expected.
type Ends struct{ Low, High float64 }

// Whole is the ends of the interval by all parts together: the logarithms of independent factors add up in quadrature.
func (x *Interval) Whole() Ends {
	var low, high float64
	for _, part := range [...]Ends{x.Constants, x.Host, x.Seed} {
		low, high = math.Hypot(low, math.Log(part.Low)), math.Hypot(high, math.Log(part.High))
	}
	return Ends{math.Exp(-low), math.Exp(high)}
}

// Interval is that of a percentile of "ttft", "tpot", "itl" or "e2e"; nil where there is none.
func (r *Result) Interval(of string, share float64) *Interval {
	i, j := slices.Index(Times[:], of), slices.Index(Percentiles[:], share)
	if r.Intervals == nil || i < 0 || j < 0 {
		return nil
	}
	return &r.Intervals[i][j]
}

// Times are the names of the distributions of times, all of which have intervals.
var Times = [len(Intervals{})]string{"ttft", "tpot", "itl", "e2e"}

// Sketches are these distributions.
func (f *Figures) Sketches() [len(Intervals{})]*Sketch {
	return [...]*Sketch{&f.TTFT, &f.TPOT, &f.ITL, &f.E2E}
}

// mostKept is how many requests are kept of an open loop, besides those of clients.
const mostKept = 1 << 13

// A kept is the first requests of a simulation.
type kept struct {
	requests []Request
	clients  int // clients of a closed loop; 0 in an open one
}

func (k *kept) add(q *Request) {
	if len(k.requests) < mostKept+k.clients {
		k.requests = append(k.requests, *q)
	}
}

// again is the requests that were kept.
func (k *kept) again() Source {
	if k.clients > 0 {
		return Again(k.requests, k.clients)
	}
	return Replay(k.requests)
}

// Each further run has a part of the requests of the simulation, and some hundred at least: together they take a quarter of its time.
const (
	partAgain  = 16
	leastAgain = 128
)

// intervals are those of the percentiles of a simulation that has ended.
func (c *cluster) intervals(ctx context.Context) (*Intervals, error) {
	t := c.result.batches
	from, to := t.first(c.arrivals.sent)
	base := sum(t.parts[from:to])
	if base.E2E.N == 0 {
		return nil, nil
	}
	constants, host, err := c.server.Predictor.TimeScales(c.typical())
	if err != nil {
		return nil, err
	}
	all := &Intervals{}
	for i, s := range c.result.Sketches() {
		for j, share := range Percentiles {
			all[i][j] = Interval{Ends{1, 1}, Ends{1, 1}, t.luck(i, s, share)}
		}
	}
	for _, x := range [...]struct {
		scales analytic.TimeScales
		of     func(*Interval) *Ends
	}{{constants, func(x *Interval) *Ends { return &x.Constants }}, {host, func(x *Interval) *Ends { return &x.Host }}} {
		for _, pace := range [...]analytic.TimeScale{x.scales.Fast, x.scales.Slow} {
			other, err := c.again(ctx, &pace, [2]int{t.warmup + from*t.size, t.warmup + to*t.size}, base.E2E.N)
			if err != nil {
				return nil, err
			}
			all.widen(&base, other, x.of)
		}
	}
	all.scatter()
	return all, nil
}

// first is the first parts that count, of which a server of another pace answers the requests again. Few enough requests come before them
// to be kept: where more belong to the transient, its last ones count.
func (t *batchMeans) first(sent int) (from, to int) {
	n := (min(max(sent/partAgain, leastAgain), mostKept/4) + t.size - 1) / t.size
	from = max(min(t.from, (mostKept/2-t.warmup)/t.size-n), 0)
	return from, min(from+n, t.to)
}

// typical is a workload of requests as those of the simulation, of which as many run at once.
func (c *cluster) typical() *analytic.Workload {
	r := c.result
	n, parts := float64(r.Counted()), c.server.Predictor.Par.MicroBatches
	each := max(int(math.Round(r.MeanRunning/r.replicas/float64(parts))), 1)
	return &analytic.Workload{Batch: each * parts,
		PromptLen: int(math.Ceil(float64(r.Prompt) / n)), GenLen: int(math.Ceil(float64(r.Generated) / n))}
}

// again is the figures of requests of the simulation on a server of another pace: of those from one to another, so many of which are
// answered.
func (c *cluster) again(ctx context.Context, scale *analytic.TimeScale, span [2]int, answered int) (*Figures, error) {
	counted := answered
	o := Options{Warmup: span[0], InEngine: c.options.InEngine, Seed: c.options.Seed, priced: c.options.priced, until: span[1], scale: scale}
	o.Each = func(q *Record) {
		if q.Index >= span[0] && q.Index < span[1] {
			counted--
		}
	}
	other := newCluster(c.server, c.kept.again(), &o)
	for counted > 0 && other.step() {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
	f := sum(other.result.batches.parts)
	return &f, nil
}

// beyond is how many values have to lie beyond a percentile for its ratio to say more than luck. That of a higher percentile is taken to be
// the ratio of the highest one that has as many.
const beyond = 8

// widen widens one part of the intervals so that it has the percentiles of other figures of the same requests.
func (x *Intervals) widen(base, other *Figures, of func(*Interval) *Ends) {
	before, after := base.Sketches(), other.Sketches()
	for i := range x {
		for j, share := range Percentiles {
			share = min(share, max(1-beyond/float64(before[i].N), 0.5))
			ratio, part := after[i].Quantile(share)/before[i].Quantile(share), of(&x[i][j])
			if ratio > 0 { // there are such times
				part.Low, part.High = min(part.Low, ratio), max(part.High, ratio)
			}
		}
	}
}

// scattered is how many times their median the percentiles of TTFT are on a host whose time scatters from request to request, which the
// simulated one does not: of 42 measured servers that answered one equal request at a time, 95 % had no more (validate/served).
var scattered = [len(Percentiles)]float64{1, 1.22, 1.29, 1.36}

// scatter widens the part of the host by that.
func (x *Intervals) scatter() {
	for j, by := range scattered {
		high := &x[0][j].Host.High
		*high = math.Exp(math.Hypot(math.Log(*high), math.Log(by)))
	}
}

// groups is of how many groups of requests the means are taken, at most.
const groups = 16

// luck is the interval that the seed gives a percentile of one of the distributions, by the method of batch means for quantiles
// (Heidelberger and Lewis, "Quantile estimation in dependent sequences", Operations Research 32, 1984). The share of the values below the
// percentile is a mean. The half-width of its 90 % interval follows from the means of groups of successive requests, which are nearly
// independent, and the values of the distribution at the share less and plus that are the ends.
func (t *batchMeans) luck(of int, all *Sketch, share float64) Ends {
	at := all.Quantile(share)
	var shares []float64
	for group := range slices.Chunk(t.parts[t.from:t.to], (t.to-t.from+groups-1)/groups) {
		below, n := 0, 0
		for _, part := range group {
			s := part.Sketches()[of]
			below, n = below+s.below(at), n+s.N
		}
		if n > 0 {
			shares = append(shares, float64(below)/float64(n))
		}
	}
	// The 95th percentile of Student's distribution is within 0.2 % of a parabola in one over the degrees of freedom.
	n := float64(len(shares))
	floats.AddConst(-mean(shares), shares)
	off := (1.645 + 1.52/(n-1) + 1.8/((n-1)*(n-1))) * math.Sqrt(floats.Dot(shares, shares)/(n*(n-1)))
	if n < 4 { // independent values
		off = 1.645 * math.Sqrt(share*(1-share)/float64(max(all.N, 1)))
	}
	low, high := all.Quantile(max(share-off, 0))/at, all.Quantile(min(share+off, 1))/at
	if !(low > 0 && high > 0) {
		return Ends{1, 1}
	}
	return Ends{min(low, 1), max(high, 1)}
}
