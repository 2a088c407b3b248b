package validate

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// TestPool checks that observations of one configuration become their median, whoever measured them. Observations of
// other configurations, metrics and fits keep rows of their own.
func TestPool(t *testing.T) {
	rows := []Row{
		rowOf(TTFT, "a", 3, 4, 2, 4), rowOf(TPOT, "a", 1, 2), rowOf(TTFT, "a", 3, 1, 2, 4), rowOf(TTFT, "b", 3, 6, 2, 4),
		rowOf(TTFT, "a", 3, 2.5, 2, 4), rowOf(TTFT, "a", 3, 9, 2, 4),
	}
	rows[2].Source, rows[2].Samples, rows[4].Samples = "other", 5, 7
	rows[4].Params = 1 // counted by one of the engines alone
	rows[5].Fitted = "a constant"
	score := Score{Rows: rows}
	score.Pool()
	type figures struct {
		Metric       Metric
		GPU          string
		Value, Error float64
		Low, High    float64
		Samples      int
		Source       string
		Inside       bool
	}
	var got []figures
	for i := range score.Rows {
		r := &score.Rows[i]
		f := figures{Metric: r.Metric, GPU: r.GPU, Value: r.Value, Error: r.Error, Samples: r.Samples, Source: r.Source}
		f.Inside, _ = r.Inside()
		if r.Low != nil {
			f.Low, f.High = *r.Low, *r.High
		}
		got = append(got, f)
	}
	want := []figures{
		{TTFT, "a", 2.5, 3/2.5 - 1, 1, 4, 12, "several", true},
		{TPOT, "a", 2, -0.5, 0, 0, 0, "test", false},
		{TTFT, "b", 6, -0.5, 0, 0, 0, "test", false},
		{TTFT, "a", 9, 3.0/9 - 1, 0, 0, 0, "test", false},
	}
	if d := cmp.Diff(want, got, cmpopts.EquateApprox(0, 1e-12)); d != "" {
		t.Error(d)
	}
	if score.Pooled != len(rows) {
		t.Errorf("%d observations were pooled, want %d", score.Pooled, len(rows))
	}
	for i := range score.Rows {
		if err := score.Rows[i].Check(); err != nil {
			t.Errorf("%s: %v", score.Rows[i].name(), err)
		}
	}
}

// TestPoolKeepsSingles holds that the program's own observations keep their errors where a configuration was observed
// once, and that no error of a median is beyond those of its observations.
func TestPoolKeepsSingles(t *testing.T) {
	score := scorer(t).Score(embedded(t))
	least, greatest, count := map[point]float64{}, map[point]float64{}, map[point]int{}
	for i := range score.Rows {
		r := &score.Rows[i]
		p := r.point()
		if count[p]++; count[p] == 1 {
			least[p], greatest[p] = r.Error, r.Error
		}
		least[p], greatest[p] = min(least[p], r.Error), max(greatest[p], r.Error)
	}
	all := len(score.Rows)
	score.Pool()
	if len(score.Rows) >= all || score.Pooled != all {
		t.Fatalf("%d rows of %d", len(score.Rows), all)
	}
	for i := range score.Rows {
		r := &score.Rows[i]
		if e, p := r.Error, r.point(); e < least[p]-1e-12 || e > greatest[p]+1e-12 {
			t.Errorf("%s: error %g, of its observations %g to %g", r.name(), e, least[p], greatest[p])
		}
	}
}
