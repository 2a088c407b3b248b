package worker

import (
	"context"
	"errors"
	"fmt"
	"sync"
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
