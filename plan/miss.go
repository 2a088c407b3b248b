package plan

import (
	"cmp"
	"fmt"
	"math"
	"strings"

	"llmprof/unit"
)

// infinite is the miss of what cannot be estimated.
var infinite = math.Inf(1)

func noMiss() Miss { return Miss{Reason: "no split of the model is possible on it", By: math.Inf(1)} }

func compareMisses(a, b *Miss) int { return cmp.Compare(a.By, b.By) }

// missed remembers the nearest miss. Of those that cannot be estimated the first counts.
func (s *search) missed(m Miss) {
	if m.By < s.miss.By || s.miss.Row == nil && math.IsInf(m.By, 1) && s.miss == noMiss() {
		s.miss = m
	}
}

// late reports whether a step or a prefill takes too long, so that those of larger
// batches do too.
func (q *Request) late(r *Row) bool {
	t := &q.Targets
	return t.TTFT > 0 && r.TTFT > t.TTFT || t.TPOT > 0 && r.TPOT > t.TPOT || t.E2E > 0 && r.E2E > t.E2E
}

// misses says in what the row misses what was asked for; the Reason is empty where it
// misses nothing.
func (q *Request) misses(r *Row) (m Miss) {
	var over []string
	add := func(is, want float64, format string, args ...any) {
		if want > 0 && is > want {
			over = append(over, fmt.Sprintf(format, args...))
			m.By = max(m.By, is/want)
		}
	}
	t := &q.Targets
	add(float64(r.TTFT), float64(t.TTFT), "a TTFT of %v for %v", round(r.TTFT), t.TTFT)
	add(float64(r.TPOT), float64(t.TPOT), "a TPOT of %v for %v", round(r.TPOT), t.TPOT)
	add(float64(r.E2E), float64(t.E2E), "%v a request for %v", round(r.E2E), t.E2E)
	add(float64(r.PerHour), float64(q.Budget), "%.2f $/h for %.2f", float64(r.PerHour), float64(q.Budget))
	add(float64(r.GPUs), float64(q.MaxGPUs), "%d GPUs for %d", r.GPUs, q.MaxGPUs)
	if len(over) > 0 {
		m.Reason = fmt.Sprintf("nearest is %s, with %s", r, strings.Join(over, " and "))
	}
	return m
}

// round keeps three digits of a time.
func round(t unit.Seconds) unit.Seconds {
	if t <= 0 {
		return t
	}
	scale := math.Pow(10, 2-math.Floor(math.Log10(float64(t))))
	return unit.Seconds(math.Round(float64(t)*scale) / scale)
}
