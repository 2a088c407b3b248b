//go:build unix

package worker_test

import (
	"context"
	"strings"
	"testing"

	"llmprof/internal/testkit"
	"llmprof/measure/worker"
)

// group starts a replica in each of the modes.
func group(t *testing.T, modes ...string) (worker.Group, error) {
	t.Helper()
	g, err := worker.StartGroup(t.Context(), len(modes), func(_ context.Context, i int) (*worker.Worker, error) {
		return start(t, modes[i], worker.Limits{})
	})
	if err == nil {
		t.Cleanup(g.Close)
	}
	return g, err
}

// Close ends every replica, and a command that comes later says so.
func TestGroup(t *testing.T) {
	g, err := group(t, "good", "good", "good")
	testkit.Must(t, err)
	g.Close()
	for i, w := range g {
		if err := w.Prepare(t.Context(), worker.Prefill); len(g) != 3 || err == nil || !strings.Contains(err.Error(), "closed") {
			t.Errorf("replica %d of %d: %v", i, len(g), err)
		}
	}
}

func TestGroupThatCannotStart(t *testing.T) {
	if _, err := group(t, "good", "early"); err == nil || !strings.Contains(err.Error(), "replica 1: ") {
		t.Errorf("got %v", err)
	}
	if _, err := group(t); err == nil {
		t.Error("no replicas were started without an error")
	}
}
