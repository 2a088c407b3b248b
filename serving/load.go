package serving

import (
	"container/heap"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"

	"llmprof/unit"
)

// A Source yields requests in the order of their arrival.
type Source interface {
	// Next returns the next request; false if none comes before another one finishes.
	Next() (Request, bool)
	// Finished tells that a request ended; a client of a closed loop sends its next one then.
	Finished(at unit.Seconds)
	// Err is why the source ended before its end, if it did.
	Err() error
}

// A Lengths draws the tokens of a prompt or of an answer.
type Lengths struct {
	Kind   string  // "fixed", "uniform" or "lognormal"
	Mean   float64 // of fixed and lognormal
	Low    float64 // of uniform
	High   float64 // of uniform
	Spread float64 // of lognormal: standard deviation over mean
}

// Fixed is always n tokens.
func Fixed(n int) Lengths { return Lengths{Kind: "fixed", Mean: float64(n)} }

// ParseLengths reads "1024", "512..2048" or "lognormal:1024,0.8".
func ParseLengths(text string) (l Lengths, err error) {
	text = strings.TrimSpace(text)
	wrong := fmt.Errorf("want tokens as 1024, a range as 512..2048, or a mean and its relative spread as lognormal:1024,0.8")
	number := func(s string) float64 {
		v, failed := strconv.ParseFloat(strings.TrimSpace(s), 64)
		if failed != nil || !(v > 0) {
			err = wrong
		}
		return v
	}
	low, high, isRange := strings.Cut(text, "..")
	rest, isLog := strings.CutPrefix(text, "lognormal:")
	switch {
	case isLog:
		mean, spread, ok := strings.Cut(rest, ",")
		if !ok {
			return l, wrong
		}
		l = Lengths{Kind: "lognormal", Mean: number(mean), Spread: number(spread)}
	case isRange:
		l = Lengths{Kind: "uniform", Low: number(low), High: number(high)}
	default:
		l = Lengths{Kind: "fixed", Mean: number(text)}
	}
	if err != nil {
		return l, err
	}
	return l, l.Check()
}

// MeanLength is the mean of the lengths.
func (l *Lengths) MeanLength() float64 { return l.mean() }

// draw draws a length.
func (l *Lengths) draw(r *rand.Rand) int {
	switch l.Kind {
	case "uniform":
		return int(l.Low) + r.IntN(int(l.High)-int(l.Low)+1)
	case "lognormal":
		s2 := math.Log1p(l.Spread * l.Spread)
		v := math.Exp(math.Log(l.Mean) - s2/2 + math.Sqrt(s2)*r.NormFloat64())
		return int(min(max(math.Round(v), 1), maxLength))
	}
	return int(l.Mean)
}

// moments are the mean of a length, and the mean of its square.
func (l *Lengths) moments() (mean, square float64) {
	switch l.Kind {
	case "uniform":
		n := l.High - l.Low + 1
		mean = (l.Low + l.High) / 2
		return mean, mean*mean + (n*n-1)/12
	case "lognormal":
		return l.Mean, l.Mean * l.Mean * (1 + l.Spread*l.Spread)
	}
	return l.Mean, l.Mean * l.Mean
}

// Check returns what is wrong with the lengths, if anything is.
func (l *Lengths) Check() error { return l.check("drawn") }

// String is the lengths as the command line gives them.
func (l *Lengths) String() string {
	switch l.Kind {
	case "uniform":
		return fmt.Sprintf("%g..%g", l.Low, l.High)
	case "lognormal":
		return fmt.Sprintf("lognormal:%g,%g", l.Mean, l.Spread)
	}
	return fmt.Sprintf("%g", l.Mean)
}

func (l *Lengths) check(what string) error {
	ok := l.Mean >= 1 && l.Mean <= maxLength
	switch l.Kind {
	case "fixed":
	case "uniform":
		ok = l.Low >= 1 && l.High >= l.Low && l.High <= maxLength
	case "lognormal":
		ok = ok && l.Spread > 0 && l.Spread <= 10
	default:
		return fmt.Errorf("the %s lengths are %q: want fixed, uniform or lognormal", what, l.Kind)
	}
	if !ok {
		return fmt.Errorf("the %s lengths are out of range: want tokens from 1 to %d, and a spread above 0 and at most 10", what, maxLength)
	}
	return nil
}

// An Arrival says how requests arrive.
type Arrival struct {
	Kind        string  // "poisson", "gamma", "constant", "ramp" or "closed"
	Rate        float64 // requests a second; of a ramp, at its end
	From        float64 // of a ramp, at its beginning
	Burstiness  float64 // of gamma: the shape, 1 for Poisson, less for bursts
	Concurrency int     // of a closed loop: clients, each with one request at a time
}

// A Load is requests that a distribution draws.
type Load struct {
	Arrival     Arrival
	Prompt, Gen Lengths
	Requests    int
	Seed        uint64
}

// Settles reports whether a server may reach a steady state: requests come at a rate that stays.
func (l *Load) Settles() bool { return l.Arrival.Kind != "closed" && l.Arrival.Kind != "ramp" }

func (l *Load) check() error {
	a := &l.Arrival
	switch a.Kind {
	case "closed":
		if a.Concurrency < 1 || a.Concurrency > 1<<20 {
			return fmt.Errorf("a concurrency of %d: want from 1 to %d", a.Concurrency, 1<<20)
		}
	case "ramp":
		if !(a.From > 0 && a.From <= 1e6) {
			return fmt.Errorf("a ramp from %g requests a second: want above 0 and at most 1e6", a.From)
		}
	case "gamma":
		if !(a.Burstiness > 0 && a.Burstiness <= 1000) {
			return fmt.Errorf("a burstiness of %g: want above 0 and at most 1000; 1 is Poisson, less comes in bursts", a.Burstiness)
		}
	case "poisson", "constant":
	default:
		return fmt.Errorf("arrivals are %q: want poisson, gamma, constant, ramp or closed", a.Kind)
	}
	if a.Kind != "closed" && !(a.Rate > 0 && a.Rate <= 1e6) {
		return fmt.Errorf("%g requests a second: want above 0 and at most 1e6", a.Rate)
	}
	if l.Requests < 1 {
		return fmt.Errorf("%d requests: want at least 1", l.Requests)
	}
	if err := l.Prompt.check("prompt"); err != nil {
		return err
	}
	return l.Gen.check("generated")
}

// Source draws the requests of the load.
func (l *Load) Source() (Source, error) {
	if err := l.check(); err != nil {
		return nil, err
	}
	d := drawn{load: *l, random: rand.New(rand.NewPCG(l.Seed, 0x6c6c6d70726f66))}
	if l.Arrival.Kind == "closed" {
		c := &closed{drawn: d}
		for range min(l.Arrival.Concurrency, l.Requests) {
			c.ready = append(c.ready, 0)
		}
		return c, nil
	}
	return &d, nil
}

// drawn is an open loop.
type drawn struct {
	load   Load
	random *rand.Rand
	sent   int
	at     float64
}

// Next draws the next request.
func (d *drawn) Next() (Request, bool) {
	if d.sent >= d.load.Requests {
		return Request{}, false
	}
	if d.sent > 0 {
		d.at += d.gap()
	}
	return d.request(unit.Seconds(d.at)), true
}

func (d *drawn) request(at unit.Seconds) Request {
	d.sent++
	return Request{At: at, Prompt: d.load.Prompt.draw(d.random), Gen: d.load.Gen.draw(d.random)}
}

// gap draws the time to the next arrival.
func (d *drawn) gap() float64 {
	a := &d.load.Arrival
	switch a.Kind {
	case "constant":
		return 1 / a.Rate
	case "gamma":
		return gamma(d.random, a.Burstiness) / (a.Burstiness * a.Rate)
	case "ramp": // Poisson at a rate that grows with the requests sent
		share := float64(d.sent) / float64(d.load.Requests)
		return d.random.ExpFloat64() / (a.From + (a.Rate-a.From)*share)
	}
	return d.random.ExpFloat64() / a.Rate
}

// Finished is nothing to an open loop.
func (d *drawn) Finished(unit.Seconds) {}

// Err is nil: a distribution does not end early.
func (d *drawn) Err() error { return nil }

// gamma draws from a gamma distribution of a shape and scale 1 (Marsaglia and Tsang, 2000).
func gamma(r *rand.Rand, shape float64) float64 {
	if shape < 1 {
		return gamma(r, shape+1) * math.Pow(r.Float64(), 1/shape)
	}
	d := shape - 1.0/3
	c := 1 / math.Sqrt(9*d)
	for {
		x := r.NormFloat64()
		v := 1 + c*x
		if v <= 0 {
			continue
		}
		v = v * v * v
		if u := r.Float64(); math.Log(u) < x*x/2+d-d*v+d*math.Log(v) {
			return d * v
		}
	}
}

// closed is a closed loop: a client sends its next request when it has an answer.
type closed struct {
	drawn
	ready times
}

// Next is the request of the client that has been ready for longest.
func (c *closed) Next() (Request, bool) {
	if len(c.ready) == 0 || c.sent >= c.load.Requests {
		return Request{}, false
	}
	return c.request(heap.Pop(&c.ready).(unit.Seconds)), true
}

// Finished makes a client ready.
func (c *closed) Finished(at unit.Seconds) { heap.Push(&c.ready, at) }

// Replay is given requests at their times, which do not fall.
func Replay(requests []Request) Source { return &replayed{requests} }

// replayed is what Replay gives.
type replayed struct{ left []Request }

// Next is the next request.
func (p *replayed) Next() (Request, bool) {
	if len(p.left) == 0 {
		return Request{}, false
	}
	q := p.left[0]
	p.left = p.left[1:]
	return q, true
}

// Finished is nothing to requests that come at their times.
func (p *replayed) Finished(unit.Seconds) {}

// Err is nil: the requests are there.
func (p *replayed) Err() error { return nil }

// Again is a closed loop of clients that send given requests in their order, each when one of them has
// an answer. The times of the requests play no part.
func Again(requests []Request, clients int) Source {
	a := &again{left: requests}
	for range min(clients, len(requests)) {
		a.ready = append(a.ready, 0)
	}
	return a
}

// again is what Again gives.
type again struct {
	left  []Request
	ready times
}

// Next is the next request, of the client that has been ready for longest.
func (a *again) Next() (Request, bool) {
	if len(a.ready) == 0 || len(a.left) == 0 {
		return Request{}, false
	}
	q := a.left[0]
	a.left = a.left[1:]
	q.At = heap.Pop(&a.ready).(unit.Seconds)
	return q, true
}

// Finished makes a client ready.
func (a *again) Finished(at unit.Seconds) { heap.Push(&a.ready, at) }

// Err is nil: the requests are there.
func (a *again) Err() error { return nil }

// times is a heap of times, the earliest first.
type times []unit.Seconds

// Len, Less, Swap, Push and Pop are those of a heap.
func (t times) Len() int           { return len(t) }
func (t times) Less(i, j int) bool { return t[i] < t[j] }
func (t times) Swap(i, j int)      { t[i], t[j] = t[j], t[i] }

// Push appends a time.
func (t *times) Push(x any) { *t = append(*t, x.(unit.Seconds)) }

// Pop takes the last time.
func (t *times) Pop() any {
	n := len(*t) - 1
	x := (*t)[n]
	*t = (*t)[:n]
	return x
}

// mean is the mean length.
func (l *Lengths) mean() float64 { m, _ := l.moments(); return m }

// inverse is the mean of the inverse of a length less one, times the mean length less one.
func (l *Lengths) inverse() float64 {
	sum, n := 0.0, 0.0
	for _, v := range l.quantiles() {
		if v > 1 {
			sum, n = sum+1/float64(v-1), n+1
		}
	}
	return max(sum/max(n, 1)*(l.mean()-1), 1)
}

// older is the share of the answers under way that are older than one that ends: those that are longer by more
// than they began before it.
func (l *Lengths) older() (share float64) {
	all := l.quantiles()
	for _, ends := range all {
		for _, other := range all {
			share += float64(max(other-ends, 0))
		}
	}
	return share / float64(len(all)*len(all)) / l.mean()
}

// quantiles are lengths in the middle of equal parts of the distribution, spread so that
// their mean and variance are those of the distribution.
func (l *Lengths) quantiles() []int {
	if l.Kind == "fixed" {
		return []int{int(l.Mean)}
	}
	var all [quantiles]float64
	s2 := math.Log1p(l.Spread * l.Spread)
	for i := range all {
		share := (float64(i) + 0.5) / quantiles
		v := l.Low + share*(l.High-l.Low)
		if l.Kind == "lognormal" {
			v = math.Exp(math.Log(l.Mean) - s2/2 + math.Sqrt(s2)*math.Sqrt2*math.Erfinv(2*share-1))
		}
		all[i] = v
	}
	return l.spread(all)
}

func (l *Lengths) spread(all [quantiles]float64) []int {
	mean, square := l.moments()
	var ownMean, ownSquare float64
	for _, v := range all {
		ownMean += v / quantiles
		ownSquare += v * v / quantiles
	}
	wider := math.Sqrt((square - mean*mean) / max(ownSquare-ownMean*ownMean, 1e-9))
	lengths := make([]int, quantiles)
	for i, v := range all {
		lengths[i] = max(int(math.Round(mean+(v-ownMean)*wider)), 1)
	}
	return lengths
}
