package validate

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sort"

	"llmprof/internal/concurrent"
)

// A Row is an observation beside its prediction.
type Row struct {
	Observation
	Predicted       float64  // expected; seconds or joules
	Floor           *float64 // nil for energies
	PredictedLow    *float64 // 90 % interval of the prediction; nil for energies
	PredictedHigh   *float64
	Error           float64 // predicted over observed, less 1
	Fitted          string  // the constant that was fitted on it; empty if none was
	Kind            string  // what mixes tokens: "attention", "windows", "latent", "sparse" or "hybrid"
	FFN             string  // feed-forward layers of the model: "dense", or "experts" of a mixture
	InHost          string  // what of the model lies in the memory of the host: "nothing", "experts" or "layers"
	FasterThanFloor bool
}

// Inside reports whether the observation is in the predicted interval; ok is
// false where there is none.
func (r *Row) Inside() (inside, ok bool) {
	if r.PredictedLow == nil || r.PredictedHigh == nil {
		return false, false
	}
	return *r.PredictedLow <= r.Value && r.Value <= *r.PredictedHigh, true
}

// A Skip is an observation that is not scored, or a file none could be read of.
type Skip struct {
	Reason      Reason
	Observation *Observation // nil for a file
	Source      string
	Detail      string
}

// A Finding is something about the observations that a reader has to know.
type Finding struct {
	Kind   string `json:"kind" jsonschema:"enum=faster than the floor,enum=contradictory"` // "faster than the floor" or "contradictory"
	Detail string `json:"detail"`                                                          // names of the observations
}

// The kinds of findings.
const (
	BelowFloor    = "faster than the floor"
	Contradictory = "contradictory"
)

// A Score is every observation with its prediction, or with why it has none.
type Score struct {
	Rows     []Row
	Pooled   int // number of observations that Pool put in Rows; 0 before it
	Skipped  []Skip
	Findings []Finding
}

// Score matches observations with estimates. None is left out without a word:
// each is in a row or among those skipped.
func (s *Scorer) Score(all []Observation) *Score {
	s.predictAhead(all)
	out := &Score{}
	seen := map[string]bool{}
	for i := range all {
		o := &all[i]
		key := fmt.Sprintf("%s\x00%s\x00%s\x00%v\x00%v", o.Source, o.ID, o.Metric, o.Config, o.Value)
		if seen[key] {
			out.skip(o, &mismatch{Repeated, errors.New("the same figure of the same measurement came before")})
			continue
		}
		seen[key] = true
		row, err := s.row(o)
		if err != nil {
			out.skip(o, err)
			continue
		}
		if row.FasterThanFloor {
			out.Findings = append(out.Findings, Finding{BelowFloor, fmt.Sprintf(
				"%s: %.4g s observed, %.4g s at least by the data sheet: the measurement or the floor is wrong", row.name(), row.Value, *row.Floor)})
		}
		out.Rows = append(out.Rows, row)
	}
	sort.SliceStable(out.Rows, func(i, j int) bool { // slices.SortStableFunc would be compiled for this type alone, 7 kB of the page's program
		a, b := &out.Rows[i], &out.Rows[j]
		return cmp.Or(slices.Index(metrics(), a.Metric)-slices.Index(metrics(), b.Metric), byConfig(&a.Config, &b.Config)) < 0
	})
	out.contradictions()
	return out
}

func (out *Score) skip(o *Observation, err error) {
	sk := Skip{Reason: Unreadable, Observation: o, Source: o.Source, Detail: err.Error()}
	var m *mismatch
	if errors.As(err, &m) {
		sk.Reason, sk.Detail = m.reason, m.err.Error()
	}
	out.Skipped = append(out.Skipped, sk)
}

// Refuse notes a file that no observation could be made of.
func (out *Score) Refuse(source string, err error) {
	out.Skipped = append(out.Skipped, Skip{Reason: Unreadable, Source: source, Detail: err.Error()})
}

func (s *Scorer) row(o *Observation) (r Row, err error) {
	if err := o.Check(); err != nil {
		return r, &mismatch{Unreadable, err}
	}
	p, err := s.predict(o.Config)
	if err != nil {
		return r, err
	}
	span, err := p.of(&o.Config, o.Metric)
	if err != nil {
		return r, err
	}
	if !(span.expected > 0) {
		return r, &mismatch{Impossible, fmt.Errorf("the estimate has no %s", o.Metric)}
	}
	named := *o
	named.Config = s.Canonical(o.Config)
	return Row{
		Observation: named, Predicted: span.expected, Floor: span.floor, PredictedLow: span.low, PredictedHigh: span.high,
		Error: span.expected/o.Value - 1, Fitted: fitted(&named), FFN: p.ffn, Kind: p.kind, InHost: p.placement,
		FasterThanFloor: span.floor != nil && o.Value < *span.floor,
	}, nil
}

// apart is how far two observations of one configuration may differ, as a ratio
// less 1, before they are said to contradict each other: well beyond the 15 % by
// which two collections of one operator on one kind of GPU were seen to differ.
const apart = 0.2

// A spread is the least and the greatest observation of one configuration.
type spread struct{ least, greatest *Row }

func (s spread) ratio() float64 { return s.greatest.Value / s.least.Value }

func (s spread) String() string {
	a, b := s.least, s.greatest
	return fmt.Sprintf("%s of %s: %.4g (%s) and %.4g (%s)", a.Metric, a.String(), a.Value, a.place(), b.Value, b.place())
}

// spreads are those of all configurations, in the order of the rows.
func (out *Score) spreads() []spread {
	index := map[point]int{}
	var all []spread
	for i := range out.Rows {
		r := &out.Rows[i]
		k, seen := index[r.point()]
		if !seen {
			k = len(all)
			index[r.point()] = k
			all = append(all, spread{r, r})
		}
		if r.Value < all[k].least.Value {
			all[k].least = r
		}
		if r.Value > all[k].greatest.Value {
			all[k].greatest = r
		}
	}
	return all
}

// contradictions finds observations of one configuration that are far apart, and names the farthest of each metric,
// engine and GPU. They are all scored: which of them is right cannot be known here.
func (out *Score) contradictions() {
	type group struct {
		Metric
		engine, gpu string
	}
	farthest, count := map[group]spread{}, map[group]int{}
	var order []group
	for _, s := range out.spreads() {
		if s.ratio() <= 1+apart {
			continue
		}
		g := group{s.least.Metric, s.least.Runs(), s.least.GPU}
		if count[g]++; count[g] == 1 {
			order = append(order, g)
		}
		if count[g] == 1 || s.ratio() > farthest[g].ratio() {
			farthest[g] = s
		}
	}
	for _, g := range order {
		detail := farthest[g].String()
		if n := count[g]; n > 1 {
			detail += fmt.Sprintf("; of %s on %s %d configurations differ by more than %.0f %%", g.engine, g.gpu, n, 100*apart)
		}
		out.Findings = append(out.Findings, Finding{Contradictory, detail})
	}
}

// Worst are the n rows that are farthest off, the farthest first.
func (out *Score) Worst(n int) []*Row {
	rows := make([]*Row, len(out.Rows))
	for i := range out.Rows {
		rows[i] = &out.Rows[i]
	}
	slices.SortStableFunc(rows, func(a, b *Row) int { return cmp.Compare(distance(b), distance(a)) })
	return rows[:min(n, len(rows))]
}

// distance is how far off a prediction is, the same for half as for twice.
func distance(r *Row) float64 {
	ratio := r.Predicted / r.Value
	return max(ratio, 1/ratio)
}

// predictAhead answers for the configurations of observations on all processors, so that
// the rows are then made from what is kept. What all answers read (models, GPUs and
// calibrations) is found first, one after the other.
func (s *Scorer) predictAhead(all []Observation) {
	var todo []Config
	known := map[Config]bool{}
	for i := range all {
		c := all[i].Config
		if _, kept := s.predictions[c]; kept || known[c] || all[i].Check() != nil {
			continue
		}
		known[c] = true
		s.findInputs(&c)
		todo = append(todo, c)
	}
	predictions := make([]found[prediction], len(todo))
	concurrent.Each(len(todo), func(i int) { predictions[i].value, predictions[i].err = s.estimate(todo[i]) })
	if s.predictions == nil {
		s.predictions = make(map[Config]found[prediction], len(todo))
	}
	for i, c := range todo {
		s.predictions[c] = predictions[i]
	}
}

// findInputs looks up what the answer for a configuration reads.
func (s *Scorer) findInputs(c *Config) {
	if m, err := once(&s.models, c.Model, s.Model); err == nil { // the answer says what was wrong
		_, _ = s.store(c, m)
	}
	_, _ = once(&s.gpus, c.GPU, s.GPU)
	if s.change != nil {
		_, _ = once(&s.altered, c.runner(), s.changed)
		return
	}
	_, _ = once(&s.machines, c.runner(), s.prepare)
}
