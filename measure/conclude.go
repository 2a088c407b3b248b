package measure

import (
	"fmt"
	"math"

	"llmprof/analytic"
	"llmprof/measure/engine"
	"llmprof/measure/result"
	"llmprof/measure/stats"
)

// conclude turns the passes of the phases into the figures of the result.
func (s *session) conclude() error {
	if err := s.times(); err != nil {
		return err
	}
	s.rates()
	s.outputs()
	if err := s.energy(); err != nil {
		return err
	}
	timesClose(s.res)
	if wrong := inOrder(s.res); wrong != "" {
		s.warn("closure", "%s", wrong)
	}
	energyCloses(s.res)
	for _, c := range s.res.Closure {
		if !c.Passed {
			s.warn("closure", "%s is off by %+.1f %%, more than %.0f %%", c.Name, 100*c.Off, 100*c.Limit)
		}
	}
	return nil
}

// times fills in TTFT, TPOT, TTLT and the time of a step.
func (s *session) times() (err error) {
	for _, t := range []struct {
		to    **result.Times
		phase engine.Phase
		of    func(*pass) (float64, bool) // time by the host
		by    func(*pass) (float64, bool) // time by the device
	}{
		{&s.res.TTFT, engine.Prefill, (*pass).ttft, (*pass).device},
		{&s.res.TPOT, engine.Decode, (*pass).tpot, (*pass).deviceStep},
		{&s.res.TTLT, engine.Request, (*pass).ttlt, (*pass).device},
	} {
		run := s.phases[t.phase]
		if run == nil {
			continue
		}
		if *t.to, err = run.times(t.of, t.by); err != nil {
			return fmt.Errorf("%s: %w", t.phase, err)
		}
		if !run.steady && s.set.Warmup == Steady {
			s.warn("unsteady", "%s: times were not steady after %v of warm-up", t.phase, s.set.WarmupLimit)
		}
	}
	if run := s.phases[engine.Decode]; run != nil {
		s.res.StepTime, err = run.stepTimes()
	}
	s.explain()
	return err
}

// explain removes the reasons of figures that are not missing after all, such as
// the time of a phase that was run for its energy.
func (s *session) explain() {
	for key, there := range map[string]bool{
		"ttft_s": s.res.TTFT != nil, "tpot_s": s.res.TPOT != nil, "step_s": s.res.StepTime != nil, "ttlt_s": s.res.TTLT != nil,
	} {
		if there {
			delete(s.res.Reasons, key)
		}
	}
}

// times summarizes one duration of every measured pass, by the host's clock and
// by the device's.
func (r *phaseRun) times(of, by func(*pass) (float64, bool)) (*result.Times, error) {
	t := &result.Times{Warmups: r.warmups, Steady: r.steady}
	var device []float64
	for i := range r.passes {
		p := &r.passes[i]
		if x, ok := of(p); ok {
			t.Samples = append(t.Samples, x)
		}
		if x, ok := by(p); ok {
			device = append(device, x)
		}
	}
	return t, summarize(t, device)
}

// stepTimes summarizes every decode step by itself.
func (r *phaseRun) stepTimes() (*result.Times, error) {
	t := &result.Times{Warmups: r.warmups, Steady: r.steady}
	var device []float64
	for i := range r.passes {
		for _, st := range r.passes[i].decodes() {
			t.Samples = append(t.Samples, nanoseconds(st.EndNS-st.StartNS))
			if st.DeviceS != nil {
				device = append(device, *st.DeviceS)
			}
		}
	}
	return t, summarize(t, device)
}

// summarize fills in what follows from the samples, and the median of the same
// times by the device's events.
func summarize(t *result.Times, device []float64) error {
	sum, err := stats.Summarize(t.Samples)
	if err != nil {
		return err
	}
	t.Summary, t.Device = *sum, medianOf(device)
	return nil
}

// outputs are the tokens of the last request that was measured, one list for each sequence.
func (s *session) outputs() {
	run := s.phases[engine.Request]
	if !s.set.Load.SaveOutputs || run == nil || len(run.passes) == 0 {
		return
	}
	out := make([][]int, s.set.Load.Batch)
	for _, t := range run.passes[len(run.passes)-1].Tokens {
		for i, id := range t.IDs {
			if i < len(out) {
				out[i] = append(out[i], id)
			}
		}
	}
	s.res.Outputs = out
}

// rates are tokens a second of all sequences, from the medians.
func (s *session) rates() {
	r, batch := s.res, float64(s.set.Load.Batch)
	rates := &result.Rates{}
	if r.TTLT != nil {
		rates.Generated = new(batch * float64(s.set.Load.GenLen) / r.TTLT.Median)
	}
	if r.TPOT != nil {
		rates.Decode = new(batch / r.TPOT.Median)
	}
	if r.TTFT != nil {
		rates.Prompt = new(batch * float64(s.set.Load.PromptLen) / r.TTFT.Median)
	}
	if r.TTLT != nil || r.TPOT != nil || r.TTFT != nil {
		r.Throughput = rates
	}
}

// medianOf is the median of any sample, nil of none.
func medianOf(xs []float64) *float64 {
	if len(xs) == 0 {
		return nil
	}
	return new(stats.Median(xs))
}

// Sizes that the theory knows exactly (parameters, KV cache) may differ from the
// counted ones by as much as padding, before it is said.
const sizeTolerance = 0.01

// sizes sets what the engine counted beside what the theory says. The counted
// cache holds as many tokens as the engine made room for, which a static cache
// does ahead. Counted is what all ranks hold together, the theory of one of them.
func sizes(got *engine.Sizes, want *analytic.Memory, ranks int) *result.Sizes {
	s := &result.Sizes{
		Params: &got.ParamsBytes, Buffers: &got.BuffersBytes, KV: &got.KVBytes, State: &got.StateBytes,
		Activations: got.Activations, Peak: got.PeakBytes, Reserved: got.Reserved,
	}
	if want != nil {
		n := float64(ranks)
		s.Analytic = &result.AnalyticSizes{
			Params: n * float64(want.Weights), KV: n * float64(want.KV), State: n * float64(want.State), Activations: n * float64(want.Activations),
		}
	}
	return s
}

func differ(s *result.Sizes) []string {
	if s == nil || s.Analytic == nil {
		return nil
	}
	var said []string
	for _, c := range []struct {
		what string
		got  *int64
		want float64
	}{{"parameters", s.Params, s.Analytic.Params}, {"KV cache", s.KV, s.Analytic.KV}, {"state", s.State, s.Analytic.State}} {
		if c.got == nil || (*c.got == 0 && c.want == 0) {
			continue
		}
		if off := float64(*c.got)/c.want - 1; !(math.Abs(off) <= sizeTolerance) {
			said = append(said, fmt.Sprintf("the engine holds %d bytes of %s where the theory has %.0f (%+.1f %%)", *c.got, c.what, c.want, 100*off))
		}
	}
	return said
}

// Limits of the closure tests: how far the parts may be from the whole. They
// would have caught what the facts of peers show: a one-off stall inside a
// timed window (TTFT + (n-1) TPOT 35 to 62 % over TTLT), idle tails in an
// energy window (J/token a third of what J/request says).
const (
	timeClosure   = 0.05
	energyClosure = 0.10
	sensorClosure = 0.03 // counter against integrated power
)

// closes tests that the parts add up to the whole.
func closes(name string, whole, parts, limit float64) result.Closure {
	off := parts/whole - 1
	return result.Closure{Name: name, Whole: whole, Parts: parts, Off: off, Limit: limit, Passed: off <= limit && off >= -limit}
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
	return fmt.Sprintf("every request ended within %.4g s, but the fastest prefill alone took %.4g s: the machine was slower while prefills were measured",
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
	for _, w := range []struct {
		phase string
		*result.Window
	}{{"prefill", e.Prefill}, {"decode", e.Decode}, {"request", e.Request}} {
		if w.Window == nil {
			continue
		}
		for i := range w.Domains {
			d := &w.Domains[i]
			if d.CounterJ != nil && d.IntegralJ != nil && *d.CounterJ > 0 {
				r.Closure = append(r.Closure, closes(w.phase+": counter of "+d.Name+" = integral of its power",
					*d.CounterJ, *d.IntegralJ, sensorClosure))
			}
		}
	}
}
