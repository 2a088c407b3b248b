package analytic

import "llmprof/unit"

// A sum adds up runs of steps. It keeps what it last priced of the operators
// that are proportional to tokens, which the steps of a decode have in common.
type sum struct {
	p      *Predictor
	budget int // steps it may still price before the rest of a run is taken as linear

	tokens, rows float64
	on           aboard
	common       tally
}

// maxSteps is how many steps a run may price one by one; only windows of a few
// tokens under answers of millions come near it.
const maxSteps = 20000

// step prices one step, all stages of the pipeline one after the other.
func (u *sum) step(s *Step) tally {
	on := u.p.machine.Engine.carries(s)
	if s.tokens() != u.tokens || s.Batch*s.Logits != u.rows || on != u.on {
		u.tokens, u.rows, u.on = s.tokens(), s.Batch*s.Logits, on
		u.common = u.p.common(u.tokens, u.rows, on)
	}
	t := u.common
	for i := range u.p.cores {
		u.p.core(&t, s, &u.p.cores[i], on)
	}
	f := &t.floor
	t.least = f.time()
	t.sig ^= f.which() << 60
	u.p.host(&t, s.New == 1 && s.Past > 0)
	return t
}

// run sums count steps like s, each Past further by stride than the one before.
// Every quantity of an Op is linear in Past between the contexts where a window
// fills or a bound changes; a run that agrees at both ends is the mean of the
// two, any other is halved.
func (u *sum) run(s Step, stride, count float64) (all tally) {
	first := u.step(&s)
	if count == 1 {
		return first
	}
	end := s
	end.Past += stride * (count - 1)
	last := u.step(&end)
	u.between(&all, s, stride, count, &first, &last)
	return all
}

func (u *sum) between(all *tally, s Step, stride, count float64, first, last *tally) {
	if count <= 2 || first.sig == last.sig || u.budget <= 0 {
		all.add(first, count/2)
		all.add(last, count/2)
		return
	}
	u.budget -= 2
	half := float64(int64(count / 2))
	left, right := s, s
	left.Past += stride * (half - 1)
	right.Past += stride * half
	leftEnd, rightBegin := u.step(&left), u.step(&right)
	u.between(all, s, stride, half, first, &leftEnd)
	u.between(all, right, stride, count-half, &rightBegin, last)
}

// host adds the host's time: what it does in every step, and launches that take
// it longer than the GPU takes for the kernels, unless a graph has them all. Where the host
// is ahead of the GPU, a kernel begins later all the same than one of a graph does.
func (p *Predictor) host(t *tally, decode bool) {
	e := &p.machine.Engine
	if launch := e.Launch.Times(t.launches); launch > t.expected && (!e.Graph || !decode) {
		t.bound = [numBounds]unit.Seconds{ByLaunch: launch}
		t.sig ^= 1 << 59
		p.hide(t, launch-t.expected)
		t.expected = launch
	}
	apart := unit.Seconds(0)
	if e.Stream && !decode {
		apart = p.machine.Cal.Stream.Times(t.kernels)
	}
	t.expected += e.Host + apart
	t.bound[ByLaunch] += e.Host + apart
}

// hide takes from what slower arithmetic would cost what launches take longer than
// the GPU: so much of it does not show.
func (p *Predictor) hide(t *tally, wait unit.Seconds) {
	if wait >= t.slower {
		t.slower, t.steep = 0, 0
		t.sig ^= 1 << 58
		return
	}
	t.steep = t.steep.Times(1 - float64(wait)/float64(t.slower))
	t.slower -= wait
}
