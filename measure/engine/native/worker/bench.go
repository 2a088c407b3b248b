package worker

import (
	"errors"
	"fmt"
	"os"

	"llmprof/measure/engine"
	"llmprof/measure/engine/native"
	"llmprof/measure/engine/native/cuda"
)

// bench times one operator. What makes the GPU ready for it stays for the next.
func (w *worker) bench(b *engine.Bench) error {
	q := native.Query{Kind: b.Kind, Shape: b.Shape, Rotate: b.Rotate, Samples: b.Samples, Seconds: b.Seconds, TP: b.TP, Rest: b.Rest}
	switch {
	case b.DType != "bf16":
		return &engine.Failure{Kind: engine.Unsupported, Message: fmt.Sprintf("the native engine computes in bf16 alone, not in %q", b.DType)}
	case b.Device == "cpu":
		return &engine.Failure{Kind: engine.Unsupported, Message: "the native engine needs a GPU, not the CPU"}
	}
	var lacks *native.UnsupportedError
	if err := q.Check(); err != nil && !errors.As(err, &lacks) {
		return engine.Invalidf("%v", err)
	} else if err != nil {
		return err
	}
	if w.bencher == nil {
		if err := w.unload(); err != nil {
			return err
		}
		var err error
		if w.bencher, err = native.OpenBencher(b.Libraries, cuda.UserCache()); err != nil {
			return err
		}
	}
	var ahead []native.Query
	for _, a := range b.Ahead {
		ahead = append(ahead, native.Query{Kind: a.Kind, Shape: a.Shape, TP: a.TP, Rotate: b.Rotate, Samples: 1})
	}
	w.bencher.Ahead(ahead)
	t, err := w.bencher.Time(&q)
	if err != nil {
		return err
	}
	d := w.bencher.Device()
	w.send(engine.Event{Event: "timed", Timed: &engine.Timed{
		Seconds: t.Seconds, Graph: true, Cold: t.Cold, Device: engine.Device{Name: d.Name, UUID: d.UUID, PID: os.Getpid()},
	}})
	return nil
}
