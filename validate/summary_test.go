package validate

import (
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// rowOf is a row with an error and, if it is given, an interval around it.
func rowOf(metric Metric, gpu string, predicted, observed float64, interval ...float64) Row {
	r := Row{Observation: observation(), Predicted: predicted, Error: predicted/observed - 1}
	r.Metric, r.GPU, r.Value = metric, gpu, observed
	if len(interval) == 2 {
		r.PredictedLow, r.PredictedHigh = &interval[0], &interval[1]
	}
	return r
}

// TestSummarizeByHand compares with figures worked out by hand: errors of +10,
// -20, +30, -40 and 0 %.
func TestSummarizeByHand(t *testing.T) {
	rows := []Row{
		rowOf(TPOT, "a", 1.1, 1, 0.9, 1.2), rowOf(TPOT, "a", 0.8, 1, 0.7, 0.9), rowOf(TPOT, "a", 2.6, 2, 1.5, 3),
		rowOf(TPOT, "a", 3, 5, 2, 4), rowOf(TPOT, "a", 4, 4, 3, 5),
	}
	rows[0].Low, rows[0].High = new(0.98), new(1.02)
	rows[2].Low, rows[2].High = new(1.9), new(2.1)
	got := Summarize(rows, ByGPU)
	want := []Summary{{
		Group: Group{Metric: TPOT, GPU: new("a")}, N: 5,
		// The third greatest of 20 ratios less 1 is 3, the second 4.
		Bias: -0.04, MedianAPE: 0.2, MeanAPE: 0.2, P90APE: 0.36, Coverage: new(0.6), Noise: new(0.035), Repeat: new(3.1),
	}}
	if d := cmp.Diff(want, got, cmpopts.EquateApprox(0, 1e-12)); d != "" {
		t.Error(d)
	}
}

// TestSummarizeGroups checks that groups are told apart by what was asked for, by
// metric and by fit, and by nothing else.
func TestSummarizeGroups(t *testing.T) {
	rows := []Row{
		rowOf(TPOT, "b", 1, 1), rowOf(TTFT, "a", 1, 1), rowOf(TPOT, "a", 1, 1), rowOf(EnergyPerToken, "a", 2, 1), rowOf(TPOT, "a", 1, 1),
	}
	rows[4].Fitted = "a constant"
	count := func(by ...Dimension) (n []int) {
		for _, s := range Summarize(rows, by...) {
			n = append(n, s.N)
		}
		return n
	}
	if got, want := count(), []int{1, 2, 1, 1}; !slices.Equal(got, want) {
		t.Errorf("without dimensions %v, want %v", got, want)
	}
	if got, want := count(ByGPU), []int{1, 1, 1, 1, 1}; !slices.Equal(got, want) {
		t.Errorf("by GPU %v, want %v", got, want)
	}
	for i, ffn := range []string{"dense", "dense", "experts", "dense", "dense"} {
		rows[i].FFN = ffn
	}
	if got, want := count(ByFFN), []int{1, 1, 1, 1, 1}; !slices.Equal(got, want) {
		t.Errorf("by the kind of layers %v, want %v", got, want)
	}
	all := Summarize(rows)
	if s := all[0]; s.Coverage != nil || s.Reason == nil {
		t.Errorf("coverage without intervals is %v, reason %v", s.Coverage, s.Reason)
	}
	if got := Over(all, 0.5); len(got) != 1 || got[0].Metric != EnergyPerToken {
		t.Errorf("over 50 %%: %v", got)
	}
	if got := Over(Summarize(rows[4:]), -1); len(got) != 0 {
		t.Errorf("a fitted group is over the limit: %v", got)
	}
}

// TestSummarizeAgain works the figures of the embedded observations out in a
// second way, and holds that groups add up to their union.
func TestSummarizeAgain(t *testing.T) {
	rows := scorer(t).Score(embedded(t)).Rows
	total, weighted := map[Metric]int{}, map[Metric]float64{}
	for _, s := range Summarize(rows, dimensions()...) {
		total[s.Metric] += s.N
		weighted[s.Metric] += s.MeanAPE * float64(s.N)
	}
	for _, m := range metrics() {
		var n int
		var sum float64
		for i := range rows {
			if rows[i].Metric == m {
				n++
				sum += math.Abs(rows[i].Predicted-rows[i].Value) / rows[i].Value
			}
		}
		if n == 0 || n != total[m] || math.Abs(sum-weighted[m]) > 1e-9*sum {
			t.Errorf("%s: %d rows and a sum of errors of %v, by groups %d and %v", m, n, sum, total[m], weighted[m])
		}
	}
	for _, s := range Summarize(rows, ByEngine, ByGPU) {
		below := 0
		for i := range rows {
			r := &rows[i]
			if r.Metric == s.Metric && r.Runs() == *s.Engine && r.GPU == *s.GPU && (r.Fitted != "") == s.Fitted &&
				math.Abs(r.Error) <= s.P90APE+1e-12 {
				below++
			}
		}
		if share := float64(below) / float64(s.N); share < 0.9-1/float64(s.N) {
			t.Errorf("%s: %v of the rows are under the 90th percentile", s.String(), share)
		}
	}
}

func TestParseDimension(t *testing.T) {
	for _, d := range dimensions() {
		if got, err := ParseDimension(string(d)); err != nil || got != d {
			t.Errorf("%s: %v, %v", d, got, err)
		}
	}
	if _, err := ParseDimension("colour"); err == nil {
		t.Error("colour is taken for a dimension")
	}
}
