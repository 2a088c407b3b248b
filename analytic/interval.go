package analytic

import (
	"math"

	"llmprof/analytic/operator"
	"llmprof/hardware"
	"llmprof/roofline"
	"llmprof/unit"
)

// A Span is a time with its floor, and the interval that it lies in with 90 % probability.
type Span struct {
	Floor    unit.Seconds `json:"floor" jsonschema:"exclusiveMinimum=0"` // nothing beats it
	Expected unit.Seconds `json:"expected" jsonschema:"exclusiveMinimum=0"`
	Low      unit.Seconds `json:"low" jsonschema:"exclusiveMinimum=0"`
	High     unit.Seconds `json:"high" jsonschema:"exclusiveMinimum=0"`
}

// A evidence says what the interval of an estimate rests on.
type evidence struct {
	fitted      bool               // there is a calibration
	serves      bool               // the calibration timed the kernels of the engine and its host
	otherEngine bool               // the calibration timed the kernels of another engine, rather than a library's
	host        bool               // the calibration timed the launches of this host
	slow        []hardware.SlowEnd // uncertain constants
}

// rest makes the intervals of a machine rest on a calibration. What the file leaves at its default moves by the error of the board, which
// counts once.
func (m *Machine) rest(f *hardware.CalibrationFile) {
	e, b := m.Engine.Profile().Engine(), &m.evidence
	b.fitted, b.serves = true, f.Serves(e) && f.Tables == nil // tables of operators contain nothing of the host
	b.otherEngine = f.Engine != "" && !f.Serves(e)
	b.host = b.serves && f.Values[roofline.HostLaunch.String()].Value > 0
	b.slow = f.SlowEnds(m.GPU, e, &m.Cal.Constants)
	for _, end := range b.slow {
		m.Cal.Fitted[end[0].Constant] = true
	}
}

// spread is the relative change of a phase's time where each uncertain constant moves to the slow end of its 90 % interval, all
// changes added in quadrature, as independent errors are.
func (b *evidence) spread(t *total) (off float64) {
	for _, end := range b.slow {
		var more unit.Seconds
		for _, x := range end {
			more += t.slopes.By[x.Constant].Times(x.By)
		}
		off = math.Hypot(off, float64(more/t.Expected))
	}
	return off
}

// halfWidth is the half-width of the interval of a kernel's time in seconds, which is the residual that
// its law has on shapes that the fit did not see. The residual of GEMMs in 16 bits comes from
// GEMMs of 20 µs and more; their fixed time has a separate residual. That of decode attention may be off besides.
func (m *Machine) halfWidth(k *Kernel, c *roofline.Cost) float64 {
	by := c.Leads
	for by != roofline.None && m.Cal.Residuals[by] == 0 {
		by = by.Info().Base
	}
	time, start := float64(c.Time), 0.0
	switch fixed := float64(c.Times[roofline.Fixed]); {
	case by == roofline.GEMMMemory || by == roofline.GEMMCompute:
		start = m.Cal.Residuals[roofline.GEMMFixed] * fixed
		time -= fixed
	case k.Class == roofline.AttentionDecode:
		start = m.Cal.Residuals[roofline.AttentionFixed] * fixed
	}
	if start == 0 {
		return time * m.Cal.Residuals[by]
	}
	return math.Hypot(time*m.Cal.Residuals[by], start)
}

// A kernelError is the half-widths of the times of kernels of equal work, which add up.
type kernelError struct {
	class  roofline.Class
	scheme roofline.Scheme
	shape  roofline.Shape
	work   roofline.Work
	off    float64
}

// sharedError is the half-widths of the kernels of the step before k whose work is equal to that of k, as that of both
// all-reduces of a layer is. Their errors are equal too, and so add up before they are squared.
func (w *walk) sharedError(k *roofline.Kernel, off float64) (before float64) {
	for i := range w.errors {
		if e := &w.errors[i]; e.class == k.Class && e.scheme == k.Scheme && e.shape == k.Shape && e.work == k.Work {
			before, e.off = e.off, e.off+off
			return before
		}
	}
	w.errors = append(w.errors, kernelError{k.Class, k.Scheme, k.Shape, k.Work, off})
	return 0
}

// less is the time that a kernel takes less at the fast end of the interval. Kernels of shared experts take no time there where they
// overlap with the routed experts. Some releases of an engine overlap them and others do not (docs/validation.md).
func (w *walk) less(k *Kernel, c *roofline.Cost) unit.Seconds {
	if k.Overlapped {
		return c.Time
	}
	return w.ofText(k, c)
}

// ofText is the time that a kernel of experts takes less if its tokens choose them as those of a text do, which
// are sent to fewer distinct ones. It is 0 where the popularity of the experts is given.
func (w *walk) ofText(k *Kernel, c *roofline.Cost) unit.Seconds {
	s := &k.Shape
	if s.Hit == 0 || !w.Step.Uniform() {
		return 0
	}
	text, share := &w.text, operator.DistinctInText(s.Experts, s.TopK, s.Tokens)
	*text = k.Kernel
	text.Work.Weights = text.Work.Weights.Times(share)
	text.Shape.Hit *= share
	w.p.machine.prices.Price(&w.textCost, text)
	return max(c.Time-w.textCost.Time, 0)
}

// hostError widens the error off of the kernels by the
// scatter of the host's time between machines and runs. Kernels and host run side by side, so a phase takes at
// each end as long as the slower of the two there. One regime goes over into the other without a step.
func (p *Predictor) hostError(t *total, off ends) ends {
	all := float64(t.Expected)
	fast := t.evenly(off.low)
	x, slow := p.hostEnds()
	if x == 0 {
		return ends{fast, off.high}
	}
	kernels, host, exposed := float64(t.kernels+t.throttled), float64(t.host), float64(t.exposed)
	rest := exposed + float64(p.machine.seconds(roofline.StreamNode).Times(t.launches))
	// Times of the phase by either of the two: each step waits for the slower.
	byKernels, byHost := min(kernels+rest, all), min(host+rest, all)
	// The host may be 1+x times faster, as it may be 1+x times slower.
	least := max(byKernels-math.Hypot(fast*byKernels, exposed*x/(1+x)), byHost/(1+x))
	more := math.Hypot(max(byKernels*(1+off.high)-all, 0), max(byHost+(byHost-exposed)*slow-all, 0)+exposed*slow)
	return ends{low: max(1-least/all, 0), high: more / all}
}

// evenly widens the fast end of the kernels' interval: experts are chosen evenly for the expected time, which is the slow end of how a
// router chooses.
func (t *timing) evenly(low float64) float64 { return math.Hypot(low, t.share(t.imbalance)) }

// hostEnds is by how much faster, as a divisor less 1, and slower the host may be than expected. It is 0 where a calibration timed this
// host, whose error is within that of the constants.
func (p *Predictor) hostEnds() (fast, slow float64) {
	e := p.machine.Engine.Profile()
	switch x := e.HostError; {
	case p.machine.evidence.host || x == 0:
		return 0, 0
	case p.Par.TP > 1:
		return x, (1+x)*(1+e.RanksError) - 1
	default:
		return x, x
	}
}

// A TimeScale is how long parts of a server's time are, as shares of what is expected.
type TimeScale struct {
	Prompts, Decodes float64 // kernels of steps with prompts, and of others
	Host             float64
}

// TimeScales are those at both ends of a 90 % interval.
type TimeScales struct{ Fast, Slow TimeScale }

// TimeScales are where the constants of the kernels, and the host, leave a server of requests like those of a workload.
func (p *Predictor) TimeScales(w *Workload) (constants, host TimeScales, err error) {
	_, prefill, decode, err := p.predict(w, estimate, false)
	constants = TimeScales{TimeScale{1, 1, 1}, TimeScale{1, 1, 1}}
	host = constants
	constants.Fast.Prompts, constants.Slow.Prompts = p.timeScale(&prefill, p.machine.Cal.PrefillError)
	if constants.Fast.Decodes, constants.Slow.Decodes = constants.Fast.Prompts, constants.Slow.Prompts; w.GenLen > 1 {
		constants.Fast.Decodes, constants.Slow.Decodes = p.timeScale(&decode, p.machine.Cal.DecodeError)
	}
	fast, slow := p.hostEnds()
	host.Fast.Host, host.Slow.Host = 1/(1+fast), 1+slow
	return constants, host, err
}

// timeScale is the kernels' time of a phase at both ends of its interval, as a share of what is expected. No phase is
// faster than its floor.
func (p *Predictor) timeScale(t *total, generation float64) (fast, slow float64) {
	off := p.within(t, generation)
	span := p.span(t.least, t.Expected, ends{t.evenly(off.low), off.high})
	return float64(span.Low / span.Expected), float64(span.High / span.Expected)
}

// span is the expected time with its interval, no part of which lies below the floor.
func (p *Predictor) span(floor, expected unit.Seconds, off ends) Span {
	e := p.machine.Engine.Profile()
	release := e.ReleaseError
	if g := p.machine.GPU; g.Generation != "" && g.Generation == e.Traced {
		release = 0
	}
	low, high := math.Hypot(off.low, release), math.Hypot(off.high, release)+e.Older
	return Span{
		Floor: floor, Expected: max(expected, floor),
		Low: max(expected.Times(1-low), floor), High: max(expected.Times(1+high), floor),
	}
}
