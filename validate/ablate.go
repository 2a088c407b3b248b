package validate

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"

	"llmprof/analytic"
	"llmprof/internal/concurrent"
	"llmprof/internal/stats"
	"llmprof/roofline"
)

// idealize puts a constant to what it is of ideal hardware and an ideal engine. Where
// nothing is known of it, other constants stand in, and it stays.
func idealize(c *roofline.Constants, k roofline.Constant) {
	if i := k.Info(); c[k] != 0 || !i.Optional && !i.Engine {
		c[k] = i.Ideal
	}
}

// An Effect is what an ideal constant does to the error of the rows of one
// metric that a constant was, or was not, fitted on.
type Effect struct {
	Metric Metric  `json:"metric"`
	Fitted bool    `json:"fitted"`                                  // whether it counts the observations that a constant was fitted on
	N      int     `json:"n" jsonschema:"minimum=1"`                // rows
	Moved  int     `json:"moved"`                                   // observations whose prediction depends on the constant
	Median float64 `json:"median_ape" jsonschema:"minimum=0"`       // median absolute error with all constants as they are
	Ideal  float64 `json:"ideal_median_ape" jsonschema:"minimum=0"` // median absolute error with this constant ideal
}

// Buys is by how much the median error grows without the constant.
func (e *Effect) Buys() float64 { return e.Ideal - e.Median }

// An Ablation is what one constant buys.
type Ablation struct {
	Name    string
	About   string
	Ideal   float64
	Effects []Effect // effects by metric, those of fitted rows last
}

// Moved counts the rows whose prediction depends on the constant.
func (a *Ablation) Moved(fitted bool) (n int) {
	for i := range a.Effects {
		if a.Effects[i].Fitted == fitted {
			n += a.Effects[i].Moved
		}
	}
	return n
}

// Buys is the mean over the metrics of what the constant buys, each metric with
// the same weight; ok is false where there are no such rows.
func (a *Ablation) Buys(fitted bool) (mean float64, ok bool) {
	n := 0
	for i := range a.Effects {
		if e := &a.Effects[i]; e.Fitted == fitted {
			mean, n = mean+e.Buys(), n+1
		}
	}
	return mean / float64(max(n, 1)), n > 0
}

// Ablate predicts every row anew with one constant after the other put to its
// ideal and all others kept. Those that buy most come first. The last return
// value is that of all constants ideal at once.
func (s *Scorer) Ablate(rows []Row) ([]Ablation, *Ablation, error) {
	for i := range rows { // fills what is kept, so that the copies below look nothing up
		if _, err := s.caseOf(&rows[i].Config); err != nil {
			return nil, nil, err
		}
	}
	constants := slices.DeleteFunc(roofline.All(), roofline.Constant.OfScheme)
	sets := make([][]roofline.Constant, 0, len(constants)+1)
	for _, c := range constants {
		sets = append(sets, append([]roofline.Constant{c}, c.Variants()...))
	}
	sets = append(sets, roofline.All())
	found, errs := make([]Ablation, len(sets)), make([]error, len(sets))
	var told sync.Mutex
	done := 0
	concurrent.Each(len(sets), func(i int) {
		found[i].Effects, errs[i] = s.without(sets[i], rows)
		told.Lock()
		defer told.Unlock()
		if done++; s.Progress != nil {
			s.Progress(done, len(sets))
		}
	})
	for i, err := range errs {
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", sets[i][0], err)
		}
	}
	each, together := found[:len(constants)], &found[len(constants)]
	for i := range each {
		k := constants[i].Info()
		each[i].Name, each[i].About, each[i].Ideal = k.Key, k.Help, k.Ideal
	}
	together.Name, together.About = "all of them", "every constant of this list"
	slices.SortStableFunc(each, func(a, b Ablation) int {
		x, _ := a.Buys(false)
		y, _ := b.Buys(false)
		return cmp.Or(cmp.Compare(y, x), b.Moved(false)-a.Moved(false))
	})
	return each, together, nil
}

// changing is a scorer whose estimates have altered constants. It has what s has looked up.
func (s *Scorer) changing(change func(*roofline.Constants)) *Scorer {
	return &Scorer{
		Model: s.Model, GPU: s.GPU, Calibration: s.Calibration, change: change,
		models: maps.Clone(s.models), gpus: maps.Clone(s.gpus), stored: maps.Clone(s.stored), engines: maps.Clone(s.engines),
	}
}

// without are the effects of putting some constants to their ideals.
func (s *Scorer) without(set []roofline.Constant, rows []Row) ([]Effect, error) {
	other := s.changing(func(c *roofline.Constants) {
		for _, k := range set {
			idealize(c, k)
		}
	})
	type group struct {
		Metric
		fitted bool
	}
	before, after, moved := map[group][]float64{}, map[group][]float64{}, map[group]int{}
	for i := range rows {
		r := &rows[i]
		expected, err := other.anew(r)
		if err != nil {
			return nil, err
		}
		g := group{r.Metric, r.Fitted != ""}
		before[g] = append(before[g], math.Abs(r.Error))
		after[g] = append(after[g], math.Abs(expected/r.Value-1))
		if expected != r.Predicted {
			moved[g]++
		}
	}
	var effects []Effect
	for _, fitted := range []bool{false, true} {
		for _, m := range metrics() {
			g := group{m, fitted}
			if n := len(before[g]); n > 0 {
				effects = append(effects, Effect{m, fitted, n, moved[g], stats.Median(before[g]), stats.Median(after[g])})
			}
		}
	}
	return effects, nil
}

// altering reports whether change alters a constant of an engine on a GPU.
func (s *Scorer) altering(r runner) (bool, error) {
	return once(&s.alters, r, func(r runner) (bool, error) {
		g, e, file, err := s.calibrated(r)
		if err != nil {
			return false, err
		}
		cal, err := analytic.Constants(g, e, file)
		before := cal.Constants
		s.change(&cal.Constants)
		return cal.Constants != before, err
	})
}

// anew is the prediction of a row with the constants altered. Where the engine on that GPU
// has the altered values already, it is the one that the row has.
func (s *Scorer) anew(r *Row) (expected float64, err error) {
	if alters, err := s.altering(r.runner()); err != nil || !alters {
		return r.Predicted, err
	}
	p, err := s.predict(r.Config)
	if err != nil {
		return 0, err
	}
	span, err := p.of(&r.Config, r.Metric)
	return span.expected, err
}
