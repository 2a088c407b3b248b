package native

import (
	"errors"
	"fmt"
	"slices"

	"llmprof/measure/native/cuda"
	"llmprof/unit"
)

// A Replay times the operators of a prefill or of a decode step one by one. The kernels of one
// operator in all layers, each with its own weights, are a CUDA graph. Before each graph, and before
// the whole step, which is timed alternately with them, the step runs once. So caches are as cold,
// buffers as full and the GPU as warm as in the step itself, and the host is ahead of the GPU.
type Replay struct {
	Context   int // tokens of a sequence in the cache
	Operators []*OperatorTimes
	Whole     *OperatorTimes // the step as it runs

	e     *Engine
	place func() error // It sets the position that the step begins at.
	watch *cuda.Stopwatch
}

// OperatorTimes are the times of an operator.
type OperatorTimes struct {
	Name     string   // the estimate's name
	Includes []string // operators of the estimate that its kernels include
	Layers   int      // layers that have it; 1 for what the model has once
	Kernels  int      // kernels that it queues in a step; a GEMM of cuBLASLt counts as one
	Times    []unit.Seconds

	graph *cuda.Graph // nil for the whole step
	run   func() error
}

// ReplayPrefill prepares the operators of a prefill. The prompts have to be on the GPU. The first
// Round overwrites the cache, and Step then needs a new prefill.
func (e *Engine) ReplayPrefill() (*Replay, error) {
	e.left = 0
	return e.replay(e.prefill, func() error { return nil }, e.queuePrefill)
}

// ReplayStep prepares the operators of the decode step in the middle of the generated length, after as
// many real steps as lead there. The prompt has to be in the cache, where it stays; first are the
// tokens that its prefill gave. A Step after it needs a Rewind.
func (e *Engine) ReplayStep(first []int32) (*Replay, error) {
	if e.opt.GenLen < 2 {
		return nil, fmt.Errorf("native: one generated token needs no decode step: there is none to time")
	}
	if err := e.Rewind(first); err != nil {
		return nil, err
	}
	past := e.opt.PromptLen + (e.opt.GenLen-2)/2
	for range past - e.opt.PromptLen {
		if _, err := e.Step(); err != nil {
			return nil, err
		}
	}
	e.left = 0
	whole := e.queueStep
	if !e.opt.Eager {
		whole = func() error { return e.step.Launch(e.s) }
	}
	r, err := e.replay(e.decode, func() error { return e.setPositions(past) }, whole)
	if r != nil {
		r.Context = past
	}
	return r, err
}

func (e *Engine) replay(s sequence, place, whole func() error) (r *Replay, err error) {
	r = &Replay{e: e, place: place}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.Close())
			r = nil
		}
	}()
	if r.watch, err = e.s.NewStopwatch(); err != nil {
		return r, err
	}
	kernels := 0
	for _, o := range s.operators() {
		calls := s.of(o.name)
		t := &OperatorTimes{Name: o.name, Includes: o.includes, Layers: calls.layers()}
		before := e.s.Queued()
		if t.graph, err = e.s.Record(calls.queue); err != nil {
			return r, fmt.Errorf("native: the operator %s: %w", o.name, err)
		}
		t.Kernels = e.s.Queued() - before
		kernels += t.Kernels
		t.run = func() error { return t.graph.Launch(e.s) }
		r.Operators = append(r.Operators, t)
	}
	if s.one() {
		kernels = 1
	}
	r.Whole = &OperatorTimes{Layers: 1, Kernels: kernels, run: whole}
	return r, nil
}

// All are the operators in the order of the step, and then the whole.
func (r *Replay) All() []*OperatorTimes { return append(slices.Clone(r.Operators), r.Whole) }

// Round times each operator and the whole once.
func (r *Replay) Round() error {
	for _, t := range r.All() {
		d, err := r.time(t.run)
		if err != nil {
			return err
		}
		t.Times = append(t.Times, d)
	}
	return nil
}

// time is how long the GPU works, after a step that is not timed.
func (r *Replay) time(work func() error) (unit.Seconds, error) {
	err := cuda.InTurn(r.place, r.Whole.run, r.place, func() error { return r.watch.Around(work) }, r.e.s.Sync)
	if err != nil {
		return 0, err
	}
	return r.watch.Took()
}

// Close frees the graphs and the events.
func (r *Replay) Close() error {
	var errs []error
	for _, t := range r.Operators {
		if t.graph != nil {
			errs = append(errs, t.graph.Close())
		}
	}
	if r.watch != nil {
		errs = append(errs, r.watch.Close())
	}
	return errors.Join(errs...)
}
