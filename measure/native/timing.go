package native

import (
	"llmprof/measure/native/cuda"
	"llmprof/unit"
)

// A Timer times steps by the host's clock and by the GPU's events.
type Timer struct {
	e     *Engine
	clock func() int64
	watch *cuda.Stopwatch
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
	watch, err := e.s.NewStopwatch()
	return &Timer{e: e, clock: clock, watch: watch}, err
}

// Time runs StartPrefill or StartStep, with what else is part of the step, and
// waits for the tokens.
func (t *Timer) Time(start func() error) (Timing, []int32, error) {
	timing := Timing{BeginNS: t.clock()}
	if err := t.watch.Around(start); err != nil {
		return Timing{}, nil, err
	}
	tokens, err := t.e.tokens()
	if err != nil {
		return Timing{}, nil, err
	}
	timing.EndNS = t.clock()
	timing.Device, err = t.watch.Took()
	return timing, tokens, err
}

// Close gives the events back.
func (t *Timer) Close() error { return t.watch.Close() }
