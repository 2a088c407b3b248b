package serving

import (
	"context"
	"math"

	"llmprof/unit"
)

// closed is the steady state of one replica with so many clients. A request meets those of
// the others alone; a client sends its next one when a step ends and the next one was
// formed already, so that it waits for all of that.
func (f *flow) closed(clients float64) *Steady {
	st := &Steady{Utilization: 1}
	others := clients - 1
	rate, first, decode := 0.0, 0.0, 1.0
	way := float64(f.server.Predictor.RequestTime())
	var energy float64
	for range 500 {
		share := decode / (first + decode) // of its time that a request decodes
		beside := min(others*share, float64(f.most))
		p, mine := f.near(beside), f.near(min(1+beside, float64(f.most)))
		theirs := rate * others / clients
		steps := mine.cycle(theirs)
		c, e := steps.mean, steps.energy
		if math.IsInf(c, 1) { // on the way to a lower rate
			rate /= 2
			continue
		}
		// The steps that only decode, or have others' prompts, take the time that is left beside its own.
		met := 1 - math.Pow(1-share, others)
		decoding := 1 - math.Pow(1-share, clients) - rate/clients*met*float64(p.extra[0].Time)
		energy = max(decoding, 0)*e/c + rate/clients*float64(p.extra[0].Energy)
		own := way + float64(p.decode.Time)
		if p.apart {
			own = way
		}
		sent := f.out(&p, beside)
		own += sent
		own += met * f.rest(way+sent, &mine, c, theirs*c)
		own += p.joined(theirs * c)
		waits := max(clients-float64(f.most)-rate*own, 0)
		cycle := f.steps*c + own
		next := (clients - waits) / cycle
		if own += waits / next; math.Abs(next-rate) < 1e-7*rate && math.Abs(own-first) < 1e-7*own {
			break
		}
		rate, first, decode = (rate+next)/2, (first+own)/2, f.steps*c
	}
	st.Rate, st.Running = rate, rate*decode
	st.TTFT, st.E2E = unit.Seconds(first), unit.Seconds(first+decode)
	st.TPOT = unit.Seconds(decode / max(f.gen-1, 1))
	st.Energy = unit.Joules(energy / rate)
	st.Waiting = clients - st.Running
	return st
}

// rest is what is left of the steps that a request of a closed loop waits for, which comes so long after the
// step that brought the last answer: the one that runs then, and with asynchronous scheduling the next
// one, which was formed before. A step is a decode step unless prompts came, m on average.
func (f *flow) rest(way float64, p *piece, c, m float64) float64 {
	short, none := float64(p.decode.Time), math.Exp(-m)
	long := c
	if none < 1 {
		long = short + (c-short)/(1-none)
	}
	next := c
	if p.apart { // the prompts of a cycle are a step of their own
		long, next = long-short, c/(2-none)
	}
	after := 0.0
	if f.server.Scheduler.Async && way > 0 {
		after = next
	}
	var left func(way float64, depth int) float64
	left = func(way float64, depth int) float64 {
		sum := 0.0
		for _, step := range [2]struct{ time, chance float64 }{{short, none}, {long, 1 - none}} {
			switch {
			case step.time > way:
				sum += step.chance * (step.time - way + after)
			case depth > 8: // a way of many steps ends anywhere in one
				sum += step.chance * (next/2 + after)
			default:
				sum += step.chance * left(way-step.time, depth+1)
			}
		}
		return sum
	}
	return left(way, 0)
}

// near is the piece of a number of sequences that need not be whole.
func (f *flow) near(n float64) piece {
	low := math.Floor(n)
	a := f.at(int(low))
	if low == n {
		return a
	}
	return a.toward(f.at(min(int(low)+1, f.most)), n-low)
}

// waves is a closed loop whose answers have one length: clients that began together end
// together, so that there is no steady state but waves of prompts. A few of them are simulated.
func (s *Server) waves(clients int, prompt, gen Lengths) (*Steady, error) {
	const warmup, waves, least = 4, 40, 200
	l := Load{Arrival: Arrival{Kind: "closed", Concurrency: clients}, Prompt: prompt, Gen: gen, Requests: max(clients*(warmup+waves), least)}
	source, err := l.Source()
	if err != nil {
		return nil, err
	}
	r, err := Simulate(context.Background(), s, source, Options{Warmup: clients * warmup})
	if err != nil {
		return nil, err
	}
	n := float64(s.Replicas)
	return &Steady{
		Running: r.MeanRunning / n, Waiting: max(float64(clients)-r.MeanRunning, 0) / n, Rate: r.Rate() / n,
		TTFT: unit.Seconds(r.TTFT.Mean()), TPOT: unit.Seconds(r.TPOT.Mean()), E2E: unit.Seconds(r.E2E.Mean()),
		Utilization: r.Busy, Energy: r.Energy.Times(1 / float64(r.Completed)),
	}, nil
}
