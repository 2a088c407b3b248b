package worker

import (
	"context"
	"fmt"

	"llmprof/internal/concurrent"
)

// A Group is replicas of one engine, each with a model and GPUs of its own.
type Group []*Worker

// StartGroup starts n workers at once. Where one cannot be started, none is left.
func StartGroup(ctx context.Context, n int, start func(ctx context.Context, replica int) (*Worker, error)) (Group, error) {
	if n < 1 {
		return nil, Invalidf("%d replicas", n)
	}
	g := make(Group, n)
	err := concurrent.Do(n, n, func(i int) (err error) {
		if g[i], err = start(ctx, i); err != nil {
			return fmt.Errorf("replica %d: %w", i, err)
		}
		return nil
	})
	if err != nil {
		g.Close()
		return nil, err
	}
	return g, nil
}

// Close ends all replicas.
func (g Group) Close() {
	_ = concurrent.Do(len(g), len(g), func(i int) error {
		if g[i] == nil {
			return nil
		}
		return g[i].Close()
	})
}
