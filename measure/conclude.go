package measure

import (
	"fmt"

	"llmprof/internal/stats"
	"llmprof/measure/result"
	"llmprof/measure/worker"
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
		heed(s.res, c)
	}
	powerKeepsLimit(s.res)
	return nil
}

// times fills in TTFT, TPOT, TTLT and the time of a step.
func (s *session) times() (err error) {
	for _, t := range []struct {
		to    **result.Times
		phase worker.Phase
		of    func(*pass) *float64 // time by the host
		by    func(*pass) *float64 // time by the device
	}{
		{&s.res.TTFT, worker.Prefill, (*pass).ttft, (*pass).device},
		{&s.res.TPOT, worker.Decode, (*pass).tpot, (*pass).deviceStep},
		{&s.res.TTLT, worker.Request, (*pass).ttlt, (*pass).device},
	} {
		run := s.phases[t.phase]
		if run == nil {
			continue
		}
		if *t.to, err = run.times(t.of, t.by); err != nil {
			return fmt.Errorf("%s: %w", t.phase, err)
		}
		if !run.steady && s.set.Warmup == steady {
			s.warn("unsteady", "%s: times were not steady after %v of warm-up", t.phase, s.set.WarmupLimit)
		}
	}
	if run := s.phases[worker.Decode]; run != nil {
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
func (r *phaseRun) times(of, by func(*pass) *float64) (*result.Times, error) {
	return r.summary(stats.Values(r.passes, of), stats.Values(r.passes, by))
}

// stepTimes summarizes every decode step by itself.
func (r *phaseRun) stepTimes() (*result.Times, error) {
	var steps []worker.Step
	for i := range r.passes {
		steps = append(steps, r.passes[i].decodes()...)
	}
	return r.summary(
		stats.Values(steps, func(s *worker.Step) *float64 { return new(nanoseconds(s.EndNS - s.StartNS)) }),
		stats.Values(steps, func(s *worker.Step) *float64 { return s.DeviceS }))
}

// summary is what follows from the samples, and the median of the same times by
// the device's events.
func (r *phaseRun) summary(samples, device []float64) (*result.Times, error) {
	sum, err := stats.Summarize(samples)
	if err != nil {
		return nil, err
	}
	return &result.Times{Summary: *sum, Samples: samples, Warmups: r.warmups, Steady: r.steady, Device: stats.MedianOf(device)}, nil
}

// outputs are the tokens of the last request that was measured, one list for each sequence.
func (s *session) outputs() {
	run := s.phases[worker.Request]
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
