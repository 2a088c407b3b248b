package plan

import (
	"context"
	"errors"
	"math"
	"testing"
	"time"

	"llmprof/internal/testkit"
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
	testkit.Long(t, "a plan for thousands of clients; TestLoadedEqualsBruteForce has loads of tens")
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

// TestAMillionClients sees that what a search simulates does not grow with clients who only wait, and that they wait all the same.
func TestAMillionClients(t *testing.T) {
	wait := map[int]float64{}
	for _, clients := range []int{100_000, 1_000_000} {
		q := request(t, "llama3.1-8b", "a100")
		q.Load.Concurrency, q.Top, q.PerGPU, q.MaxGPUs = clients, 1, 1, 8
		r, err := Search(t.Context(), q)
		if err != nil || len(r.Rows) != 1 {
			t.Fatal(err, len(r.Rows))
		}
		row := &r.Rows[0]
		if n := row.Simulated.Requests; n > 100_000 {
			t.Errorf("%d requests are simulated for %d clients", n, clients)
		}
		at := float64(row.Simulated.Mean[E2E])
		if n := row.Throughput / q.Gen.MeanLength() * float64(row.E2E); math.Abs(n/float64(clients)-1) > 0.01 {
			t.Errorf("by Little's law there are %g clients, not %d", n, clients)
		}
		if math.Abs(at/float64(row.E2E)-1) > 0.1 {
			t.Errorf("%d clients wait for %g s as simulated, %v in the steady state", clients, at, row.E2E)
		}
		wait[clients] = at
	}
	if more := wait[1_000_000] / wait[100_000]; math.Abs(more-10) > 0.2 {
		t.Errorf("ten times as many clients wait %g times as long", more)
	}
}
