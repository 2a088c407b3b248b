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
	q.Load.Concurrency, q.Targets.E2E = 1000, 20
	return q
}

// TestCrowdedPlanEnds bounds the time of such a plan, generously, for other tests may run beside it.
func TestCrowdedPlanEnds(t *testing.T) {
	begin := time.Now()
	if _, err := Search(t.Context(), crowded(t)); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(begin); took > 30*time.Second {
		t.Errorf("it took %v", took)
	}
}

// TestPlanCancelled ends a context in the middle of such a plan.
func TestPlanCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	q := crowded(t)
	var ended time.Time
	time.AfterFunc(300*time.Millisecond, func() { ended = time.Now(); cancel() })
	_, err := Search(ctx, q)
	if late := time.Since(ended); !errors.Is(err, context.Canceled) || late > time.Second {
		t.Errorf("it returned %v after it was cancelled: %v", late, err)
	}
}
