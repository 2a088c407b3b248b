package measure

import (
	"fmt"
	"iter"

	"llmprof/measure/result"
	"llmprof/unit"
)

// Limits of the closure tests: how far the parts may be from the whole. They
// would have caught what the facts of peers show: a one-off stall inside a
// timed window (TTFT + (n-1) TPOT 35 to 62 % over TTLT), idle tails in an
// energy window (J/token a third of what J/request says).
const (
	timeClosure   = 0.05
	energyClosure = 0.10
	sensorClosure = 0.03 // counter against integrated power

	powerMargin = 0.05 // mean power above the power limit: the accuracy of boards' sensors
)

// closes tests that the parts add up to the whole.
func closes(name string, whole, parts, limit float64) result.Closure {
	off := parts/whole - 1
	return result.Closure{Name: name, Whole: whole, Parts: parts, Off: off, Limit: limit, Passed: off <= limit && off >= -limit}
}

// heed marks the result where a test did not pass.
func heed(r *result.Result, c result.Closure) {
	if !c.Passed {
		warn(r, "closure", "%s is off by %+.1f %%, more than %.0f %%", c.Name, 100*c.Off, 100*c.Limit)
	}
}

// timesClose compares TTLT with TTFT and TPOT, which other passes measured.
func timesClose(r *result.Result) {
	if r.TTFT == nil || r.TPOT == nil || r.TTLT == nil {
		return
	}
	n := float64(r.Workload.GenLen - 1)
	r.Closure = append(r.Closure, closes("TTLT = TTFT + (generated - 1) TPOT", r.TTLT.Median, r.TTFT.Median+n*r.TPOT.Median, timeClosure))
}

// inOrder says what is wrong where every request ended before any prefill, which
// other passes measured: a processor that others use is at times several times as
// slow for seconds.
func inOrder(r *result.Result) string {
	if r.TTFT == nil || r.TTLT == nil || r.TTLT.Max >= r.TTFT.Min {
		return ""
	}
	return fmt.Sprintf("every request ended within %.4g s, but the fastest prefill alone took %.4g s: the machine was slower while "+
		"prefills were measured",
		r.TTLT.Max, r.TTFT.Min)
}

// energyCloses compares the energy of a request with that of its phases, and each
// counter with the integral of power.
func energyCloses(r *result.Result) {
	e := r.Energy
	if e == nil {
		return
	}
	if e.PerRequest != nil && e.PerPrompt != nil && e.PerToken != nil {
		n := float64(r.Workload.GenLen - 1)
		r.Closure = append(r.Closure, closes("J/request = J/prompt + (generated - 1) J/token",
			*e.PerRequest, *e.PerPrompt+n**e.PerToken, energyClosure))
	}
	for phase, d := range domains(e) {
		if d.CounterJ != nil && d.IntegralJ != nil && *d.CounterJ > 0 {
			r.Closure = append(r.Closure, closes(phase+": counter of "+d.Name+" = integral of its power",
				*d.CounterJ, *d.IntegralJ, sensorClosure))
		}
	}
}

// domains are those of the phases' windows, with the names of the phases.
func domains(e *result.Energy) iter.Seq2[string, *result.Domain] {
	return func(yield func(string, *result.Domain) bool) {
		for _, w := range []struct {
			phase string
			*result.Window
		}{{"prefill", e.Prefill}, {"decode", e.Decode}, {"request", e.Request}} {
			for i := 0; w.Window != nil && i < len(w.Domains); i++ {
				if !yield(w.phase, &w.Domains[i]) {
					return
				}
			}
		}
	}
}

// powerKeepsLimit marks a result in which a GPU drew more than its power limit: its power or its limit was read wrong.
func powerKeepsLimit(r *result.Result) {
	if r.Energy == nil {
		return
	}
	for phase, d := range domains(r.Energy) {
		for i := range r.Conditions {
			c := &r.Conditions[i]
			if c.Phase == phase && c.UUID == d.ID && c.PowerLimitW != nil && d.MeanW > (1+powerMargin)*(*c.PowerLimitW) {
				warn(r, "closure", "%s: %s drew %v, more than its limit of %v", phase, d.Name, unit.Watts(d.MeanW), unit.Watts(*c.PowerLimitW))
			}
		}
	}
}
