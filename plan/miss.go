package plan

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"strings"

	"llmprof/unit"
)

// infinite is the miss of what cannot be estimated.
var infinite = math.Inf(1)

// The misses of deployments that run but come to no steady state, and of those that do not fit into the memory, are beyond any by which one
// misses a target, the budget or the number of GPUs: of all reasons that is the nearest which the user can do something about.
const (
	mostOver = 1e99
	unstable = 1e100
	unfit    = 1e200
)

// A nearest is the nearest of the misses of a card, and the place of its deployment in the list of all.
type nearest struct {
	Miss
	place int
}

// nearer reports whether a miss is nearer than another one, or as near and of an earlier deployment.
func (n *nearest) nearer(o *nearest) bool { return n.By < o.By || n.By == o.By && n.place < o.place }

func noMiss() nearest {
	return nearest{Miss{Reason: "no split of the model is possible on it", By: math.Inf(1)}, math.MaxInt}
}

func compareMisses(a, b *Miss) int { return cmp.Compare(a.By, b.By) }

// missed remembers the nearest miss: of several as near, that of the first deployment in the list of all. Of those that cannot be estimated
// the first counts.
func (s *search) missed(m Miss) {
	if s.nearer(m.By) || s.miss.Row == nil && math.IsInf(m.By, 1) && s.miss == noMiss() {
		s.miss = nearest{m, s.at}
	}
}

// nearer reports whether a miss by so much is nearer than the nearest so far.
func (s *search) nearer(by float64) bool {
	return (&nearest{Miss{By: by}, s.at}).nearer(&s.miss)
}

// falls reports whether a row misses what was asked for, and remembers the nearest one that does. Words are made of that alone.
func (s *search) falls(r *Row) bool {
	by := s.q.exceeds(r)
	if by > 0 && (by <= s.miss.By || math.IsInf(by, 1)) {
		own := *r
		m := s.q.misses(&own)
		m.Row = &own
		s.missed(m)
	}
	return by > 0
}

// late reports whether a step or a prefill takes too long, so that those of larger
// batches do too.
func (q *Request) late(r *Row) bool {
	t := &q.Targets
	return t.TTFT > 0 && r.TTFT > t.TTFT || t.TPOT > 0 && r.TPOT > t.TPOT || t.E2E > 0 && r.E2E > t.E2E
}

// exceeds is how many times too much the worst figure of a row is, up to mostOver; 0 where none is too much.
func (q *Request) exceeds(r *Row) (by float64) {
	t := &q.Targets
	for _, x := range [...]struct{ is, want float64 }{
		{float64(r.TTFT), float64(t.TTFT)}, {float64(r.TPOT), float64(t.TPOT)}, {float64(r.E2E), float64(t.E2E)},
		{float64(r.PerHour), float64(q.Budget)}, {float64(r.GPUs), float64(q.MaxGPUs)},
	} {
		if x.want > 0 && x.is > x.want {
			by = min(max(by, x.is/x.want), mostOver)
		}
	}
	return by
}

// misses says in what the row misses what was asked for; the Reason is empty where it
// misses nothing.
func (q *Request) misses(r *Row) (m Miss) {
	if m.By = q.exceeds(r); m.By == 0 {
		return m
	}
	var over []string
	add := func(is, want float64, format string, args ...any) {
		if want > 0 && is > want {
			over = append(over, fmt.Sprintf(format, args...))
		}
	}
	t := &q.Targets
	add(float64(r.TTFT), float64(t.TTFT), "a TTFT of %s for %v", beyond(r.TTFT, t.TTFT), t.TTFT)
	add(float64(r.TPOT), float64(t.TPOT), "a TPOT of %s for %v", beyond(r.TPOT, t.TPOT), t.TPOT)
	add(float64(r.E2E), float64(t.E2E), "%s a request for %v", beyond(r.E2E, t.E2E), t.E2E)
	add(float64(r.PerHour), float64(q.Budget), "$%s/h for %v", digits(float64(r.PerHour), float64(q.Budget)), q.Budget)
	add(float64(r.GPUs), float64(q.MaxGPUs), "%d GPUs for %d", r.GPUs, q.MaxGPUs)
	m.Reason = fmt.Sprintf("nearest is %s, with %s", r, strings.Join(over, " and "))
	return m
}

// beyond is a time in three digits, or in as many as show that it is beyond a limit.
func beyond(t, limit unit.Seconds) string {
	shown := rounded(float64(t), 3)
	if text := unit.Seconds(shown).String(); text != limit.String() && shown > float64(limit) {
		return text
	}
	number, symbol, _ := strings.Cut(limit.String(), " ")
	of, err := strconv.ParseFloat(number, 64)
	if err != nil || of == 0 {
		return t.String()
	}
	return digits(float64(t)/float64(limit)*of, of) + " " + symbol
}

// digits is a number with two decimals, or with as many as show that it is above a limit.
func digits(v, limit float64) string {
	for n := 2; n < 12; n++ {
		text := strconv.FormatFloat(v, 'f', n, 64)
		if shown, _ := strconv.ParseFloat(text, 64); v <= limit || shown > limit {
			return text
		}
	}
	return strconv.FormatFloat(v, 'g', -1, 64)
}

// rounded keeps so many digits of a number.
func rounded(v float64, digits int) float64 {
	if v <= 0 {
		return v
	}
	scale := math.Pow(10, float64(digits-1)-math.Floor(math.Log10(v)))
	return math.Round(v*scale) / scale
}
