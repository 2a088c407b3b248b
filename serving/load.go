package serving

import (
	"fmt"
	"math"
	"math/rand/v2"

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

// What a load may be. No server has so few requests, of which each takes the energy of all the time until the next, nor so
// many.
const (
	LeastRate   = 1e-9 // requests a second
	MostRate    = 1e6
	MostClients = 1 << 20
)

// CheckRate refuses requests a second that no server has.
func CheckRate(rate float64) error {
	if rate >= LeastRate && rate <= MostRate {
		return nil
	}
	return fmt.Errorf("%g requests a second: want from 1e-9 to 1e6", rate)
}

// CheckClients refuses numbers of clients that no server has.
func CheckClients(n int) error {
	if n >= 1 && n <= MostClients {
		return nil
	}
	return fmt.Errorf("%d clients: want from 1 to %d", n, MostClients)
}

// An Arrival says how requests arrive.
type Arrival struct {
	Kind        string  // "poisson", "gamma", "constant", "ramp" or "closed"
	Rate        float64 // requests a second; of a ramp, at its end
	From        float64 // rate at the beginning of a ramp
	Burstiness  float64 // shape of gamma arrivals: 1 for Poisson, less for bursts
	Concurrency int     // clients of a closed loop, each with one request at a time
}

// A Load is requests that a distribution draws.
type Load struct {
	Arrival     Arrival
	Prompt, Gen Lengths
	Requests    int
	Seed        uint64
	Stratified  bool // Each of as many equally likely parts of a distribution as there are requests has one length, in random order.
}

// HasSteadyState reports whether a server may reach a steady state: requests come at a rate that stays.
func (l *Load) HasSteadyState() bool { return l.Arrival.Kind != "closed" && l.Arrival.Kind != "ramp" }

func (l *Load) check() error {
	a := &l.Arrival
	switch a.Kind {
	case "closed":
		if err := CheckClients(a.Concurrency); err != nil {
			return err
		}
	case "ramp":
		if err := CheckRate(a.From); err != nil {
			return fmt.Errorf("a ramp from %w", err)
		}
	case "gamma":
		if !(a.Burstiness > 0 && a.Burstiness <= 1000) {
			return fmt.Errorf("a burstiness of %g: want above 0 and at most 1000; 1 is Poisson, less comes in bursts", a.Burstiness)
		}
	case "poisson", "constant":
	default:
		return fmt.Errorf("arrivals are %q: want poisson, gamma, constant, ramp or closed", a.Kind)
	}
	if a.Kind != "closed" {
		if err := CheckRate(a.Rate); err != nil {
			return err
		}
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
	d := &sampled{load: *l, random: rand.New(rand.NewPCG(l.Seed, 0x6c6c6d70726f66))}
	if l.Stratified {
		d.prompts, d.outputs = d.random.Perm(l.Requests), d.random.Perm(l.Requests)
	}
	if l.Arrival.Kind == "closed" {
		return newClients(min(l.Arrival.Concurrency, l.Requests), d.request), nil
	}
	return open(d.next), nil
}

// open is a source whose requests come at their times, whatever becomes of others.
type open func() (Request, bool)

// Next is the next request.
func (next open) Next() (Request, bool) { return next() }

// Finished is nothing to it.
func (open) Finished(unit.Seconds) {}

// Err is nil: it does not end early.
func (open) Err() error { return nil }

// A sampled source draws its requests from distributions.
type sampled struct {
	load   Load
	random *rand.Rand
	sent   int
	at     float64

	prompts, outputs []int // the parts of the distributions that lengths are drawn from; nil where they are not stratified
}

// next draws the next request of an open loop.
func (d *sampled) next() (Request, bool) {
	if d.sent > 0 && d.sent < d.load.Requests {
		d.at += d.gap()
	}
	return d.request(unit.Seconds(d.at))
}

// request draws the next request, if there is one, which comes at a time.
func (d *sampled) request(at unit.Seconds) (Request, bool) {
	if d.sent >= d.load.Requests {
		return Request{}, false
	}
	d.sent++
	return Request{At: at, Prompt: d.length(&d.load.Prompt, d.prompts), Gen: d.length(&d.load.Gen, d.outputs)}, true
}

// length draws the length of the request that was sent last, from its part of the distribution where there are parts.
func (d *sampled) length(l *Lengths, parts []int) int {
	if parts == nil {
		return l.draw(d.random)
	}
	return min(l.part(parts[d.sent-1], len(parts), d.random.Float64()), maxLength)
}

// gap draws the time to the next arrival.
func (d *sampled) gap() float64 {
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

// clients are a closed loop: each sends its next request when it has an answer.
type clients struct {
	request func(at unit.Seconds) (Request, bool)
	ready   agenda[struct{}]
}

func newClients(n int, request func(at unit.Seconds) (Request, bool)) *clients {
	return &clients{request: request, ready: make(agenda[struct{}], n)}
}

// Next is the request of the client that has been ready for longest.
func (c *clients) Next() (Request, bool) {
	if len(c.ready) == 0 {
		return Request{}, false
	}
	return c.request(c.ready.next().at)
}

// Finished makes a client ready.
func (c *clients) Finished(at unit.Seconds) { c.ready.add(at, struct{}{}) }

// Err is nil: it does not end early.
func (*clients) Err() error { return nil }

// Replay is given requests at their times, which do not fall.
func Replay(requests []Request) Source {
	return open(func() (q Request, ok bool) {
		if len(requests) > 0 {
			q, requests, ok = requests[0], requests[1:], true
		}
		return q, ok
	})
}

// Again is a closed loop of clients that send given requests in their order, each when one of them has
// an answer. The times of the requests play no part.
func Again(requests []Request, n int) Source {
	given := Replay(requests)
	return newClients(min(n, len(requests)), func(at unit.Seconds) (Request, bool) {
		q, ok := given.Next()
		q.At = at
		return q, ok
	})
}

// A Request is what a client asks of a server.
type Request struct {
	At     unit.Seconds // time of its arrival
	Prompt int          // tokens
	Gen    int          // tokens generated, the first included

	// Hashes name the blocks of the prompt of HashTokens tokens each: requests whose first
	// hashes are equal share that prefix.
	Hashes     []uint64
	HashTokens int
}

// A Record is what became of a request.
type Record struct {
	Index       int
	Request     Request
	First, Last unit.Seconds // when the client had the first token, and the last
	Cached      int          // tokens of the prompt found in a prefix cache
	Preempted   int          // times
	Replica     int
}

// TTFT is the time to the first token.
func (r *Record) TTFT() unit.Seconds { return r.First - r.Request.At }

// E2E is the time to the last token.
func (r *Record) E2E() unit.Seconds { return r.Last - r.Request.At }

// TPOT is the time per token after the first; false if there is only one.
func (r *Record) TPOT() (unit.Seconds, bool) {
	if r.Request.Gen < 2 {
		return 0, false
	}
	return (r.Last - r.First).Times(1 / float64(r.Request.Gen-1)), true
}

// maxLength bounds the tokens of a prompt or an answer.
const maxLength = 1 << 26

func (r *Request) check() error {
	switch {
	case r.Prompt < 1 || r.Prompt > maxLength:
		return fmt.Errorf("a prompt of %d tokens: want from 1 to %d", r.Prompt, maxLength)
	case r.Gen < 1 || r.Gen > maxLength:
		return fmt.Errorf("%d generated tokens: want from 1 to %d", r.Gen, maxLength)
	case !(r.At >= 0 && r.At < 1e12):
		return fmt.Errorf("an arrival at %g s: want from 0 to 1e12", float64(r.At))
	}
	return nil
}
