package engine

import (
	"context"
	"errors"
	"fmt"
	"time"
)

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
	if len(b.Seconds) == 0 {
		return errors.New("it has no sample")
	}
	for _, s := range b.Seconds {
		if !duration(s) || s == 0 {
			return fmt.Errorf("a sample is %v, not a time", s)
		}
	}
	return nil
}

// Bench times one operator.
func (w *Worker) Bench(ctx context.Context, b Bench) (*Timed, error) {
	doing := "bench " + b.Kind
	w.asked = fmt.Sprintf("%s of %v", b.Kind, b.Shape)
	if err := w.send(Command{Do: "bench", Bench: &b}); err != nil {
		return nil, err
	}
	e, err := w.answer(ctx, doing, w.limits.Load+time.Duration((b.Seconds+b.Rest)*float64(time.Second)))
	if err != nil {
		return nil, err
	}
	if e.Timed == nil {
		return nil, w.violated(doing, e, fmt.Errorf("%s is no answer to bench", e.Event))
	}
	return e.Timed, nil
}
