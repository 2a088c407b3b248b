//go:build unix

package engine_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"llmprof/internal/testkit"
	"llmprof/measure/engine"
)

// group starts a replica in each of the modes.
func group(t *testing.T, modes ...string) (engine.Group, error) {
	t.Helper()
	g, err := engine.StartGroup(t.Context(), len(modes), func(_ context.Context, i int) (*engine.Worker, error) {
		return start(t, modes[i], engine.Limits{})
	})
	if err == nil {
		t.Cleanup(g.Close)
	}
	return g, err
}

func TestGroup(t *testing.T) {
	g, err := group(t, "good", "good", "good")
	testkit.Must(t, err)
	ready, err := g.Load(t.Context(), engine.Load{})
	if err != nil || len(ready) != 3 || ready[2].PromptLen != 4 {
		t.Fatalf("%+v, %v", ready, err)
	}
	passes := map[int]int{}
	done, err := g.Run(t.Context(), engine.Run{Phase: engine.Prefill, Passes: 4}, func(replica int, _ engine.Pass) { passes[replica]++ })
	if err != nil || len(done) != 3 || passes[0] != 4 || passes[1] != 4 || passes[2] != 4 {
		t.Errorf("%v, %v, %v", done, passes, err)
	}
}

// The replica that fails is named, and what the others finished is kept.
func TestGroupWithABrokenReplica(t *testing.T) {
	g, err := group(t, "good", "crash")
	testkit.Must(t, err)
	passes := map[int]int{}
	done, err := g.Run(t.Context(), engine.Run{Phase: engine.Decode, Seconds: 600}, func(replica int, _ engine.Pass) { passes[replica]++ })
	var crash *engine.Crash
	if !errors.As(err, &crash) || !strings.Contains(err.Error(), "replica 1: ") {
		t.Errorf("got %v", err)
	}
	if done[0] == nil || done[0].Passes != passes[0] || passes[0] < 1 || passes[1] != 2 {
		t.Errorf("%+v, %v", done[0], passes)
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
