package serving

import (
	"math"

	"llmprof/analytic"
	"llmprof/unit"
)

// closed is the steady state of a closed queue of clients at one replica. The more requests are answered, the longer steps take, and the fewer requests
// clients send: the rate is the fixed point of both, or the largest rate if clients send more at that. By Little's law sequences decode in the rest of
// the time then.
func (f *flow) closed(clients, most float64) *Steady {
	f.clients = true
	if st := f.turns(clients, most); st != nil {
		return st
	}
	if st := f.crowd(clients, most); st != nil {
		return st
	}
	rate := most
	l, ok := f.closedLoop(clients, most, 0)
	if !ok || l.sent < most {
		rate, l = f.answered(clients, most)
	}
	decode := max(l.decode, clients/rate-l.first)
	st := &Steady{Utilization: 1, Rate: rate, Running: min(rate*decode, float64(f.most)), beside: l.beside}
	st.TTFT, st.E2E = unit.Seconds(l.first), unit.Seconds(l.first+decode)
	st.TPOT = unit.Seconds(decode / max(f.gen-1, 1))
	st.Energy = unit.Joules(l.power / rate)
	st.Waiting = clients - st.Running
	return st
}

// turns is the steady state of clients with brief answers; nil for others, for too many of them, where the KV cache does not hold all, and where the API
// server is busy for much of the time.
func (f *flow) turns(clients, most float64) *Steady {
	n := int(clients)
	if float64(n) != clients || n > mostClients || n > f.most && f.bound != "sequences" || !f.hurries(most) {
		return nil
	}
	st := f.inBriefOf(n)
	if f.front.load(st.Rate, f.gen) > 0.5 {
		return nil
	}
	return st
}

// mostClients is how many clients are followed at most: more take too long.
const mostClients = 1 << 10

// crowd is the steady state of so many clients that prompts use up the budget of every step: as many sequences decode as such steps have room for, and
// the other clients wait. It is nil for fewer clients.
func (f *flow) crowd(clients, most float64) *Steady {
	rate, decodes := f.packed()
	if rate > most {
		return nil
	}
	left := f.left(int(decodes), 0)
	if clients < decodes+left/f.fills.mean {
		return nil
	}
	step := f.pass(int(decodes), left, 0)
	st := &Steady{Utilization: 1, Rate: rate, Running: decodes, Waiting: clients - decodes, Energy: step.Energy.Times(f.fills.mean / left)}
	st.TTFT, st.E2E = unit.Seconds(st.Waiting/rate), unit.Seconds(clients/rate)
	st.TPOT = unit.Seconds(decodes / rate / max(f.gen-1, 1))
	st.beside = rate * f.beside(float64(step.Time), float64(step.Time))
	return st
}

// answered finds the rate, below a bound, at which clients send as many requests as are answered, by secants within a bisection.
func (f *flow) answered(clients, high float64) (rate float64, last closedLoop) {
	low, before, off := 0.0, 0.0, 0.0
	for rate = high / 2; high-low > 1e-5*high; {
		l, ok := f.closedLoop(clients, rate, last.share)
		more := l.sent - rate
		switch {
		case !ok:
			high = rate
		case more >= 0:
			low, high, last = rate, min(high, l.sent), l
		default:
			low, high, last = max(low, l.sent), rate, l
		}
		if ok && math.Abs(more) < 1e-5*rate {
			return rate, l
		}
		next := (low + high) / 2
		if line := rate - more*(rate-before)/(more-off); ok && before > 0 && line > low && line < high {
			next = line
		}
		if ok {
			before, off = rate, more
		}
		rate = next
	}
	last, _ = f.closedLoop(clients, low, last.share)
	return low, last
}

// A closedLoop is what clients see where requests are answered at a rate.
type closedLoop struct {
	sent   float64 // requests a second that they send then
	first  float64 // TTFT
	decode float64 // from the first token to the last
	power  float64
	beside float64 // share of the KV blocks of requests that do not decode
	share  float64 // share of its time that a request decodes
}

// closedLoop works out what clients see at a rate; false where prompts leave no time to decode. A request meets those of the other clients alone. A
// client sends its next request as a step ends, when the next step was formed already. The share of the time that a request decodes is a fixed point;
// its iteration begins at share.
func (f *flow) closedLoop(clients, rate, share float64) (l closedLoop, ok bool) {
	others := clients - 1
	theirs := rate * others / clients
	way := float64(f.server.Predictor.RequestTime())
	for range 200 {
		beside := min(others*share, float64(f.most))
		steps, rest := f.around(min(1+beside, float64(f.most)), theirs, way)
		if steps.infinite {
			return l, false
		}
		alone := f.alone(beside)
		// The steps that only decode, or have others' prompts, take the time that is left beside its own.
		met := 1 - math.Pow(1-share, others)
		decoding := 1 - math.Pow(1-share, clients) - rate/clients*met*float64(alone.Time)
		l.power = max(decoding, 0)*steps.energy/steps.decode + rate/clients*float64(alone.Energy)
		l.beside = rate * f.beside(met*steps.computes+(1-met)*float64(alone.Time), steps.mean)
		own := way + f.out(beside) + met*(rest+steps.own) + (1-met)*float64(alone.Time)
		waits := max(clients-float64(f.most)-rate*own, 0)
		l.decode = f.steps * steps.decode
		l.sent = (clients - waits) / (l.decode + own)
		l.first = own + waits/l.sent
		l.share = l.decode / (l.first + l.decode)
		if math.Abs(l.share-share) < 1e-6 {
			break
		}
		share = l.share
	}
	return l, true
}

// rest is the mean time for which a request of a closed loop waits for its step if it comes a way after the end of the step that brought the last
// answer: for the end of the step that runs then, and for the next one too if that was formed before.
func (y *cycle) rest(way float64) float64 {
	return y.left(way, 0)
}

// left is rest where depth steps ended before the request came.
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

// alone is the step of one prompt beside a mean number of sequences, without decodes where prompts have steps of their own.
func (f *flow) alone(n float64) Cost {
	low := math.Floor(n)
	a, b := f.piece(int(low)).with(1), f.piece(min(int(low)+1, f.most)).with(1)
	if low == 0 {
		a = rested(a, min(float64(f.server.Predictor.RequestTime()/analytic.Window), 1))
	}
	return toward(&a, &b, n-low)
}

// around is the cycle with a mean number of sequences, and the time for which a request waits for its step if it comes a way after the end of a step.
func (f *flow) around(n, rate, way float64) (y *cycle, rest float64) {
	low := math.Floor(n)
	a, b := f.cycle(f.piece(int(low)), rate), f.cycle(f.piece(min(int(low)+1, f.most)), rate)
	between := a.toward(b, n-low)
	y = &between
	// The API server takes all tokens of a step apart before it sends the first, and sends those of older sequences first.
	const places = 4
	for i := range places {
		late := way + f.out(n-1)*(0.5+min(f.older*(float64(i)+0.5)/places, 0.5))
		rest += (a.rest(late) + (n-low)*(b.rest(late)-a.rest(late))) / places
	}
	return y, rest
}
