package plan

import (
	"context"
	"sort"

	"llmprof/serving"
	"llmprof/unit"
)

// A Loaded is a row under another load than it was planned for.
type Loaded struct {
	Times           float64 // the load over the one that comes
	TTFT, TPOT, E2E unit.Seconds
	Why             string // why there is no steady state; "" where there is
}

// Loads are multiples of the load that a row is shown under.
var Loads = []float64{1, 1.5, 2}

// under is a row under multiples of the load, at the end of the interval that was asked for.
func (r *Row) under(ctx context.Context, q *Request) (all []Loaded) {
	s, v := *r.search, variant{r.Budget, r.Limit, r.Drafts, r.Prefill / r.from.DP}
	for _, times := range Loads {
		l := Loaded{Times: times, TTFT: r.TTFT, TPOT: r.TPOT, E2E: r.E2E}
		if own := *q; times != max(q.Headroom, 1) {
			own.Headroom, s.q = times, &own
			st, err := s.state(ctx, r.from, v, r, r.slower)
			if err != nil {
				st, l.Why = &serving.Steady{}, err.Error()
			}
			l.TTFT, l.TPOT, l.E2E = st.TTFT, st.TPOT, st.E2E
		}
		all = append(all, l)
	}
	return all
}

const (
	mostSlack = 2.0  // slack beyond which none is looked for
	slackStep = 0.01 // in which it is told
)

// slack is by how many times longer everything may take, beyond the end of the interval that was asked for, until the row misses a target
// or no longer answers the load.
func (r *Row) slack(ctx context.Context, q *Request) float64 {
	s, v := r.search, variant{r.Budget, r.Limit, r.Drafts, r.Prefill / r.from.DP}
	steps := int((mostSlack - 1) / slackStep)
	n := sort.Search(steps, func(i int) bool {
		x := 1 + float64(i+1)*slackStep
		st, err := s.state(ctx, r.from, v, r, r.slower*x)
		if err != nil {
			return true
		}
		own := *r
		own.TTFT, own.TPOT, own.E2E = st.TTFT, st.TPOT, st.E2E
		if own.Simulated != nil { // percentiles grow as the means do
			own.Simulated = own.Simulated.grown([figures]float64{float64(st.TTFT / r.TTFT), ratio(st.TPOT, r.TPOT), ratio(st.TPOT, r.TPOT),
				float64(st.E2E / r.E2E)})
		}
		return q.tooSlow(&own)
	})
	return 1 + float64(n)*slackStep
}

func ratio(a, b unit.Seconds) float64 {
	if b == 0 {
		return 1
	}
	return float64(a / b)
}

// grown is a simulation whose figures are so many times as long.
func (s *Simulated) grown(by [figures]float64) *Simulated {
	own := *s
	for f := range figures {
		own.Mean[f] = own.Mean[f].Times(by[f])
		for i := range own.At[f] {
			own.At[f][i] = own.At[f][i].Times(by[f])
		}
	}
	return &own
}
