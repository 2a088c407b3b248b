package experiment

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"time"

	"llmprof/internal/concurrent"
	"llmprof/measure/result"
	"llmprof/unit"
)

// A Measure runs one point and returns a result for each of its processes. It
// stops soon after ctx is done. Results beside an error are what was seen until it
// stopped or failed: they do not count, and are stored apart.
type Measure func(context.Context, Point) ([]*result.Result, error)

// Several measures points that no experiment file has, and keeps them in the store if
// there is one. Results are named after what they are and when they were, so that no
// other is replaced. One that fails does not keep the next from being measured, unless its results cannot be written;
// all that was measured is among the results, with what failed, was interrupted or is not stored, and why in the error.
func Several(ctx context.Context, points []Point, measure Measure, store *Store, notify func(Event)) ([]*result.Result, error) {
	points = slices.Clone(points)
	pinAll(points)
	e := Experiment{Name: "measure-" + time.Now().UTC().Format("20060102T150405") + "-" + rand.Text()[:6], Points: points, Cycles: 1}
	trials, err := e.Trials()
	if err != nil {
		return nil, err
	}
	if store != nil { // before anything is measured that could then not be kept
		if err := store.open(); err != nil {
			return nil, err
		}
	}
	var all []*result.Result
	var errs []error
	for i := range trials {
		t := &trials[i]
		tell := func(state State, err error) {
			if notify != nil {
				notify(Event{Trial: t, At: i + 1, Of: len(trials), State: state, Err: err})
			}
		}
		tell(Started, nil)
		results, err := one(ctx, t, measure, store)
		all = append(all, t.sign(results, "")...)
		if lost := (*UnstoredError)(nil); ctx.Err() != nil || errors.As(err, &lost) {
			return all, errors.Join(append(errs, err)...)
		}
		if err == nil {
			tell(Done, nil)
			continue
		}
		tell(Failed, err)
		if len(trials) > 1 {
			err = fmt.Errorf("%d of %d: %w", i+1, len(trials), err)
		}
		errs = append(errs, err)
	}
	if len(errs) == 1 {
		return all, errs[0]
	}
	return all, errors.Join(errs...)
}

func one(ctx context.Context, t *Trial, measure Measure, store *Store) ([]*result.Result, error) {
	started := time.Now().UTC()
	results, err := measure.pinned(ctx, t.Point)
	if err != nil {
		err = t.Point.secrets().Error(err)
	}
	switch {
	case store == nil || err != nil && len(results) == 0:
		return results, err
	case err != nil:
		return results, store.unfinished(ctx, t, started, "", results, err)
	}
	err = store.keep(t, "", results)
	return slices.DeleteFunc(slices.Clone(results), func(r *result.Result) bool { return r == nil }), err
}

// Options say how an experiment is run.
type Options struct {
	Store   Store
	File    string       // file of the experiment, for the results' provenance
	Gap     unit.Seconds // rest between two runs
	NoRetry bool         // leave runs alone that failed before
	Shard   string       // "2/8" where the trials are a shard of an experiment of which others run elsewhere; they share the store

	// Notify, if not nil, is called before and after each run.
	Notify func(Event)
}

// An Event says how far a run of an experiment is.
type Event struct {
	Trial *Trial // nil for a remark on the store
	At    int    // number of the trial among Of, from 1
	Of    int
	State State
	Err   error  // error of a failed trial
	Note  string // remark for the user
}

// A State is what became of a trial.
type State string

// The states of a trial.
const (
	Started State = "started"
	Done    State = "done"
	Kept    State = "kept"    // The results were in the store.
	Failed  State = "failed"  // the trial failed, and the failure was recorded
	Skipped State = "skipped" // the trial failed before, and NoRetry is set
	Remark  State = "remark"
)

// Run measures what the store lacks of the trials, one after the other. A trial
// that fails is recorded and the next is run; Run's error then counts them. When
// ctx is done, or a result cannot be written, Run stops: all that was
// finished is in the store, or in an UnstoredError.
func Run(ctx context.Context, trials []Trial, measure Measure, o Options) (sum result.Summary, err error) {
	if err := o.Store.open(); err != nil {
		return sum, err
	}
	l, err := o.Store.lock(o.Shard)
	if err != nil {
		return sum, err
	}
	defer func() { err = errors.Join(err, l.release()) }()
	r := &runner{Options: o, measure: measure, sum: result.Summary{Trials: len(trials)}}
	if l.note != "" {
		r.tell(Event{State: Remark, Note: l.note})
	}
	for i := range trials {
		if err := ctx.Err(); err != nil {
			return r.sum, err
		}
		if err := r.trial(ctx, &trials[i], i+1); err != nil {
			return r.sum, err
		}
	}
	if bad := r.sum.Failed + r.sum.Skipped; bad > 0 {
		return r.sum, fmt.Errorf("%d of %d runs have no result", bad, len(trials))
	}
	return r.sum, nil
}

type runner struct {
	Options
	measure Measure
	sum     result.Summary
	ran     bool // something was measured, after which a gap is due
}

func (r *runner) tell(e Event) {
	if r.Notify != nil {
		e.Of = r.sum.Trials
		r.Notify(e)
	}
}

// trial runs one trial unless the store has it. Its error is one that ends the
// whole run.
func (r *runner) trial(ctx context.Context, t *Trial, at int) error {
	done, why := r.Store.finished(t)
	if why != nil {
		r.tell(Event{Trial: t, At: at, State: Remark, Note: fmt.Sprintf(
			"%v; it is measured again, and that file is kept under another name (*%s)", why, asideExtension)})
	}
	if done {
		r.sum.Kept++
		r.tell(Event{Trial: t, At: at, State: Kept})
		return nil
	}
	if r.NoRetry && r.Store.failure(t) != nil {
		r.sum.Skipped++
		r.tell(Event{Trial: t, At: at, State: Skipped})
		return nil
	}
	if err := r.rest(ctx); err != nil {
		return err
	}
	r.tell(Event{Trial: t, At: at, State: Started})
	started := time.Now().UTC()
	results, err := r.measure.pinned(ctx, t.Point)
	err = t.Point.secrets().Error(err)
	r.ran = true
	lost := (*UnstoredError)(nil)
	switch {
	case err != nil && ctx.Err() != nil:
		return r.Store.unfinished(ctx, t, started, r.File, results, ctx.Err())
	case err == nil:
		if err = r.Store.keep(t, r.File, results); errors.As(err, &lost) {
			return err // nothing more is measured that could not be kept
		}
		if err == nil {
			r.sum.Measured++
			r.tell(Event{Trial: t, At: at, State: Done})
			return nil
		}
	}
	r.sum.Failed++
	r.tell(Event{Trial: t, At: at, State: Failed, Err: err})
	more := r.Store.keepPartial(t, r.File, results)
	if more != nil && !errors.As(more, &lost) {
		r.tell(Event{Trial: t, At: at, State: Remark, Note: more.Error()})
		more = nil
	}
	return errors.Join(more, r.Store.fail(t, started, err))
}

// rest waits for the gap between two runs.
func (r *runner) rest(ctx context.Context) error {
	if !r.ran || r.Gap <= 0 {
		return nil
	}
	return concurrent.Wait(ctx, r.Gap.Duration())
}
