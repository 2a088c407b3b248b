package power

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"llmprof/internal/concurrent"
	"llmprof/measure/result"
)

// A sensor measures one thing, or several that are read together.
type sensor interface {
	// begin returns at the first edge, and reads on until end is called or ctx is
	// done.
	begin(ctx context.Context) (watch, error)
}

// A watch is a sensor inside of a window.
type watch interface {
	// end returns what was seen from the first edge to one after its call.
	end(ctx context.Context) (*reading, error)
}

// A reading is what a sensor saw between its edges.
type reading struct {
	begin, end time.Time
	domains    []result.Domain
	condition  *result.Condition
	samples    []Sample
	readS      float64 // the longest read
	notes      []string
}

// A Sample is the power of a domain at a moment.
type Sample struct {
	Time   time.Time
	Domain string
	Watts  float64
}

// A Mark is the beginning of a window.
type Mark struct {
	watches []watch
	stop    context.CancelFunc
}

// A Window is what all sensors saw.
type Window struct {
	Begin, End time.Time // the time that all of them saw
	Domains    []result.Domain
	Conditions []result.Condition // one of each GPU
	Samples    []Sample           // in order of time
	ReadS      float64            // the longest that a read of a sensor took
}

// Begin opens a window and returns when every sensor has found its first edge.
func (m *Monitor) Begin(ctx context.Context) (Mark, error) {
	ctx, cancel := context.WithCancel(ctx)
	mark := Mark{watches: make([]watch, len(m.sensors)), stop: cancel}
	err := concurrent.Do(len(m.sensors), len(m.sensors), func(i int) (err error) {
		mark.watches[i], err = m.sensors[i].begin(ctx)
		return err
	})
	if err != nil {
		cancel()
		return Mark{}, err
	}
	return mark, nil
}

// End closes a window at the next edge of every sensor.
func (m *Monitor) End(ctx context.Context, mark Mark) (*Window, error) {
	if mark.stop == nil {
		return nil, errors.New("the window was never begun")
	}
	defer mark.stop()
	readings := make([]*reading, len(mark.watches))
	err := concurrent.Do(len(mark.watches), len(mark.watches), func(i int) (err error) {
		readings[i], err = mark.watches[i].end(ctx)
		return err
	})
	if err != nil {
		return nil, err
	}
	return m.window(readings)
}

// window puts the readings together. Its time is that in which all of them saw.
func (m *Monitor) window(readings []*reading) (*Window, error) {
	w := &Window{Begin: readings[0].begin, End: readings[0].end}
	for _, r := range readings {
		if r.begin.After(w.Begin) {
			w.Begin = r.begin
		}
		if r.end.Before(w.End) {
			w.End = r.end
		}
		w.Domains = append(w.Domains, r.domains...)
		w.Samples = append(w.Samples, r.samples...)
		w.ReadS = max(w.ReadS, r.readS)
		m.warnings = append(m.warnings, r.notes...)
		if r.condition != nil {
			w.Conditions = append(w.Conditions, *r.condition)
		}
	}
	if !w.End.After(w.Begin) {
		return nil, errors.New("no time passed in which every sensor saw: the window is too short")
	}
	slices.SortStableFunc(w.Samples, func(a, b Sample) int { return a.Time.Compare(b.Time) })
	for i := range w.Conditions {
		m.disown(&w.Conditions[i])
	}
	return w, nil
}

// disown leaves the processes of others.
func (m *Monitor) disown(c *result.Condition) {
	c.OtherPIDs = slices.DeleteFunc(c.OtherPIDs, m.ours)
}

// Throttled names the reasons for which the clocks of some GPU were held down for
// more than a share of the time, in order.
func Throttled(conditions []result.Condition, share float64) []string {
	var why []string
	for i := range conditions {
		c := &conditions[i]
		for reason, seconds := range c.ThrottledS {
			if c.Seconds != nil && seconds > share**c.Seconds && !slices.Contains(why, reason) {
				why = append(why, reason)
			}
		}
	}
	slices.Sort(why)
	return why
}

// integral is the energy under samples of power from one time to another, by the
// trapezoid rule; before the first and after the last sample the power is theirs.
func integral(samples []Sample, from, to time.Time) (float64, error) {
	if len(samples) == 0 {
		return 0, fmt.Errorf("no sample of power in %v", to.Sub(from))
	}
	at := func(t time.Time) float64 {
		i, exact := slices.BinarySearchFunc(samples, t, func(s Sample, t time.Time) int { return s.Time.Compare(t) })
		switch {
		case exact || i == 0:
			return samples[i].Watts
		case i == len(samples):
			return samples[i-1].Watts
		}
		a, b := samples[i-1], samples[i]
		return a.Watts + (b.Watts-a.Watts)*float64(t.Sub(a.Time))/float64(b.Time.Sub(a.Time))
	}
	last, watts, sum := from, at(from), 0.
	add := func(t time.Time, w float64) {
		sum += t.Sub(last).Seconds() * (w + watts) / 2
		last, watts = t, w
	}
	for _, s := range samples {
		if s.Time.After(from) && s.Time.Before(to) {
			add(s.Time, s.Watts)
		}
	}
	add(to, at(to))
	return sum, nil
}
