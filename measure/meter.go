package measure

import (
	"context"
	"fmt"
	"math"
	"time"

	"llmprof/internal/concurrent"
	"llmprof/internal/stats"
	"llmprof/measure/power"
	"llmprof/measure/result"
	"llmprof/measure/worker"
)

// A Meter measures energy between two edges of its sensors; a power.Monitor is
// one. It must not read its sensors outside of its windows.
type Meter interface {
	Begin(context.Context) (power.Mark, error)
	End(context.Context, power.Mark) (*power.Window, error)
	Scope() string
	Own(pids ...int)
	Look(context.Context) (end func() ([]result.Condition, error)) // reads clocks alone
}

// settling is how long a GPU is left alone after work before its idle power is
// measured, so that its clocks and its voltage regulators have come down.
const settling = 2 * time.Second

// idling measures the power of what does nothing for so long.
func idling(ctx context.Context, meter Meter, how time.Duration) (*result.Window, error) {
	if err := concurrent.Wait(ctx, settling); err != nil {
		return nil, err
	}
	mark, err := meter.Begin(ctx)
	if err != nil {
		return nil, err
	}
	if err := concurrent.Wait(ctx, how); err != nil {
		return nil, err
	}
	w, err := meter.End(ctx, mark)
	if err != nil {
		return nil, err
	}
	return &result.Window{Seconds: w.End.Sub(w.Begin).Seconds(), Domains: w.Domains}, nil
}

// atRest is the phase that replicas begin together when their workers have nothing to do.
const atRest worker.Phase = "idle"

// idleLoaded measures the power of the idle engine that has a model in memory.
func (s *session) idleLoaded(ctx context.Context) (err error) {
	if s.meter == nil {
		return nil
	}
	if err := s.group.meet(ctx, atRest); err != nil {
		return err
	}
	s.say("idle with the weights resident")
	if s.rest, err = idling(ctx, s.meter, s.set.Idle); err != nil {
		return fmt.Errorf("idle: %w", err)
	}
	return nil
}

// attribute gives the window of a phase the passes that ran in it, and notes the
// state that the GPUs were in.
func (s *session) attribute(p worker.Phase, run *phaseRun) (*result.Window, error) {
	if run == nil || run.window == nil {
		return nil, nil
	}
	from, err := s.clock(run.window.Begin)
	if err != nil {
		return nil, err
	}
	to, err := s.clock(run.window.End)
	if err != nil {
		return nil, err
	}
	w := &result.Window{Seconds: nanoseconds(to - from), Domains: run.window.Domains}
	w.Passes, w.Steps = within(run.all, from, to)
	if w.Passes < 1 {
		return nil, fmt.Errorf("%s: %.2f passes ran between the edges of the window of %.3g s: it is too short, or the clocks differ", p,
			w.Passes, w.Seconds)
	}
	saw(s.res, p, run.window.Conditions)
	return w, nil
}

// overhead is what metering cost: the TPOT of passes in the window over that of
// the passes before and after it, less 1. The mean of both sides cancels a drift.
func (s *session) overhead() *float64 {
	run := s.phases[worker.Decode]
	if run == nil || run.window == nil {
		return nil
	}
	from, err := s.clock(run.window.Begin)
	to, err2 := s.clock(run.window.End)
	if err != nil || err2 != nil {
		return nil
	}
	var before, during, after []float64
	for i := max(0, run.warmups-run.last); i < len(run.all); i++ {
		p := &run.all[i]
		x := p.tpot()
		switch {
		case x == nil:
		case i < run.warmups:
			before = append(before, *x)
		case i >= run.quiet:
			after = append(after, *x)
		case p.BeginNS >= from && p.EndNS <= to:
			during = append(during, *x)
		}
	}
	if min(len(before), len(during), len(after)) < longPasses {
		return nil
	}
	with, without := stats.Median(during), (stats.Median(before)+stats.Median(after))/2
	if change := with/without - 1; !math.IsNaN(change) && !math.IsInf(change, 0) {
		return &change
	}
	return nil
}

// noteReads records the median time between a window's samples of power, and how long a reading took: of several
// windows the longest.
func noteReads(m *result.Meter, w *power.Window) {
	last, gaps := map[string]time.Time{}, []float64{}
	for _, x := range w.Samples {
		if before, ok := last[x.Domain]; ok {
			gaps = append(gaps, x.Time.Sub(before).Seconds())
		}
		last[x.Domain] = x.Time
	}
	if len(gaps) > 0 {
		if gap := stats.Median(gaps); m.PeriodS == nil || gap > *m.PeriodS {
			m.PeriodS = &gap
		}
	}
	m.ReadS = max(m.ReadS, w.ReadS)
}
