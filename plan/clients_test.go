package plan

import (
	"context"
	"errors"
	"testing"
	"time"

	"llmprof/serving"
)

// crowded is a plan for many clients with long, uneven requests, of which each steady state would take seconds to simulate.
func crowded(t *testing.T) *Request {
	q := request(t, "deepseek-v3", "b200")
	q.Prompt, q.Gen = serving.Lengths{Kind: "uniform", Low: 1, High: 131000}, serving.Lengths{Kind: "lognormal", Mean: 128, Spread: 2}
	q.Load.Concurrency, q.Targets = 1000, means(0, 0, 20)
	return q
}

// TestCrowdedPlanEnds sees that such a plan ends: its simulations are bounded by their events. It takes some seconds of an idle machine.
func TestCrowdedPlanEnds(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	if _, err := Search(ctx, crowded(t)); err != nil {
		t.Fatal(err)
	}
}

// TestPlanCancelled ends a context in the middle of such a plan.
func TestPlanCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	q := crowded(t)
	var ended time.Time
	time.AfterFunc(300*time.Millisecond, func() { ended = time.Now(); cancel() })
	_, err := Search(ctx, q)
	if late := time.Since(ended); !errors.Is(err, context.Canceled) || late > 10*time.Second {
		t.Errorf("it returned %v after it was cancelled: %v", late, err)
	}
}
