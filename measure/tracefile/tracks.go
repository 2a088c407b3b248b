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
	if err := t.append(map[string]any{
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
		if err := t.append(map[string]any{"ph": "C", "name": c.Name, "pid": counters, "tid": 0, "ts": ts, "args": map[string]float64{
			c.Unit: s.Value}}); err != nil {
			return err
		}
	}
	return nil
}

// A Span is something that lasted, on one of a trace's rows. Spans of a row lie
// one in another or apart.
type Span struct {
	Row            Row
	Name           string
	BeginNS, EndNS float64        // times by the host's clock
	Args           map[string]any // details that Perfetto shows; nil for none
}

// A Row is where a span is shown.
type Row int

// The rows of a trace that is made here: what the host did, in which layer and
// of which step the device was, and the operators that it ran.
const (
	Host Row = iota + 1
	Layers
	Device
)

// rows are the names of the rows, and the categories of their spans: those of
// Device count as kernels.
var rows = map[Row]struct{ name, category string }{
	Host: {"host: phases and steps", "user_annotation"}, Layers: {"GPU: layers", "layer"}, Device: {"GPU: operators", "kernel"},
}

// New makes a trace of a process, with an annotation of the name anchor at ns of
// the host's clock, which ties its times to that clock.
func New(process string, pid int, anchor string, ns int64) (*Trace, error) {
	t := &Trace{head: map[string]json.RawMessage{"displayTimeUnit": json.RawMessage(`"ms"`)}, marks: map[string]float64{}}
	if err := t.append(map[string]any{"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "args": map[string]string{
		"name": process}}); err != nil {
		return nil, err
	}
	for _, r := range []Row{Host, Layers, Device} {
		for key, value := range map[string]any{"thread_name": map[string]string{"name": rows[r].name},
			"thread_sort_index": map[string]int{"sort_index": int(r)}} {
			if err := t.append(map[string]any{"ph": "M", "name": key, "pid": pid, "tid": int(r), "args": value}); err != nil {
				return nil, err
			}
		}
	}
	t.pid = pid
	return t, t.AddSpans(Span{Row: Host, Name: anchor, BeginNS: float64(ns), EndNS: float64(ns)})
}

// AddSpans adds spans to a trace that New made. Its times are microseconds of the
// host's clock.
func (t *Trace) AddSpans(spans ...Span) error {
	for i := range spans {
		s := &spans[i]
		begin, end := math.Round(s.BeginNS), math.Round(s.EndNS) // For Perfetto too, a span then ends when the next begins.
		if !(begin <= end) || math.IsInf(begin, 0) || math.IsInf(end, 0) {
			return fmt.Errorf("%q begins at %v ns and ends at %v ns: want times", s.Name, s.BeginNS, s.EndNS)
		}
		row, known := rows[s.Row]
		if !known {
			return fmt.Errorf("%q: there is no row %d", s.Name, s.Row)
		}
		category := row.category
		if s.Row == Device && TypeOf(s.Name) == Memory {
			category = "gpu_memcpy"
		}
		e := map[string]any{"ph": "X", "cat": category, "name": s.Name, "pid": t.pid, "tid": int(s.Row), "ts": begin / 1e3,
			"dur": (end - begin) / 1e3}
		if s.Args != nil {
			e["args"] = s.Args
		}
		if err := t.append(e); err != nil {
			return err
		}
	}
	return nil
}

// append adds an event, and keeps what reading it would keep.
func (t *Trace) append(e any) error {
	raw, err := json.Marshal(e)
	if err != nil {
		return err
	}
	t.events = append(t.events, raw)
	return t.note(raw)
}
