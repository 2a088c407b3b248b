package serving

import (
	"testing"

	"llmprof/analytic/casetest"
	"llmprof/internal/testkit"
)

// TestByLittle holds states of clients whose simulation would take too long to those that are simulated, and bounds the events of all of
// them.
func TestByLittle(t *testing.T) {
	uneven := Lengths{Kind: "uniform", Low: 200, High: 3000}
	for _, clients := range []int{4, 40, 400, 4000} {
		s := server(t, "llama3.1-8b", "h100", 1, "vllm")
		s.CacheTokens = 60000
		all, err := s.Steadies(t.Context(), uneven, uneven)
		testkit.Must(t, err)
		want, err := all.Concurrency(clients, 1)
		testkit.Must(t, err)
		events := 4000
		all.Within(&events)
		got, err := all.Concurrency(clients, 1)
		testkit.Must(t, err)
		casetest.Near(t, "rate", got.Rate, want.Rate, 0.15)
		casetest.Near(t, "TPOT", got.TPOT, want.TPOT, 0.15)
		casetest.Near(t, "E2E", got.E2E, want.E2E, 0.15)
		if events < 0 {
			t.Errorf("%d clients took %d events more than there were", clients, -events)
		}
	}
}
