package analytic

import (
	"math"
	"sync"

	"llmprof/analytic/operator"
	"llmprof/roofline"
	"llmprof/unit"
)

// A Span is a time with its floor, and the interval that it lies in with 90 % probability.
type Span struct {
	Floor    unit.Seconds `json:"floor"`
	Expected unit.Seconds `json:"expected"`
	Low      unit.Seconds `json:"low"`
	High     unit.Seconds `json:"high"`
}

// A widths is the half-widths of the intervals of the kernels' times in both phases, as
// shares of the expected times. They do not include errors of the engine and of its host.
type widths struct{ prefill, decode float64 }

// widths works out the half-widths for a workload.
func (p *Prepared) widths(w *Workload) (off widths) {
	cal := &p.machine.Cal
	board := cal.Board
	if p.Scheme.Act == unit.FP32 {
		board = 0 // no operator table has products in FP32
	}
	p.prefills(w)
	off.prefill = p.machines.within(&p.prompt.timing, p.promptOff, board, cal.PrefillError)
	if w.GenLen == 1 { // the workload has no decode step
		off.decode = off.prefill
		return off
	}
	decode := p.decodes(w)
	run := p.decoding(w)
	constants := spread(p.moved, decode, func(m *Predictor) total { return m.decode(&run) })
	off.decode = p.machines.within(&decode.timing, constants, board, cal.DecodeError)
	return off
}

// within is the half-width of an interval where constants are off by so much. An engine's calibration on this kind of GPU knows no
// other error than that and the scatter of shapes. Without one, the error of the board is added in quadrature, for as much of the time as
// kernels take whose constants were not read off the board, and for all of it where a file is of the kernels of another engine. Where no
// operators of the board were timed either, the half-width is at least the error that its generation of GPUs has.
func (a *Machines) within(t *timing, constants, board, generation float64) float64 {
	off := math.Hypot(constants, t.scattered())
	switch {
	case a.fitted && a.serves:
		return off
	case board > 0 && a.foreign:
		return math.Hypot(off, board)
	case board > 0:
		return math.Hypot(off, board*t.share(t.unfitted))
	}
	return max(off, generation)
}

// spread is the relative change of a phase's time if each constant that it depends on moves
// to the slow end of its interval, all changes added in quadrature.
func spread(moved []*Predictor, base *total, phase func(*Predictor) total) (off float64) {
	for i := range moved {
		if m := moved[i]; m.changed&(base.constants|beyondKernels()) != 0 {
			t := phase(m)
			off = math.Hypot(off, float64(max(t.Expected, t.least)/max(base.Expected, base.least))-1)
		}
	}
	return off
}

// beyondKernels are constants that every phase depends on, whatever its kernels: constants of the
// host, and constants that say how far the power limit slows arithmetic.
var beyondKernels = sync.OnceValue(func() roofline.Set {
	all := roofline.SetOf(roofline.GEMMCompute, roofline.GEMMSustained, roofline.GEMMMemory)
	for _, k := range roofline.All() {
		if k.Info().Engine {
			all |= roofline.SetOf(k)
		}
	}
	return all
})

// quantizedExperts is the relative error of grouped GEMMs of quantized experts that are priced
// with the constants of experts in 16 bits: the 90th percentile over the experts in 8 and 4 bits of all
// engines and GPUs in aiconfigurator-core 0.12.0 (experiments/operators/releases.py).
const quantizedExperts = 0.71

// halfWidth is the half-width of the interval of a kernel's time in seconds, which is the residual that
// its law has on shapes that the fit did not see. The residual of GEMMs in 16 bits comes from
// GEMMs of 20 µs and more; their fixed time has a separate residual. That of decode attention may be off besides.
func (m *Machine) halfWidth(k *Kernel, c *roofline.Cost) float64 {
	by := c.Leads
	if k.Class == roofline.MoEPrefill && k.Scheme != roofline.Unquantized {
		return float64(c.Time) * quantizedExperts
	}
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
	return math.Hypot(time*m.Cal.Residuals[by], start)
}

// share is a part of the kernels' time, as a share of it.
func (t *timing) share(part unit.Seconds) float64 {
	if t.kernels == 0 {
		return 0
	}
	return float64(part / t.kernels)
}

// scattered is the half-width of a phase's interval that the residuals of its kernels' laws
// give, as a share of the kernels' time.
func (t *timing) scattered() float64 { return t.share(t.scatter) }

// less is the time that a kernel takes less at the fast end of the interval. Kernels of shared experts take no time there where they
// overlap with the routed experts. Some releases of an engine overlap them and others do not (docs/validation.md).
func (l *Lowering) less(k *Kernel, c *roofline.Cost, m *Machine) unit.Seconds {
	if k.Overlapped {
		return c.Time
	}
	return l.ofText(k, c, m)
}

// ofText is the time that a kernel of experts takes less if its tokens choose them as those of a text do, which
// are sent to fewer distinct ones. It is 0 where the popularity of the experts is given.
func (l *Lowering) ofText(k *Kernel, c *roofline.Cost, m *Machine) unit.Seconds {
	s := &k.Shape
	if s.Hit == 0 || !l.Step.Evenly() {
		return 0
	}
	text, share := &l.text, operator.DistinctInText(s.Experts, s.TopK, s.Tokens)
	*text = k.Kernel
	text.Work.Weights = text.Work.Weights.Times(share)
	text.Shape.Hit *= share
	m.prices.Price(&l.textCost, text)
	return max(c.Time-l.textCost.Time, 0)
}

// An ends is the distances of both ends of an interval from the expected time, as shares of that time.
type ends struct{ low, high float64 }

// hostError widens the kernels' relative error off by the
// scatter of the host's time between machines and runs. Kernels and host run side by side, so a phase takes at
// each end as long as the slower of the two there. One regime goes over into the other without a step.
func (p *Predictor) hostError(t *total, off float64) ends {
	e, all := p.machine.Engine.Profile(), float64(t.Expected)
	// Experts are chosen evenly for the expected time, which is the slow end of how a router chooses.
	fast := math.Hypot(off, t.share(t.uneven))
	x := e.HostError
	if p.machine.hostKnown || x == 0 { // a calibration timed this host: its error is within off
		return ends{fast, off}
	}
	slow := x
	if p.Par.TP > 1 {
		slow = (1+x)*(1+e.RanksError) - 1
	}
	kernels, host, exposed := float64(t.kernels+t.throttled), float64(t.host), float64(t.exposed)
	rest := exposed + float64(p.machine.seconds(roofline.StreamNode).Times(t.launches))
	// Times of the phase by either of the two: each step waits for the slower.
	byKernels, byHost := min(kernels+rest, all), min(host+rest, all)
	// The host may be 1+x times faster, as it may be 1+x times slower.
	least := max(byKernels-math.Hypot(fast*byKernels, exposed*x/(1+x)), byHost/(1+x))
	more := math.Hypot(max(byKernels*(1+off)-all, 0), max(byHost+(byHost-exposed)*slow-all, 0)+exposed*slow)
	return ends{low: max(1-least/all, 0), high: more / all}
}

// span is the expected time with its interval, no part of which lies below the floor.
func (p *Predictor) span(floor, expected unit.Seconds, off ends) Span {
	return Span{
		Floor: floor, Expected: max(expected, floor),
		Low: max(expected.Times(1-off.low), floor), High: max(expected.Times(1+off.high+p.machine.Engine.Profile().Older), floor),
	}
}
