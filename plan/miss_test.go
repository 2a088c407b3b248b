package plan

import (
	"strings"
	"testing"

	"llmprof/internal/testkit"
	"llmprof/unit"
)

// A figure that misses its target is told with digits that show it.
func TestMissDigits(t *testing.T) {
	for _, x := range []struct {
		is, limit unit.Seconds
		want      string
	}{
		{0.513, 0.5, "513.0 ms"}, {0.50002, 0.5, "500.02 ms"}, {0.5000004, 0.5, "500.0004 ms"}, {0.0304, 0.03, "30.40 ms"},
		{63.2, 0.5, "63.20 s"}, {2.0004, 2, "2.0004 s"},
		{1.0002, 0.99999, "1.0002 s"},
	} {
		if got := beyondLimit(x.is, x.limit); got != x.want {
			t.Errorf("%v for %v is told as %q, want %q", float64(x.is), float64(x.limit), got, x.want)
		}
	}
	if got := digits(8.0004, 8); got != "8.0004" {
		t.Errorf("8.0004 $/h for 8 are told as %q", got)
	}
}

// Where some deployments do not fit and others do, the reason is what those miss that fit, by however much.
func TestMissOfThoseThatFit(t *testing.T) {
	for want, ask := range map[string]func(*Request){
		"ms for 1.000 ns": func(q *Request) { q.Targets = means(1e-9, 0, 0) },
		"a TPOT of":       func(q *Request) { q.Targets = means(0, 1e-300, 0) },
		"/h for $1e-06/h": func(q *Request) { q.Budget = 1e-6 },
		"does not fit on 1 of them": func(q *Request) {
			q.MaxGPUs, q.Targets, q.Cards = 1, means(1e-9, 0, 0), request(t, "deepseek-v3", "h100").Cards
		},
	} {
		for _, load := range []Load{{}, {Rate: 1}, {Concurrency: 2}} {
			q := request(t, "llama3.1-70b", "h100")
			q.Load = load
			ask(q)
			got, err := Search(t.Context(), q)
			testkit.Must(t, err)
			if len(got.Rejected) != 1 || !strings.Contains(got.Rejected[0].Miss.Reason, want) {
				t.Errorf("%+v: rejected for %+v, want %q", load, got.Rejected, want)
			}
		}
	}
}
