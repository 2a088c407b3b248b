package analytic

import (
	"math"
	"sync"

	"llmprof/roofline"
	"llmprof/unit"
)

// A Span is a time with its floor, and the interval that holds it in nine cases
// of ten.
type Span struct{ Floor, Expected, Low, High unit.Seconds }

// A widths is the half-widths of the intervals of the two phases, as shares of their
// expected times, without what the engine adds.
type widths struct{ prefill, decode float64 }

// widths are how wide the intervals of a workload are.
func (p *Prepared) widths(w *Workload) (off widths) {
	cal := p.machine.Cal
	if p.Scheme.Act == unit.FP32 {
		cal.Board = 0 // tables are in 16 bits and less
	}
	p.prefills(w)
	off.prefill = p.machines.within(math.Hypot(p.promptOff, p.prompt.scattered()), cal.Board, cal.PrefillError)
	if w.GenLen == 1 { // no time of decode is asked for
		off.decode = off.prefill
		return off
	}
	decode := p.decodes(w)
	constants := spread(p.moved, decode, func(m *movedPredictor) total { return m.decode(w, &m.first) })
	off.decode = p.machines.within(math.Hypot(constants, decode.scattered()), cal.Board, cal.DecodeError)
	return off
}

// within is the half-width of an interval whose constants and shapes make it so wide. Where
// no calibration timed the kernels of the engine and its host, the board may be off
// besides; where the operators of no board of its kind were timed, the interval is no
// narrower than the generation's.
func (a *Machines) within(off, board, generation float64) float64 {
	switch {
	case a.fitted && a.serves:
		return off
	case board > 0:
		return math.Hypot(off, board)
	}
	return max(off, generation)
}

// spread is how far the time of a phase lies off where each of the constants that it
// depends on lies at the end of its interval, in quadrature.
func spread(moved []movedPredictor, base *total, phase func(*movedPredictor) total) (off float64) {
	for i := range moved {
		if m := &moved[i]; m.changed&(base.constants|beyondKernels()) != 0 {
			t := phase(m)
			off = math.Hypot(off, float64(max(t.Expected, t.least)/max(base.Expected, base.least))-1)
		}
	}
	return off
}

// beyondKernels are the constants that a phase depends on beside those of its kernels: the
// host's, and those of the power limit.
var beyondKernels = sync.OnceValue(func() roofline.Set {
	all := roofline.SetOf(roofline.GEMMCompute, roofline.GEMMSustained, roofline.GEMMMemory)
	for _, k := range roofline.All() {
		if k.Info().Engine {
			all |= roofline.SetOf(k)
		}
	}
	return all
})

// quantizedExperts is how far grouped products of quantized experts may be off whose constants
// are those of experts in 16 bits. The law misses those of tables that it does not fit by 34
// to 72 % in one of ten shapes (weights alone in MXFP4, of vLLM and TensorRT-LLM).
const quantizedExperts = 0.5

// variance is the square of the half-width of a kernel's interval: the residual of its law on
// other shapes. That of products in 16 bits is of those that take 20 µs and more, beside
// which what no size takes away has a residual of its own.
func (m *Machine) variance(k *Kernel, c *roofline.Cost) float64 {
	by := c.Leads
	if k.Class == roofline.MoEPrefill && k.Scheme != roofline.Unquantized {
		return float64(c.Time*c.Time) * quantizedExperts * quantizedExperts
	}
	for by != roofline.None && m.Cal.Residuals[by] == 0 {
		by = by.Info().Base
	}
	time, start := float64(c.Time), 0.0
	if by == roofline.GEMMMemory || by == roofline.GEMMCompute {
		start = m.Cal.Residuals[roofline.GEMMFixed] * float64(c.Times[roofline.Fixed])
		time -= float64(c.Times[roofline.Fixed])
	}
	time *= m.Cal.Residuals[by]
	return time*time + start*start
}

// scattered is the half-width of the interval of a phase's kernels for their shapes, as a
// share of their time.
func (t *timing) scattered() float64 {
	if t.kernels == 0 {
		return 0
	}
	return float64(t.scatter / t.kernels)
}

// An ends is how far the ends of an interval lie from the expected time, as shares of it.
type ends struct{ low, high float64 }

// engineError adds to the error of the kernels of a phase what the engine may be off, and
// what its host may take longer or shorter on another machine or in another run. A host
// that the kernels hide adds nothing until it takes longer than they do, and kernels that
// it hides nothing until they take longer than it.
func (p *Predictor) engineError(t *total, off float64) ends {
	e, all := p.machine.Engine.Profile(), float64(t.Expected)
	off += e.Error
	kernels, host, x := float64(t.kernels+t.throttled), float64(t.host), e.HostError
	if p.machine.hostKnown || x == 0 { // it was measured where it runs, and is in the error
		return ends{off, off}
	}
	apart := max(all-max(kernels, host), 0) * x // a part that nothing hides
	if host <= kernels {
		return ends{off, off + max(host*(1+x)-kernels, 0)/all}
	}
	return ends{
		low:  (min(host*x, host*(1+x)-kernels*(1-off)*(1+x)) + apart) / (1 + x) / all, // as many times shorter as longer
		high: (math.Hypot(host*x, max(kernels*(1+off)-host, 0)) + apart) / all,
	}
}

// span is the expected time with its interval, which the floor cuts off.
func (p *Predictor) span(floor, expected unit.Seconds, off ends) Span {
	return Span{
		Floor: floor, Expected: max(expected, floor),
		Low: max(expected.Times(1-off.low), floor), High: max(expected.Times(1+off.high+p.machine.Engine.Profile().Older), floor),
	}
}
