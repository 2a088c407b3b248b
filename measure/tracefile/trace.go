// Package tracefile reads and completes the traces that an engine's profiler
// writes: it lays the meters' readings under the kernels, so that Perfetto shows
// power beside what drew it, and it sums kernels up. For an engine without a
// profiler it makes a trace of spans.
//
// The form is Chrome's Trace Event Format: times are microseconds, "X" events
// last, "C" events are counters, "M" events name things.
// https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU
package tracefile

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"llmprof/internal/atomicfile"
	"llmprof/internal/input"
)

// A Trace is a file's events, each as it was, and what else the file says.
type Trace struct {
	head   map[string]json.RawMessage
	events []json.RawMessage
	kernel []event // events on a device
	base   float64 // microseconds of the trace at 0 ns of the host's clock
	based  bool
	marks  map[string]float64 // when each annotation first began
}

// An event is what this package reads of one.
type event struct {
	Phase    string  `json:"ph"`
	Category string  `json:"cat"`
	Name     string  `json:"name"`
	TS       float64 `json:"ts"`
	Dur      float64 `json:"dur"`
}

// ReadFile reads a trace.
func ReadFile(path string) (*Trace, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	from, err := input.Unpack(file)
	var t *Trace
	if err == nil {
		t, err = Read(from)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return t, nil
}

// Read reads a trace: an object with traceEvents, or the list of events alone.
func Read(from io.Reader) (*Trace, error) {
	text, err := io.ReadAll(from)
	if err != nil {
		return nil, err
	}
	t := &Trace{head: map[string]json.RawMessage{}, marks: map[string]float64{}}
	list := json.RawMessage(text)
	if !bytes.HasPrefix(bytes.TrimSpace(text), []byte("[")) {
		if err := json.Unmarshal(text, &t.head); err != nil {
			return nil, fmt.Errorf("not a trace: %w", err)
		}
		if list = t.head["traceEvents"]; list == nil {
			return nil, errors.New("not a trace: it has no traceEvents")
		}
		delete(t.head, "traceEvents")
	}
	if err := json.Unmarshal(list, &t.events); err != nil {
		return nil, fmt.Errorf("not a trace: %w", err)
	}
	for i, raw := range t.events {
		if err := t.note(raw); err != nil {
			return nil, fmt.Errorf("event %d of the trace: %w", i, err)
		}
	}
	return t, nil
}

// note keeps what later questions need of an event.
func (t *Trace) note(raw json.RawMessage) error {
	var e event
	if err := json.Unmarshal(raw, &e); err != nil {
		return err
	}
	switch {
	case e.Dur < 0:
		return fmt.Errorf("%q lasts %v us", e.Name, e.Dur)
	case e.Phase != "X":
	case e.Category == "user_annotation":
		if _, seen := t.marks[e.Name]; !seen {
			t.marks[e.Name] = e.TS
		}
	case OnDevice(e.Category):
		t.kernel = append(t.kernel, e)
	}
	return nil
}

// Anchor ties the trace to the host's clock: the annotation of that name began
// at ns.
func (t *Trace) Anchor(name string, ns int64) error {
	at, ok := t.marks[name]
	if !ok {
		return fmt.Errorf("the trace has no annotation %q that ties its time to the host's clock", name)
	}
	t.base, t.based = at-float64(ns)/1e3, true
	return nil
}

// Micros is the trace's time of a moment of the host's clock.
func (t *Trace) Micros(ns int64) (float64, error) {
	if !t.based {
		return 0, errors.New("the trace has no anchor that ties its time to the host's clock")
	}
	return t.base + float64(ns)/1e3, nil
}

// WriteFile writes the trace whole or not at all, packed where the name ends in .gz.
func (t *Trace) WriteFile(path string) error {
	return atomicfile.Write(path, 0o666, func(to io.Writer) error {
		if !strings.HasSuffix(path, ".gz") {
			return t.Write(to)
		}
		pack := gzip.NewWriter(to)
		return errors.Join(t.Write(pack), pack.Close())
	})
}

// Write writes the trace.
func (t *Trace) Write(to io.Writer) error {
	whole := make(map[string]any, len(t.head)+1)
	for key, value := range t.head {
		whole[key] = value
	}
	whole["traceEvents"] = t.events
	return json.NewEncoder(to).Encode(whole)
}
