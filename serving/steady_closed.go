package serving

import (
	"math"

	"llmprof/unit"
)

// closed is the steady state of one replica with so many clients. A request meets those of
// the others alone; a client sends its next one when a step ends and the next one was
// formed already, so that it waits for all of that. No more is answered than at the largest rate: what is left
// of the time then, sequences decode for longer.
func (f *flow) closed(clients, most float64) *Steady {
	st := &Steady{Utilization: 1}
	f.clients = true
	others := clients - 1
	rate, first, decode := 0.0, 0.0, 1.0
	below, ceiling := 0.0, math.Inf(1) // a rate that is stable, and one that is not
	way := float64(f.server.Predictor.RequestTime())
	var power float64
	for range 500 {
		share := decode / (first + decode) // of its time that a request decodes
		beside := min(others*share, float64(f.most))
		theirs := rate * others / clients
		sent := f.out(beside)
		steps, rest := f.around(min(1+beside, float64(f.most)), theirs, way)
		if steps.infinite { // on the way to a lower rate
			ceiling = rate
			below = min(below, 0.99*rate)
			rate = (below + rate) / 2
			continue
		}
		below = rate
		alone := f.alone(beside)
		// The steps that only decode, or have others' prompts, take the time that is left beside its own.
		met := 1 - math.Pow(1-share, others)
		decoding := 1 - math.Pow(1-share, clients) - rate/clients*met*float64(alone.Time)
		power = max(decoding, 0)*steps.energy/steps.decode + rate/clients*float64(alone.Energy)
		st.beside = rate * f.beside(met*steps.own+(1-met)*float64(alone.Time), steps.mean)
		own := way + sent + met*(rest+steps.own) + (1-met)*float64(alone.Time)
		waits := max(clients-float64(f.most)-rate*own, 0)
		cycle := f.steps*steps.decode + own
		next := (clients - waits) / cycle
		if own += waits / next; math.Abs(next-rate) < 1e-7*rate && math.Abs(own-first) < 1e-7*own {
			break
		}
		rate, first, decode = (rate+min(next, ceiling))/2, (first+own)/2, f.steps*steps.decode
		ceiling *= 1.001 // that of a number of sequences that decode, which has changed
	}
	if rate > most {
		rate, decode = most, max(clients/most-first, decode)
	}
	st.Rate, st.Running = rate, min(rate*decode, float64(f.most))
	st.TTFT, st.E2E = unit.Seconds(first), unit.Seconds(first+decode)
	st.TPOT = unit.Seconds(decode / max(f.gen-1, 1))
	st.Energy = unit.Joules(power / rate)
	st.Waiting = clients - st.Running
	return st
}

// rest is how long a request of a closed loop waits for its step, which comes so long after the step that
// brought the last answer: for the end of the step that runs then, and for the next one too if that was
// formed before.
func (y *cycle) rest(way float64) float64 {
	return y.left(way, 0)
}

// left is rest after some steps that ended before the request came.
func (y *cycle) left(way float64, depth int) (sum float64) {
	for i := range y.kinds {
		k := &y.kinds[i]
		if k.share < 1e-6 {
			continue
		}
		switch {
		case way <= k.late && k.late > 0:
			sum += k.share * (k.length - way)
		case way < k.length:
			sum += k.share * (k.length - way + y.mean)
		case depth > 2: // a way of many steps ends anywhere in one
			sum += k.share * y.mean
		default:
			sum += k.share * y.left(way-k.length, depth+1)
		}
	}
	return sum
}

// alone is the step of a prompt beside a number of sequences that need not be whole, less the decodes where
// prompts have steps of their own.
func (f *flow) alone(n float64) Cost {
	low := math.Floor(n)
	a, b := f.piece(int(low)).with(1), f.piece(min(int(low)+1, f.most)).with(1)
	if low == 0 {
		a = rested(a, 1)
	}
	return toward(&a, &b, n-low)
}

// around is the cycle with a number of sequences that need not be whole, and how long a request waits for its
// step that comes so long after one.
func (f *flow) around(n, rate, way float64) (y *cycle, rest float64) {
	low := math.Floor(n)
	a, b := f.cycle(f.piece(int(low)), rate), f.cycle(f.piece(min(int(low)+1, f.most)), rate)
	y = a.toward(b, n-low)
	// All tokens of a step are taken apart before the first of them is sent, that of the oldest sequence. The last
	// token of an answer goes after those of sequences that are older still.
	const places = 4
	for i := range places {
		late := way + f.out(n-1)*(0.5+min(f.older*(float64(i)+0.5)/places, 0.5))
		rest += (a.rest(late) + (n-low)*(b.rest(late)-a.rest(late))) / places
	}
	return y, rest
}
