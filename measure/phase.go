package measure

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"llmprof/internal/stats"
	"llmprof/measure/power"
	"llmprof/measure/worker"
	"llmprof/unit"
)

// A phaseRun is the passes and the windows of one phase.
type phaseRun struct {
	passes  []pass // the measured ones
	all     []pass // passes, with warm-up and those that ran while the meters found an edge
	warmups int
	last    int // number of warm-up passes in the last block
	quiet   int // index of the first pass after the meters had closed their window
	steady  bool
	window  *power.Window // nil if energy was not wanted
}

func (r *phaseRun) line(p worker.Phase) string {
	state := "steady"
	if !r.steady {
		state = "measured"
	}
	var times []float64
	for i := range r.passes {
		times = append(times, r.passes[i].seconds())
	}
	text := fmt.Sprintf("%s: %s after %d passes; %d more", p, state, r.warmups, len(r.passes))
	if m := stats.MedianOf(times); m != nil {
		text += fmt.Sprintf(" of %v", unit.Seconds(*m))
	}
	return text
}

// The states of a watch.
type stage int

const (
	warming   stage = iota // until times are steady
	opening                // the meters look for their first edge
	measuring              // until there are repeats enough, for long enough
	closing                // the meters look for their last edge
	apart                  // passes without the meters, to know what they cost
	over                   // all is known; replicas beside may not be done
)

// A watch steers a phase while it runs, by the passes that the worker has
// finished. The worker never waits for it: the meters' edges are found beside.
type watch struct {
	s   *session
	ctx context.Context
	phaseRun
	steadiness
	phase  worker.Phase
	stage  stage
	from   int       // first measured pass
	begun  time.Time // start of the measurement
	give   time.Time // up waiting for steady times
	mark   power.Mark
	opened chan error
	closed chan edge
	err    error
	said   time.Time // how far it is
}

// An edge is what closing a window gave.
type edge struct {
	window *power.Window
	err    error
}

// phase repeats one phase until it is steady, and from then on measures.
func (s *session) phase(ctx context.Context, p worker.Phase) (*phaseRun, error) {
	if err := s.worker.Prepare(ctx, p); err != nil {
		return nil, err
	}
	w := &watch{
		s: s, ctx: ctx, phase: p, opened: make(chan error, 1), closed: make(chan edge, 1),
		give: time.Now().Add(s.set.WarmupLimit),
	}
	w.block = s.set.WarmupBlock.Seconds()
	if err := s.group.meet(ctx, p); err != nil {
		return nil, err
	}
	_, err := s.worker.Run(ctx, worker.Run{Phase: p, Passes: math.MaxInt32}, func(p worker.Pass) {
		if w.err == nil {
			w.err = w.pass(p)
		}
		if w.err != nil || w.stage == over && s.group.over(w.phase) {
			w.err = errors.Join(w.err, s.worker.Stop())
		}
	})
	if s.set.Progress != nil {
		s.set.Progress("")
	}
	if err := errors.Join(w.err, err); err != nil {
		return nil, err
	}
	return &w.phaseRun, nil
}

// pass takes a finished pass and moves the watch on.
func (w *watch) pass(p worker.Pass) error {
	w.all = append(w.all, pass{p})
	w.say()
	switch w.stage {
	case warming:
		if w.warmed() {
			w.warmups, w.last = len(w.all), w.latest()
			w.open()
		}
	case opening:
		select {
		case err := <-w.opened:
			w.measure()
			return err
		default:
		}
	case measuring:
		if len(w.all)-w.from >= w.s.set.Repeats && (w.s.meter == nil || time.Since(w.begun) >= w.s.set.Window) {
			w.close()
		}
	case closing:
		select {
		case last := <-w.closed:
			w.window = last.window
			w.passes, w.quiet, w.begun, w.stage = w.all[w.from:], len(w.all), time.Now(), apart
			return last.err
		default:
		}
	case apart:
		if w.phase != worker.Decode || len(w.all)-w.quiet >= blockPasses && time.Since(w.begun) >= w.s.set.WarmupBlock {
			w.finish()
		}
	}
	return nil
}

// measure begins to count passes.
func (w *watch) measure() {
	w.from, w.begun, w.stage = len(w.all), time.Now(), measuring
	w.s.look(w.ctx)
}

// open finds the first edge of the meters' window while the worker goes on;
// without meters there is nothing to wait for.
func (w *watch) open() {
	if w.s.meter == nil {
		w.measure()
		return
	}
	w.stage = opening
	go func() {
		var err error
		w.mark, err = w.s.meter.Begin(w.ctx)
		w.opened <- err
	}()
}

// finish ends the session's part; passes that follow only keep the load of the other replicas.
func (w *watch) finish() {
	w.stage = over
	w.s.group.leave(w.phase)
}

// close finds the last edge.
func (w *watch) close() {
	if w.s.meter == nil {
		w.passes = w.all[w.from:]
		w.s.seen(w.phase)
		w.finish()
		return
	}
	w.stage = closing
	go func() {
		window, err := w.s.meter.End(w.ctx, w.mark)
		w.closed <- edge{window, err}
	}()
}

// warmed says if the warm-up is over: after the passes asked for, or once times
// are steady, or when it has taken too long.
func (w *watch) warmed() bool {
	if n := w.s.set.Warmup; n != steady {
		return len(w.all) >= n
	}
	w.steady = w.add(w.all[len(w.all)-1].seconds())
	return w.steady || time.Now().After(w.give)
}

// between is how often passes are reported.
const between = time.Second / 4

// say reports how far the phase is, and how long it still takes at least where that is known.
func (w *watch) say() {
	report := w.s.set.Progress
	if report == nil || time.Since(w.said) < between {
		return
	}
	w.said = time.Now()
	switch w.stage {
	case warming:
		report(fmt.Sprintf("%s: pass %d of the warm-up, which ends when times are steady", w.phase, len(w.all)))
	case opening, measuring:
		report(fmt.Sprintf("%s: %d passes measured, %v left", w.phase, max(len(w.all)-w.from, 0), w.left().Round(time.Second)))
	case closing, apart:
		report(fmt.Sprintf("%s: passes without meters, to know what these cost", w.phase))
	case over:
		report("")
	}
}

// left is how long the measured passes still take: as many as are wanted, for as long as
// the meters' window lasts.
func (w *watch) left() time.Duration {
	if w.stage != measuring {
		return w.s.set.Window
	}
	spent, done := time.Since(w.begun), len(w.all)-w.from
	var passes time.Duration
	if done > 0 {
		passes = time.Duration(float64(spent) / float64(done) * float64(max(w.s.set.Repeats-done, 0)))
	}
	if w.s.meter == nil {
		return passes
	}
	return max(passes, w.s.set.Window-spent)
}
