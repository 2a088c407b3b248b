package measure

import "llmprof/measure/worker"

// A pass is one repetition of a phase.
type pass struct{ worker.Pass }

func (p *pass) seconds() float64 { return nanoseconds(p.EndNS - p.BeginNS) }

func nanoseconds(ns int64) float64 { return float64(ns) / 1e9 }

// decodes are its steps after the prefill, if it has one.
func (p *pass) decodes() []worker.Step {
	if len(p.Steps) > 0 && p.Steps[0].Index == 0 {
		return p.Steps[1:]
	}
	return p.Steps
}

// ttft is the time to the first token; nil of a pass without a prefill.
func (p *pass) ttft() *float64 {
	if len(p.Steps) == 0 || p.Steps[0].Index != 0 {
		return nil
	}
	return new(nanoseconds(p.Steps[0].EndNS - p.BeginNS))
}

// tpot is the mean time of a further token: from the first token (or the start,
// where the prompt was in the cache already) to the last, by their number. It is nil
// of a pass without one.
func (p *pass) tpot() *float64 {
	d := p.decodes()
	if len(d) == 0 {
		return nil
	}
	from := p.BeginNS
	if len(d) < len(p.Steps) {
		from = p.Steps[0].EndNS
	}
	return new(nanoseconds(d[len(d)-1].EndNS-from) / float64(len(d)))
}

// ttlt is the time to its last token; nil of a pass without a step.
func (p *pass) ttlt() *float64 {
	if len(p.Steps) == 0 {
		return nil
	}
	return new(p.seconds())
}

// deviceStep is the mean time of a decode step by the device's own events, nil
// as device is.
func (p *pass) deviceStep() *float64 {
	sum := p.device()
	if sum != nil {
		*sum /= float64(len(p.Steps))
	}
	return sum
}

// device is the time of all its steps by the device's own events; nil if there
// is no step, or if one has no such time.
func (p *pass) device() *float64 {
	if len(p.Steps) == 0 {
		return nil
	}
	var sum float64
	for i := range p.Steps {
		if p.Steps[i].DeviceS == nil {
			return nil
		}
		sum += *p.Steps[i].DeviceS
	}
	return &sum
}

// within says how many passes, and how many decode steps of them, lie between
// two times. One that straddles an edge counts by its share of time.
func within(passes []pass, from, to int64) (n, steps float64) {
	for i := range passes {
		p := &passes[i]
		n += share(p.BeginNS, p.EndNS, from, to)
		for _, s := range p.decodes() {
			steps += share(s.StartNS, s.EndNS, from, to)
		}
	}
	return n, steps
}

// share is the part of [start, end] that lies in [from, to].
func share(start, end, from, to int64) float64 {
	overlap := min(end, to) - max(start, from)
	switch {
	case overlap <= 0:
		return 0
	case end == start:
		return 1
	}
	return float64(overlap) / float64(end-start)
}
