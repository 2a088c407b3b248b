package worker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Ops asks for the operators of a phase, each timed by itself. A worker ends
// after the first round with which both numbers are reached, or after the round
// in which it reads "stop". It answers with an op for each operator, one for the
// whole, and done.
type Ops struct {
	Phase   Phase   `json:"phase"`   // Prefill, or Decode for the step at the middle of the generated length
	Rounds  int     `json:"rounds"`  // each times the whole and every operator once
	Seconds float64 `json:"seconds"` // least time of all rounds together
}

// An Op is one operator of a step in all layers that have it, or the whole step.
type Op struct {
	Phase    Phase     `json:"phase"`
	Whole    bool      `json:"whole,omitempty"`    // the step as it runs; it comes last, and its name is "step"
	Name     string    `json:"name"`               // name of the operator in an estimate
	Includes []string  `json:"includes,omitempty"` // others of the estimate's that its kernels do beside it
	Layers   int       `json:"layers"`
	Kernels  int       `json:"kernels"`   // kernels launched in a step; a product of a library counts as one
	Context  int       `json:"context"`   // tokens of a sequence in the cache before the step
	SamplesS []float64 `json:"samples_s"` // time of all layers together by the device's events, one sample a round
}

func (o *Op) check() error {
	switch {
	case slices.Contains(o.SamplesS, 0):
		return fmt.Errorf("%.40q took 0 s: want a time above 0", o.Name)
	case o.Name == "":
		return errors.New("it has no name")
	case o.Layers < 1 || o.Kernels < 1:
		return fmt.Errorf("%.40q has %d layers and %d kernels: want at least 1", o.Name, o.Layers, o.Kernels)
	case len(o.SamplesS) == 0:
		return fmt.Errorf("%.40q has no samples", o.Name)
	}
	return nil
}

// check refuses what cannot be timed.
func (o Ops) check() error {
	switch {
	case o.Phase != Prefill && o.Phase != Decode:
		return Invalidf("no operators of the phase %q: there are prefill, decode", o.Phase)
	case o.Rounds < 0 || !duration(o.Seconds):
		return Invalidf("%d rounds and %v s", o.Rounds, o.Seconds)
	case o.Rounds == 0 && o.Seconds == 0:
		return Invalidf("operators need a number of rounds or of seconds")
	}
	return nil
}

// Ops times the operators of a phase one by one. The whole step is the last of
// them. A worker that cannot answers with a *Failure of kind Unsupported.
func (w *Worker) Ops(ctx context.Context, o Ops) ([]Op, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	if err := w.send(Command{Do: "ops", Ops: &o}); err != nil {
		return nil, err
	}
	during := "ops " + string(o.Phase)
	var all []Op
	for {
		e, err := w.answer(ctx, during, w.limits.Load) // all of them come at the end
		if err != nil {
			return nil, err
		}
		switch {
		case e.Op != nil:
			if err := fits(all, e.Op, o.Phase); err != nil {
				return nil, w.violated(during, e, err)
			}
			all = append(all, *e.Op)
		case e.Done == nil:
			return nil, w.violated(during, e, fmt.Errorf("%s is no answer to ops", e.Event))
		case len(all) < 2 || !all[len(all)-1].Whole:
			return nil, w.violated(during, e, errors.New("done came before an operator and the whole"))
		default:
			return all, nil
		}
	}
}

// fits checks that an operator belongs to those before it.
func fits(before []Op, o *Op, phase Phase) error {
	switch {
	case o.Phase != phase:
		return fmt.Errorf("an operator of %q among those of %q", o.Phase, phase)
	case slices.ContainsFunc(before, func(b Op) bool { return b.Name == o.Name }):
		return fmt.Errorf("the operator %.40q came twice", o.Name)
	case slices.ContainsFunc(before, func(b Op) bool { return b.Whole }):
		return fmt.Errorf("the operator %.40q came after the whole", o.Name)
	case len(before) > 0 && len(before[0].SamplesS) != len(o.SamplesS):
		return fmt.Errorf("%.40q has %d samples, %.40q has %d: want one a round", o.Name, len(o.SamplesS), before[0].Name,
			len(before[0].SamplesS))
	case len(before) > 0 && before[0].Context != o.Context:
		return fmt.Errorf("%.40q is at context %d, %.40q at %d", o.Name, o.Context, before[0].Name, before[0].Context)
	}
	return nil
}

// Bench asks how long one operator takes by itself. No model has to be loaded:
// what is loaded is let go.
type Bench struct {
	Kind      string         `json:"kind"`         // kind of operator; package calibrate has the kinds
	Shape     map[string]int `json:"shape"`        // sizes by name
	DType     string         `json:"dtype"`        // "bf16", "fp16" or "fp32"
	Device    string         `json:"device"`       // "cuda" or "cpu"; "" for a GPU where there is one
	TP        int            `json:"tp,omitempty"` // GPUs that it runs over; 0 is 1
	Rotate    int            `json:"rotate"`       // bytes that buffers are rotated over, so that none is in a cache
	Samples   int            `json:"samples"`
	Seconds   float64        `json:"seconds"`             // least duration, together with Samples
	Rest      float64        `json:"rest"`                // seconds of idling before it, for a burst
	Libraries string         `json:"libraries,omitempty"` // where to look for the CUDA libraries
	Ahead     []Bench        `json:"ahead,omitempty"`     // later queries (kind, shape and tp alone), which are prepared beside this one
}

// Timed is the times of one operator.
type Timed struct {
	Seconds []float64 `json:"seconds"` // samples, each of one call
	Graph   bool      `json:"graph"`   // in a CUDA graph
	Cold    bool      `json:"cold"`    // every buffer was rotated over Rotate bytes
	Device  Device    `json:"device"`
	Notes   []string  `json:"notes,omitempty"`
}

func (b *Timed) check() error {
	if len(b.Seconds) == 0 || slices.Contains(b.Seconds, 0) {
		return errors.New("it has no sample, or one of 0 s, which is not a time")
	}
	return nil
}

// Bench times one operator.
func (w *Worker) Bench(ctx context.Context, b Bench) (*Timed, error) {
	w.asked = fmt.Sprintf("%s of %v", b.Kind, b.Shape)
	limit := w.limits.Load + time.Duration((b.Seconds+b.Rest)*float64(time.Second))
	return ask(ctx, w, Command{Do: "bench", Bench: &b}, "bench "+b.Kind, limit, func(e *Event) *Timed { return e.Timed })
}
