package native

import (
	"errors"

	"llmprof/measure/engine/native/cuda"
	"llmprof/unit"
)

// A Timer times steps by the host's clock and by the GPU's events.
type Timer struct {
	e          *Engine
	clock      func() int64
	begin, end *cuda.Event
}

// A Timing is the time of one step: from before it is queued until its tokens
// are in the host's memory, and the GPU's part of it.
type Timing struct {
	BeginNS, EndNS int64
	Device         unit.Seconds
}

// NewTimer makes a timer that reads the host's clock in nanoseconds. It lasts
// until Close or the engine's end.
func (e *Engine) NewTimer(clock func() int64) (*Timer, error) {
	begin, err := e.dev.NewEvent()
	if err != nil {
		return nil, err
	}
	end, err := e.dev.NewEvent()
	if err != nil {
		return nil, errors.Join(err, begin.Close())
	}
	return &Timer{e: e, clock: clock, begin: begin, end: end}, nil
}

// Time runs StartPrefill or StartStep, with what else is part of the step, and
// waits for the tokens.
func (t *Timer) Time(start func() error) (Timing, []int32, error) {
	timing := Timing{BeginNS: t.clock()}
	if err := t.begin.Record(t.e.s); err != nil {
		return Timing{}, nil, err
	}
	if err := start(); err != nil {
		return Timing{}, nil, err
	}
	if err := t.end.Record(t.e.s); err != nil {
		return Timing{}, nil, err
	}
	tokens, err := t.e.tokens()
	if err != nil {
		return Timing{}, nil, err
	}
	timing.EndNS = t.clock()
	timing.Device, err = t.end.Since(t.begin)
	return timing, tokens, err
}

// Close gives the events back.
func (t *Timer) Close() error { return errors.Join(t.begin.Close(), t.end.Close()) }
