package tracefile

import (
	"encoding/json"
	"fmt"
	"math"
)

// A Counter is a quantity over time, such as a GPU's power.
type Counter struct {
	Name    string // "GPU 0 power"
	Unit    string // "W"
	Samples []Sample
}

// A Sample is a counter's value at a time of CLOCK_MONOTONIC.
type Sample struct {
	NS    int64
	Value float64
}

// counters is the process that Perfetto shows the counters under. No process of
// Linux has so high a number.
const counters = 1 << 30

// AddCounters adds tracks. The trace has to have its anchor.
func (t *Trace) AddCounters(tracks ...Counter) error {
	if err := t.Append(map[string]any{
		"ph": "M", "name": "process_name", "pid": counters, "tid": 0, "args": map[string]string{"name": "llmprof meters"},
	}); err != nil {
		return err
	}
	for _, c := range tracks {
		if err := t.counter(c); err != nil {
			return fmt.Errorf("counter %q: %w", c.Name, err)
		}
	}
	return nil
}

func (t *Trace) counter(c Counter) error {
	for i, s := range c.Samples {
		switch {
		case math.IsNaN(s.Value) || math.IsInf(s.Value, 0):
			return fmt.Errorf("sample %d is %v", i, s.Value)
		case i > 0 && s.NS < c.Samples[i-1].NS:
			return fmt.Errorf("time goes backwards: sample %d at %d ns follows one at %d ns", i, s.NS, c.Samples[i-1].NS)
		}
		ts, err := t.Micros(s.NS)
		if err != nil {
			return err
		}
		if err := t.Append(map[string]any{"ph": "C", "name": c.Name, "pid": counters, "tid": 0, "ts": ts, "args": map[string]float64{
			c.Unit: s.Value}}); err != nil {
			return err
		}
	}
	return nil
}

// New makes a trace without events, whose times are microseconds of the host's clock.
func New() *Trace {
	return &Trace{head: map[string]json.RawMessage{"displayTimeUnit": json.RawMessage(`"ms"`)}, marks: map[string]float64{}}
}

// Append adds an event, and keeps what reading it would keep.
func (t *Trace) Append(e any) error {
	raw, err := json.Marshal(e)
	if err != nil {
		return err
	}
	t.events = append(t.events, raw)
	return t.note(raw)
}
