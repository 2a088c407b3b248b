package power

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"llmprof/internal/stats"
	"llmprof/measure/result"
	"llmprof/unit"
)

// clocked is what says at which clocks a GPU runs: a board, or a Jetson's module.
type clocked interface {
	id() string                    // UUID; "" of a Jetson's GPU
	state() (*state, error)        // clocks and the like, read anew
	held() map[string]float64      // seconds for which clocks were held down since ever, by reason; nil if not counted
	processes() ([]Process, error) // processes that compute on the GPU
	period() time.Duration         // at which its power is worth reading
}

// lookEvery is how many times less often clocks are read than power: each reading
// asks the driver some ten times, and on an H200 a slow one takes 4 ms of its lock.
const lookEvery = 10

// Look begins to read clocks, temperatures and throttle reasons of the GPUs, but no power,
// in goroutines of its own. It waits for no sensor. Its end returns the conditions of the
// GPUs in between, none where no GPU reports any.
func (m *Monitor) Look(ctx context.Context) (end func() ([]result.Condition, error)) {
	var watches []*clockWatch
	for _, c := range m.clocks() {
		watches = append(watches, watchClocks(ctx, c, lookEvery*c.period()))
	}
	return func() (all []result.Condition, err error) {
		for _, w := range watches {
			r, failed := w.end(ctx)
			if failed != nil {
				err = errors.Join(err, failed)
				continue
			}
			m.disown(r.condition)
			m.warnings = append(m.warnings, r.notes...)
			all = append(all, *r.condition)
		}
		return all, err
	}
}

// clocks are all GPUs that report theirs.
func (m *Monitor) clocks() []clocked {
	var all []clocked
	for _, b := range m.boards {
		all = append(all, b)
	}
	for _, s := range m.sensors {
		if c, ok := s.(*clockSensor); ok {
			all = append(all, c.of)
		}
	}
	return all
}

// Now is the state of each GPU at this moment.
func (m *Monitor) Now() ([]result.Condition, error) {
	var all []result.Condition
	for _, c := range m.clocks() {
		s, err := c.state()
		if err != nil {
			return nil, err
		}
		sum := summarize([]state{*s})
		for _, reason := range s.reasons {
			sum.ThrottledS[reason] = 0
		}
		sum.UUID = c.id()
		all = append(all, *sum)
	}
	return all, nil
}

// A clockSensor is a GPU that says its clocks and whose power another sensor reads.
type clockSensor struct {
	of     clocked
	period time.Duration
}

func (s *clockSensor) begin(ctx context.Context) (watch, error) {
	return watchClocks(ctx, s.of, s.period), nil
}

// A clockWatch gathers the states of a GPU.
type clockWatch struct {
	loop
	of     clocked
	begun  time.Time
	held0  map[string]float64
	states []state
}

func watchClocks(ctx context.Context, c clocked, period time.Duration) *clockWatch {
	w := &clockWatch{of: c, begun: time.Now()}
	var once sync.Once
	w.run(ctx, atOnce(period), func() error {
		once.Do(func() { w.held0 = c.held() })
		s, err := c.state()
		if err == nil {
			w.states = append(w.states, *s)
		}
		return err
	})
	return w
}

func (w *clockWatch) end(context.Context) (*reading, error) {
	if err := w.finish(); err != nil {
		return nil, err
	}
	now := time.Now()
	c, err := condition(w.of, w.states, w.held0, now.Sub(w.begun).Seconds())
	return &reading{begin: w.begun, end: now, condition: c, notes: w.notes("clocks of " + cmp.Or(w.of.id(), "the GPU"))}, err
}

// condition sums up the states that a GPU was in for so many seconds.
func condition(of clocked, states []state, held0 map[string]float64, seconds float64) (*result.Condition, error) {
	c := summarize(states)
	c.UUID, c.Seconds = of.id(), new(seconds)
	throttled(c, of, states, held0)
	running, err := of.processes()
	for _, p := range running {
		c.OtherPIDs = append(c.OtherPIDs, p.PID) // the monitor takes out its own
	}
	return c, err
}

// summarize gives the distribution of each figure, and the last of those that stand still.
func summarize(states []state) *result.Condition {
	c := &result.Condition{ThrottledS: map[string]float64{}, OtherPIDs: []int{}}
	for _, g := range []struct {
		to *(*stats.Summary)
		of func(*state) *float64
	}{
		{&c.SMClockHz, func(s *state) *float64 { return s.smHz }},
		{&c.MemClockHz, func(s *state) *float64 { return s.memoryHz }},
		{&c.Temperature, func(s *state) *float64 { return s.celsius }},
		{&c.Utilization, func(s *state) *float64 { return s.busy }},
		{&c.MemoryUtil, func(s *state) *float64 { return s.memoryBusy }},
	} {
		*g.to = stats.Of(states, g.of)
	}
	for i := range states {
		s := &states[i]
		if s.used != nil {
			c.MemoryUsed = s.used
		}
		c.SMClockMaxHz, c.MemClockMaxHz, c.PowerLimitW, c.PowerLimitDefaultW = s.smMaxHz, s.memoryMaxHz, s.limit, s.limitDefault
	}
	return c
}

// throttled fills in for how long clocks were held down: by the GPU's own count
// where it has one, else by the share of the states that say so.
func throttled(c *result.Condition, of clocked, states []state, held0 map[string]float64) {
	if now := of.held(); now != nil && held0 != nil {
		for reason, s := range now {
			if d := s - held0[reason]; d > 0 {
				c.ThrottledS[reason] = min(d, *c.Seconds)
			}
		}
		return
	}
	for i := range states {
		for _, reason := range states[i].reasons {
			c.ThrottledS[reason] += *c.Seconds / float64(len(states))
		}
	}
}

// Clocks is the state of a GPU in a line.
func Clocks(c *result.Condition) string {
	var parts []string
	add := func(format string, args ...any) { parts = append(parts, fmt.Sprintf(format, args...)) }
	if s, most := c.SMClockHz, c.SMClockMaxHz; s != nil {
		add("SM clock %v%s", unit.Hertz(s.Median), ofMost(most))
	}
	if s, most := c.MemClockHz, c.MemClockMaxHz; s != nil {
		add("memory clock %v%s", unit.Hertz(s.Median), ofMost(most))
	}
	if s := c.Temperature; s != nil {
		add("%.0f °C", s.Median)
	}
	if w := c.PowerLimitW; w != nil {
		add("limit %v", unit.Watts(*w))
	}
	if len(c.ThrottledS) > 0 {
		add("held down by %s", strings.Join(slices.Sorted(maps.Keys(c.ThrottledS)), ", "))
	}
	return strings.Join(parts, ", ")
}

func ofMost(hz *float64) string {
	if hz == nil {
		return ""
	}
	return fmt.Sprintf(" of %v", unit.Hertz(*hz))
}
