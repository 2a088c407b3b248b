package plan

import (
	"fmt"
	"math"
	"slices"
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

func noMiss() Miss { return Miss{Reason: "no split of the model is possible on it", By: math.Inf(1)} }

// missed remembers the nearest miss: of several as near, and of those that cannot be estimated, the first.
func (s *search) missed(m Miss) {
	if m.By < s.miss.By || math.IsInf(m.By, 1) && s.miss == noMiss() {
		s.miss = m
	}
}

// falls reports whether a row misses what was asked for, and remembers the nearest one that does.
func (s *search) falls(r *Row) bool {
	by := s.q.exceeds(r)
	if by > 0 && by < s.miss.By {
		own := *r
		s.missed(Miss{s.q.reason(&own), by, &own})
	}
	return by > 0
}

// late reports whether a step or a prefill takes too long, so that those of larger batches do too.
func (q *Request) late(r *Row) bool { return q.tooSlow(r) }

// tooSlow reports whether a row misses a target.
func (q *Request) tooSlow(r *Row) bool {
	return q.misses(r, TTFT, TPOT, ITL, E2E)
}

// misses reports whether a row misses a target of some figures.
func (q *Request) misses(r *Row, of ...Figure) bool {
	return slices.ContainsFunc(q.Targets, func(t Target) bool { return slices.Contains(of, t.Of) && q.figure(r, &t) > t.Most })
}

// figure is what a row has of a target. A simulated row has the end of what seeds may move the figure to, and no less than the mean of the
// steady state. A row whose sample path was followed has the percentile of that path. Any other row has the mean, which stands for
// percentiles from the 90th on. Both are as much longer as simulations of the split with steps as long were.
func (q *Request) figure(r *Row, t *Target) unit.Seconds {
	steady, longer := [...]unit.Seconds{r.TTFT, r.TPOT, r.TPOT, r.E2E}[t.Of], 1.0
	if r.search != nil {
		longer = max(r.search.longer[r.stepped()][t.Of], 1)
	}
	if r.Simulated == nil {
		if t.At > 0 && t.At < 0.9 {
			return 0
		}
		return steady.Times(longer)
	}
	is, spread := r.Simulated.Of(t)
	if r.Simulated.Path {
		spread = longer - 1
	}
	if is = is.Times(1 + spread); t.At == 0 {
		is = max(is, steady)
	}
	return is
}

// A limit is a figure of a row beside what is asked of it.
type limit struct {
	is, want float64
	said     string
}

// limits are all that is asked of a row.
func (q *Request) limits(r *Row) (all []limit) {
	for i := range q.Targets {
		t := &q.Targets[i]
		is := q.figure(r, t)
		all = append(all, limit{float64(is), float64(t.Most), fmt.Sprintf("a %v of %s for %v", t, beyondLimit(is, t.Most), t.Most)})
	}
	return append(all,
		limit{float64(r.PerHour), float64(q.Budget), fmt.Sprintf("$%s/h for %v", digits(float64(r.PerHour), float64(q.Budget)), q.Budget)},
		limit{float64(r.GPUs), float64(q.MaxGPUs), fmt.Sprintf("%d GPUs for %d", r.GPUs, q.MaxGPUs)})
}

// exceeds is how many times too much the worst figure of a row is, up to mostOver; 0 where none is too much.
func (q *Request) exceeds(r *Row) (by float64) {
	over := func(is, want float64) {
		if want > 0 && is > want {
			by = min(max(by, is/want), mostOver)
		}
	}
	for i := range q.Targets {
		over(float64(q.figure(r, &q.Targets[i])), float64(q.Targets[i].Most))
	}
	over(float64(r.PerHour), float64(q.Budget))
	over(float64(r.GPUs), float64(q.MaxGPUs))
	return by
}

// reason says in what a row misses what was asked for.
func (q *Request) reason(r *Row) string {
	var over []string
	for _, l := range q.limits(r) {
		if l.want > 0 && l.is > l.want {
			over = append(over, l.said)
		}
	}
	return fmt.Sprintf("nearest is %s, with %s", r, strings.Join(over, " and "))
}

// flagOf is the flag of a setting.
func flagOf(key string) string { return "--" + strings.ReplaceAll(key, "_", "-") }

// beyondLimit is a time in three digits, or in as many as show that it is beyond a limit.
func beyondLimit(t, limit unit.Seconds) string {
	shown := Digits(float64(t), 3)
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

// Digits keeps so many digits of a number.
func Digits(v float64, digits int) float64 {
	if v <= 0 {
		return v
	}
	scale := math.Pow(10, float64(digits-1)-math.Floor(math.Log10(v)))
	return math.Round(v*scale) / scale
}
