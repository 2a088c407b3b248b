package serving

import "slices"

// A thread is the API server while only decode steps run: their outputs come every so often, and a pass of its loop takes as long as the
// tokens that it takes apart and sends. It is frontend with n sequences that are all alike.
type thread struct {
	half    float64 // of a token's time
	n       float64
	outputs []threadOutput
	unsent  bool // all sequences have tokens that are not sent
}

type threadOutput struct {
	gain   float64
	passes int
}

// enters is how long a request takes through all stages that comes at a time after the end of a step of prompts, with whose outputs those of the step
// before come, for these were held while it was launched.
func (t thread) enters(at, step, intake float64) float64 {
	t.outputs = []threadOutput{{2 * t.n, handed}}
	now, next, left := 0.0, step, -1
	for left != 0 {
		for next <= now {
			t.outputs = append(t.outputs, threadOutput{t.n, handed})
			next += step
		}
		if left < 0 && at <= now {
			left = stages
		}
		if left < 0 && len(t.outputs) == 0 && !t.unsent { // it waits for something to do
			now = min(at, next)
			continue
		}
		now += t.pass()
		if left > 0 {
			left--
			now += intake / stages
		}
	}
	return now - at
}

// pass is the time of a pass of the loop.
func (t *thread) pass() (time float64) {
	if t.unsent {
		time, t.unsent = t.n*t.half, false
	}
	kept := t.outputs[:0]
	for _, o := range t.outputs {
		if o.passes--; o.passes < 0 {
			time += o.gain * t.half
			t.unsent = true
			continue
		}
		kept = append(kept, o)
	}
	t.outputs = kept
	return time
}

// delay is how long requests take through the API server while n sequences decode, up to a limit; 0 for hardly any time.
func (f *flow) delay(p *piece, most float64) (mean float64) {
	if f.front.token == 0 || p.apart || p.table == nil || f.clients {
		return 0
	}
	d := float64(p.decode.Time)
	t := thread{half: float64(f.front.token) / 2, n: p.n}
	const probes = 3
	for i := range probes {
		mean += (t.enters((float64(i)+0.5)*d, d, float64(f.front.intake)) - float64(f.front.intake)) / probes
	}
	if mean < d/10 {
		return 0
	}
	return min(mean, most)
}

// wait adds a kind of steps to a chain whose requests are delayed: those that only decode before the first of them comes. In that time after a
// step of prompts no request comes to the engine; those that are on their way when the next step of prompts begins come while it runs, when
// the server has little to do.
func (x *chain) wait() {
	if x.delay == 0 {
		return
	}
	waits := x.steps[0]
	waits.share = 0 // no arrivals lead to it
	x.waits = len(x.steps)
	x.steps = append(slices.Clip(x.steps), waits)
}

// postpone lets no request come in the time after a step of prompts from when the first step is formed that only decodes until the next one is,
// nor in further steps.
func (x *chain) postpone(group int) {
	if x.waits == 0 {
		return
	}
	next := x.next[group]
	_, first := x.run(0, 0)
	switch g := &x.groups[group]; {
	case group == x.steps[x.waits].group:
		steps := max(x.delay-first, 0) / x.steps[0].time
		stay := steps / (1 + steps)
		for i := range next {
			next[i] *= 1 - stay
		}
		next[x.waits] += g.share * stay
	case !g.plain:
		waits := next[0] * min(x.delay/max(first, 1e-9), 1)
		next[0] -= waits
		next[x.waits] = waits
	}
}

// late is how much later than by the steps a request comes to the engine on average.
func (x *chain) late(all []arrived, windows float64) float64 {
	if x.waits == 0 {
		return 0
	}
	decode := 0.0
	for i := range all {
		if x.groups[i].plain {
			decode += all[i].window
		}
	}
	between := 1 / x.rate
	return decode / windows * x.delay * (between + x.delay/2) / (between + x.delay)
}
