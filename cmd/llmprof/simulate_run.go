package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"llmprof/cmd/llmprof/internal/settings"
	"llmprof/cmd/llmprof/internal/view"
	"llmprof/internal/atomicfile"
	"llmprof/internal/input"
	"llmprof/plots"
	"llmprof/serving"
	"llmprof/serving/replay"
	"llmprof/unit"
)

// A simulator runs the loads of a simulation and collects their results.
type simulator struct {
	*simulation
	app     *app
	server  *serving.Server
	loads   []serving.Load
	options serving.Options
	results *view.Simulation
	out     *json.Encoder // takes records of requests; nil where none are kept
}

// all runs every load, with the records of their requests. What was interrupted keeps what it has.
func (s *simulator) all(ctx context.Context) (err error) {
	out, done, err := s.recordFile()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done(err == nil || len(s.results.Points) > 0)) }()
	s.out = out
	return s.run(ctx)
}

func (s *simulator) run(ctx context.Context) error {
	follow := s.app.follow()
	defer follow.progress("")
	switch {
	case s.trace != "":
		return s.replayTrace(ctx, follow)
	case s.span[1] > 0:
		return s.searchKnee(ctx, follow)
	}
	for i := range s.loads {
		if err := s.draw(ctx, follow, &s.loads[i]); err != nil {
			return err
		}
	}
	return nil
}

// draw runs a load whose requests are drawn.
func (s *simulator) draw(ctx context.Context, follow *progressLine, l *serving.Load) error {
	source, err := l.Source()
	if err != nil {
		return wrong(err)
	}
	return s.one(ctx, follow, point{view.LoadName(l), source, l, l.Requests})
}

// A point is a load with its requests.
type point struct {
	name     string
	source   serving.Source
	load     *serving.Load // nil for a trace
	requests int           // 0 where a trace does not say how many it has
}

// one runs one load, and adds its result.
func (s *simulator) one(ctx context.Context, follow *progressLine, p point) error {
	o := s.options
	o.Steady = !s.given("warmup") && p.load != nil && p.load.HasSteadyState()
	if s.out != nil {
		o.Each = func(r *serving.Record) { _ = s.out.Encode(view.RecordOf(p.name, r)) }
	}
	part, _ := follow.counted(p.name + ", requests")
	o.Progress = func(answered int, at unit.Seconds) {
		if p.requests > 0 {
			part(answered, p.requests)
		} else {
			follow.progress(fmt.Sprintf("%s: %d requests, %.0f s of server time", p.name, answered, float64(at)))
		}
	}
	r, err := serving.Simulate(ctx, s.server, p.source, o)
	if err != nil {
		return err
	}
	if r.Interrupted && r.Counted() == 0 { // there are no figures of none
		return context.Canceled
	}
	s.results.Add(ctx, p.name, p.load, r)
	if r.Interrupted {
		return context.Canceled
	}
	return nil
}

func (s *simulator) searchKnee(ctx context.Context, follow *progressLine) error {
	var light serving.Light
	limited := s.slo != ""
	knee, err := serving.Search(s.span[0], s.span[1], refinements, func(rate float64) (bool, error) {
		at := s.loads[0]
		at.Arrival.Rate = rate
		if err := s.draw(ctx, follow, &at); err != nil {
			return false, err
		}
		r := s.results.Points[len(s.results.Points)-1].Result
		if limited {
			return float64(r.Met) >= serving.Within*float64(r.Counted()), nil
		}
		ttft, tpot := r.TTFT.Quantile(0.5), 0.0
		if r.TPOT.N > 0 {
			tpot = r.TPOT.Quantile(0.5)
		}
		return light.Holds(ttft, tpot), nil
	})
	slices.SortStableFunc(s.results.Points, func(x, y view.SimulatedPoint) int {
		return cmp.Compare(x.Load.Arrival.Rate, y.Load.Arrival.Rate)
	})
	if err == nil {
		s.results.Found = kneeText(knee, s.span, limited)
	}
	return err
}

func (s *simulator) replayTrace(ctx context.Context, follow *progressLine) error {
	f, _, err := input.Open(s.trace)
	if err != nil {
		return fmt.Errorf("--trace %s: %w", s.trace, input.Cause(err))
	}
	defer f.Close()
	o := replay.Options{Speed: s.speed, Unit: s.unit, Block: s.block}
	if s.given("requests") {
		o.Requests = s.requests
	}
	t, err := replay.Read(f, o)
	switch {
	case errors.Is(err, replay.ErrUnit):
		return fmt.Errorf("--trace %s: %w: give --trace-unit s, or ms", s.trace, err)
	case errors.Is(err, replay.ErrBlock):
		return fmt.Errorf("--trace %s: %w: give --trace-block", s.trace, err)
	case err != nil:
		return fmt.Errorf("--trace %s: %w", s.trace, err)
	}
	s.results.Trace = &view.TraceRead{File: s.trace, Format: t.Format, Unit: t.Unit, Block: t.Block, Text: t.Decided()}
	if err := s.checkPrefixes(t.Hashed); err != nil {
		return err
	}
	if err := s.one(ctx, follow, point{t.Format, t, nil, o.Requests}); err != nil {
		if t.Err() != nil {
			err = fmt.Errorf("--trace %s: %w", s.trace, err)
		}
		return err
	}
	if t.Skipped > 0 {
		s.results.Warnings = append(s.results.Warnings, unit.Warn("trace_skipped",
			"%d requests of the trace generated nothing and were left out", t.Skipped))
	}
	return nil
}

// checkPrefixes refuses flags that change nothing, by whether prompts of the trace have hashes.
func (s *simulation) checkPrefixes(hashed bool) error {
	switch {
	case hashed && s.HitRate != nil:
		return usage("--prefix-hit-rate is of prompts without hashes: those of %s say themselves what they share", s.trace)
	case hashed:
		return nil
	}
	return settings.Refuse(s.given, []string{"kv-offload", "no-prefix-cache"},
		"--%s is of prompts that share prefixes: %s has no hashes of them",
		s.trace)
}

// recordFile is where records of the requests go. It is complete once it has its name.
func (s *simulation) recordFile() (*json.Encoder, func(keep bool) error, error) {
	if s.records == "" {
		return nil, func(bool) error { return nil }, nil
	}
	f, err := atomicfile.Replace(s.records, 0o666)
	if err != nil {
		return nil, nil, fmt.Errorf("--records %s: %w", s.records, input.Cause(err))
	}
	b := bufio.NewWriter(f)
	return json.NewEncoder(b), func(keep bool) error {
		if err := b.Flush(); err != nil || !keep {
			return errors.Join(err, f.Drop())
		}
		return f.Keep()
	}, nil
}

func (s *simulator) write() error {
	v := s.results
	return s.output.write(s.app, forms{
		page: v.Page, table: v.Table, data: func() any { return v.Document() },
		chart:  func() (*plots.Figure, error) { return v.Chart(s.chart) },
		report: func() (any, error) { return v.Report(versionText()) },
	})
}
