package process

import (
	"errors"
	"fmt"
	"math"
	"os"

	"llmprof/measure/native"
	"llmprof/measure/native/cuda"
	"llmprof/measure/worker"
)

// replays has the timed operators of a phase for each rank. Ranks synchronize in the
// middle of a step, so every rank takes part in each round.
type replays struct {
	team *native.Team
	of   []*native.Replay
}

// each does something with every rank's.
func (r *replays) each(do func(*native.Replay) error) error {
	return r.team.Each(func(rank int, _ *native.Engine) error {
		if r.of[rank] == nil {
			return nil
		}
		return do(r.of[rank])
	})
}

func (r *replays) close() error { return r.each((*native.Replay).Close) }

// ops times the operators of a phase one by one, after one round of warm-up.
func (w *server) ops(o *worker.Ops) error {
	if math.IsNaN(o.Seconds) || o.Seconds < 0 || o.Rounds < 0 || o.Rounds == 0 && o.Seconds == 0 {
		return worker.Invalidf("%d rounds and %v s of operators: want a number of rounds or of seconds", o.Rounds, o.Seconds)
	}
	r, err := w.session.replay(o.Phase)
	if err != nil {
		return err
	}
	begin, rounds, err := w.rounds(r, o)
	if err = errors.Join(err, r.close()); err != nil {
		return err
	}
	w.send(opEvents(o.Phase, r.of[0])...)
	w.send(worker.Event{Event: "done", Done: &worker.Done{Passes: rounds, BeginNS: begin, EndNS: w.clock()}})
	return nil
}

// rounds repeats the operators until there are enough rounds, at least one, and drops the
// times of the warm-up round.
func (w *server) rounds(r *replays, o *worker.Ops) (begin int64, rounds int, err error) {
	if err := r.each((*native.Replay).Round); err != nil {
		return 0, 0, err
	}
	for _, t := range r.of[0].All() {
		t.Times = t.Times[:0]
	}
	begin = w.clock()
	for rounds == 0 || (rounds < o.Rounds || float64(w.clock()-begin) < o.Seconds*1e9) && !w.stopped.Load() {
		if err := r.each((*native.Replay).Round); err != nil {
			return begin, rounds, err
		}
		rounds++
	}
	return begin, rounds, nil
}

func (s *session) replay(p worker.Phase) (*replays, error) {
	var prepare func(e *native.Engine) (*native.Replay, error)
	switch p {
	case worker.Prefill:
		s.first = nil // the cache is overwritten
		if err := s.team.SetPrompts(s.prompts[0]); err != nil {
			return nil, err
		}
		prepare = (*native.Engine).ReplayPrefill
	case worker.Decode:
		if err := s.prepare(p); err != nil {
			return nil, err
		}
		prepare = func(e *native.Engine) (*native.Replay, error) { return e.ReplayStep(s.first) }
	default:
		return nil, worker.Invalidf("no operators of the phase %q: there are prefill, decode", p)
	}
	r := &replays{team: s.team, of: make([]*native.Replay, s.team.Ranks())}
	err := s.team.Each(func(rank int, e *native.Engine) (err error) {
		r.of[rank], err = prepare(e)
		return err
	})
	if err != nil {
		return nil, errors.Join(err, r.close())
	}
	return r, nil
}

// opEvents returns an event for each operator in order, and one for the whole step as the last.
func opEvents(p worker.Phase, r *native.Replay) []worker.Event {
	var events []worker.Event
	for _, t := range r.All() {
		op := &worker.Op{Phase: p, Whole: t == r.Whole, Name: t.Name, Includes: t.Includes, Layers: t.Layers, Kernels: t.Kernels,
			Context: r.Context}
		if op.Whole {
			op.Name = "step"
		}
		for _, d := range t.Times {
			op.SamplesS = append(op.SamplesS, float64(d))
		}
		events = append(events, worker.Event{Event: "op", Op: op})
	}
	return events
}

// bench times one operator. What makes the GPU ready for it stays for the next.
func (w *server) bench(b *worker.Bench) error {
	q := native.Query{Kind: b.Kind, Shape: b.Shape, Rotate: b.Rotate, Samples: b.Samples, Seconds: b.Seconds, TP: b.TP, Rest: b.Rest}
	switch {
	case b.DType != "bf16":
		return &worker.Failure{Kind: worker.Unsupported, Message: fmt.Sprintf("the native engine computes in bf16 alone, not in %q", b.DType)}
	case b.Device == "cpu":
		return &worker.Failure{Kind: worker.Unsupported, Message: "the native engine needs a GPU, not the CPU"}
	}
	var lacks *native.UnsupportedError
	if err := q.Check(); err != nil && !errors.As(err, &lacks) {
		return worker.Invalidf("%v", err)
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
	w.send(worker.Event{Event: "timed", Timed: &worker.Timed{
		Seconds: t.Seconds, Graph: true, Cold: t.Cold, Device: worker.Device{Name: d.Name, UUID: d.UUID, PID: os.Getpid()},
	}})
	return nil
}
