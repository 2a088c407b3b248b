package native

import (
	"errors"

	"llmprof/measure/native/cuda"
	"llmprof/unit"
)

// A Tracer runs prefills and steps operator by operator, with a GPU event after each call, and without
// a graph. The events keep a kernel from beginning before the one ahead of it has ended. If the GPU
// waits for the host, the wait counts for the next operator. So a traced step takes longer than one in
// a graph.
type Tracer struct {
	e      *Engine
	clock  func() int64
	events []*cuda.Event // The first event is before the first call.
}

// A TracedStep is one prefill or decode step. Its spans follow each other without gaps.
type TracedStep struct {
	Timing
	Spans []TracedCall
}

// A TracedCall is a call as the GPU did it. Times are relative to the step's begin, when the GPU was
// idle.
type TracedCall struct {
	Name     string // the estimate's name
	Includes []string
	Layer    int // below 0 for what the model has once
	Begin    unit.Seconds
	End      unit.Seconds
}

// NewTracer makes a tracer that reads the host's clock in nanoseconds.
func (e *Engine) NewTracer(clock func() int64) (*Tracer, error) {
	t := &Tracer{e: e, clock: clock}
	for range max(len(e.prefill), len(e.decode)) + 1 {
		ev, err := e.dev.NewEvent()
		if err != nil {
			return nil, errors.Join(err, t.Close())
		}
		t.events = append(t.events, ev)
	}
	return t, nil
}

// Prefill reads the prompts that are on the GPU.
func (t *Tracer) Prefill() (*TracedStep, error) {
	t.e.left = t.e.opt.GenLen - 1
	return t.step(t.e.prefill)
}

// Step generates one token a sequence after those in the cache.
func (t *Tracer) Step() (*TracedStep, error) {
	if err := t.e.takeStep(); err != nil {
		return nil, err
	}
	return t.step(t.e.decode)
}

func (t *Tracer) step(s sequence) (*TracedStep, error) {
	e := t.e
	if err := e.s.Sync(); err != nil { // The GPU then reaches the first event at once.
		return nil, err
	}
	out := &TracedStep{Timing: Timing{BeginNS: t.clock()}}
	if err := t.events[0].Record(e.s); err != nil {
		return nil, err
	}
	for i := range s {
		if err := errors.Join(s[i].queue(), t.events[i+1].Record(e.s)); err != nil {
			return nil, err
		}
		out.Spans = append(out.Spans, TracedCall{Name: s[i].name, Includes: s[i].includes, Layer: s[i].layer})
	}
	if _, err := e.tokens(); err != nil {
		return nil, err
	}
	out.EndNS = t.clock()
	var last unit.Seconds
	for i := range out.Spans {
		at, err := t.events[i+1].Since(t.events[0])
		if err != nil {
			return nil, err
		}
		out.Spans[i].Begin, out.Spans[i].End = last, at
		last = at
	}
	out.Device = last
	return out, nil
}

// Close gives the events back.
func (t *Tracer) Close() error {
	var errs []error
	for _, ev := range t.events {
		errs = append(errs, ev.Close())
	}
	return errors.Join(errs...)
}
