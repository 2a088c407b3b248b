package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// A Group is replicas of one engine, each with a model and GPUs of its own.
type Group []*Worker

// StartGroup starts n workers at once. Where one cannot be started, none is left.
func StartGroup(ctx context.Context, n int, start func(ctx context.Context, replica int) (*Worker, error)) (Group, error) {
	if n < 1 {
		return nil, Invalidf("%d replicas", n)
	}
	g := make(Group, n)
	err := g.all(func(i int, _ *Worker) (err error) {
		g[i], err = start(ctx, i)
		return err
	})
	if err != nil {
		g.Close()
		return nil, err
	}
	return g, nil
}

// Load loads the same on all replicas.
func (g Group) Load(ctx context.Context, l Load) ([]*Ready, error) {
	ready := make([]*Ready, len(g))
	err := g.all(func(i int, w *Worker) (err error) {
		ready[i], err = w.Load(ctx, l)
		return err
	})
	return ready, err
}

// headStart is how long before the common start the replicas get the command.
const headStart = 100 * time.Millisecond

// Run repeats a phase on all replicas, which begin at one moment of their common
// clock. Passes are handed on one at a time. When one replica fails, the others
// end after the pass that they are in, so what they finished is kept.
func (g Group) Run(ctx context.Context, r Run, each func(replica int, p Pass)) ([]*Done, error) {
	if err := g.all(func(_ int, w *Worker) error { return w.Prepare(ctx, r.Phase) }); err != nil {
		return nil, err
	}
	now, err := g[0].prepare(ctx, r.Phase) // nothing is left to prepare: it returns the time
	if err != nil {
		return nil, err
	}
	r.StartNS = now.EndNS + headStart.Nanoseconds()
	var mu sync.Mutex
	done := make([]*Done, len(g))
	err = g.all(func(i int, w *Worker) (err error) {
		done[i], err = w.Run(ctx, r, func(p Pass) {
			mu.Lock()
			defer mu.Unlock()
			if each != nil {
				each(i, p)
			}
		})
		if err != nil {
			g.Stop()
		}
		return err
	})
	return done, err
}

// Stop asks all replicas to end their run.
func (g Group) Stop() {
	for _, w := range g {
		_ = w.Stop() // one that is gone has stopped
	}
}

// Close ends all replicas.
func (g Group) Close() {
	_ = g.all(func(_ int, w *Worker) error {
		if w == nil {
			return nil
		}
		return w.Close()
	})
}

// all calls do for each replica at once and joins the errors by replica.
func (g Group) all(do func(i int, w *Worker) error) error {
	errs := make([]error, len(g))
	var calls sync.WaitGroup
	for i, w := range g {
		calls.Go(func() {
			if err := do(i, w); err != nil {
				errs[i] = fmt.Errorf("replica %d: %w", i, err)
			}
		})
	}
	calls.Wait()
	return errors.Join(errs...)
}
