package stats

import (
	"encoding/binary"
	"math"
	"math/bits"
	"slices"
	"testing"
)

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-6*max(1, math.Abs(b)) }

func summarize(t *testing.T, xs ...float64) *Summary {
	t.Helper()
	s, err := Summarize(xs)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestPercentiles compares with numpy.percentile(range(1, 11), p) and
// numpy.percentile([3, 1, 2], p), whose default is Hyndman and Fan's type 7:
// rank (n-1)p/100 between the sorted values.
func TestPercentiles(t *testing.T) {
	s := summarize(t, 10, 3, 1, 9, 2, 8, 4, 7, 5, 6)
	for name, pair := range map[string][2]float64{
		"p5": {s.P5, 1.45}, "p25": {s.P25, 3.25}, "median": {s.Median, 5.5}, "p75": {s.P75, 7.75},
		"p90": {s.P90, 9.1}, "p95": {s.P95, 9.55}, "p99": {s.P99, 9.91}, "min": {s.Min, 1}, "max": {s.Max, 10}, "mean": {s.Mean, 5.5},
	} {
		if !near(pair[0], pair[1]) {
			t.Errorf("%s is %v, want %v", name, pair[0], pair[1])
		}
	}
	for p, want := range map[float64]float64{0: 1, 10: 1.2, 50: 2, 75: 2.5, 100: 3} {
		if got := Percentile([]float64{1, 2, 3}, p); !near(got, want) {
			t.Errorf("percentile %v is %v, want %v", p, got, want)
		}
	}
}

// TestStudent compares with R: t.test(sleep$extra[1:10]) gives a mean of 0.75
// and the interval -0.5297804 to 2.0297804; sd() gives 1.78901.
func TestStudent(t *testing.T) {
	s := summarize(t, 0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0)
	for name, pair := range map[string][2]float64{
		"mean": {s.Mean, 0.75}, "low": {*s.MeanLow, -0.5297804}, "high": {*s.MeanHigh, 2.0297804},
		"sd": {*s.StdDev, 1.7890100}, "cv": {*s.CV, 2.3853467},
	} {
		if !near(pair[0], pair[1]) {
			t.Errorf("%s is %v, want %v", name, pair[0], pair[1])
		}
	}
	// The 0.975 quantiles of Student's t, from any table.
	for n, want := range map[int]float64{2: 12.706205, 3: 4.302653, 6: 2.570582, 10: 2.262157, 31: 2.042272, 1001: 1.962339} {
		if got := TCritical(n); !near(got, want) {
			t.Errorf("t of %d values is %v, want %v", n, got, want)
		}
	}
}

// TestFew checks what one value and two can tell.
func TestFew(t *testing.T) {
	one := summarize(t, 0.25)
	for _, v := range []float64{one.Mean, one.Median, one.Min, one.Max, one.P5, one.P25, one.P75, one.P90, one.P95, one.P99} {
		if v != 0.25 {
			t.Errorf("%+v", one)
		}
	}
	if one.StdDev != nil || one.CV != nil || one.MeanLow != nil || one.MeanHigh != nil || one.MedianLow != nil || one.MedianHigh != nil {
		t.Errorf("one value has a spread: %+v", one)
	}
	two := summarize(t, 3, 1)
	if two.Median != 2 || !near(*two.StdDev, math.Sqrt2) || !near(*two.MeanHigh, 2+12.706205) || two.MedianLow != nil {
		t.Errorf("%+v", two)
	}
	for _, bad := range [][]float64{nil, {}, {1, math.NaN()}, {math.Inf(1)}, {math.Inf(-1), 2}, {1e200, 2}} {
		if s, err := Summarize(bad); err == nil {
			t.Errorf("%v gave %+v", bad, s)
		}
	}
}

// TestTies checks that equal values have no spread and intervals of no width, and
// that a mean of 0 has no coefficient of variation.
func TestTies(t *testing.T) {
	s := summarize(t, 2, 2, 2, 2, 2, 2, 2)
	if *s.StdDev != 0 || *s.CV != 0 || *s.MeanLow != 2 || *s.MeanHigh != 2 || *s.MedianLow != 2 || *s.MedianHigh != 2 || s.P99 != 2 {
		t.Errorf("%+v", s)
	}
	if z := summarize(t, -1, 1); z.CV != nil || z.StdDev == nil {
		t.Errorf("%+v", z)
	}
}

// TestLeavesInput checks that the sample is not sorted in place.
func TestLeavesInput(t *testing.T) {
	xs := []float64{3, 1, 2}
	summarize(t, xs...)
	if !slices.Equal(xs, []float64{3, 1, 2}) {
		t.Errorf("the sample became %v", xs)
	}
}

// TestIdentities scales and shifts a sample, which scales and shifts all that
// is said of it.
func TestIdentities(t *testing.T) {
	xs := []float64{0.31, 0.29, 0.35, 0.30, 0.33, 0.28, 0.30, 0.41}
	s := summarize(t, xs...)
	moved := make([]float64, len(xs))
	for i, x := range xs {
		moved[i] = 3*x + 7
	}
	m := summarize(t, moved...)
	for name, pair := range map[string][2]float64{
		"mean": {m.Mean, 3*s.Mean + 7}, "median": {m.Median, 3*s.Median + 7}, "p95": {m.P95, 3*s.P95 + 7}, "sd": {*m.StdDev, 3 * *s.StdDev},
		"low": {*m.MeanLow, 3**s.MeanLow + 7}, "median low": {*m.MedianLow, 3**s.MedianLow + 7},
		"middle of the interval": {(*s.MeanLow + *s.MeanHigh) / 2, s.Mean},
		"half of the interval":   {(*s.MeanHigh - *s.MeanLow) / 2, TCritical(s.N) * StdErr(*s.StdDev, s.N)},
	} {
		if !near(pair[0], pair[1]) {
			t.Errorf("%s is %v, want %v", name, pair[0], pair[1])
		}
	}
}

// TestMedianRank goes through every way in which up to 16 values can lie about
// the median, all alike probable, and counts how many an interval covers.
func TestMedianRank(t *testing.T) {
	covered := func(n, k int) float64 {
		hit := 0
		for pattern := range 1 << n {
			if under := bits.OnesCount(uint(pattern)); under > k && n-under > k {
				hit++
			}
		}
		return float64(hit) / float64(int(1)<<n)
	}
	for n := 1; n <= 16; n++ {
		k := medianRank(n)
		if k >= 0 && covered(n, k) < confidence {
			t.Errorf("n = %d: ranks %d and %d cover %v", n, k, n-1-k, covered(n, k))
		}
		if k+1 <= n-2-k && covered(n, k+1) >= confidence {
			t.Errorf("n = %d: rank %d is not the narrowest: %d covers %v", n, k, k+1, covered(n, k+1))
		}
	}
	// The ranks of Hahn and Meeker's tables, counted from 1: 6 values give 1 and
	// 6, 10 give 2 and 9, 20 give 6 and 15, 100 give 40 and 61.
	for n, want := range map[int]int{5: -1, 6: 0, 10: 1, 20: 5, 100: 39} {
		if got := medianRank(n); got != want {
			t.Errorf("n = %d: rank %d, want %d", n, got, want)
		}
	}
}

// FuzzSummarize holds the order of what is said of any sample of finite values.
func FuzzSummarize(f *testing.F) {
	f.Add([]byte{})
	f.Add(binary.LittleEndian.AppendUint64(nil, math.Float64bits(0.5)))
	f.Add(binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, math.Float64bits(-1e300)), math.Float64bits(1e300)))
	f.Fuzz(func(t *testing.T, data []byte) {
		var xs []float64
		for ; len(data) >= 8; data = data[8:] {
			xs = append(xs, math.Float64frombits(binary.LittleEndian.Uint64(data)))
		}
		s, err := Summarize(xs)
		if err != nil {
			return
		}
		if order := []float64{s.Min, s.P5, s.P25, s.Median, s.P75, s.P90, s.P95, s.P99, s.Max}; !slices.IsSorted(order) {
			t.Errorf("%v: out of order: %v", xs, order)
		}
		for _, v := range []*float64{&s.Mean, s.StdDev, s.CV, s.MeanLow, s.MeanHigh, s.MedianLow, s.MedianHigh} {
			if v != nil && (math.IsNaN(*v) || math.IsInf(*v, 0)) {
				t.Errorf("%v: %+v", xs, s)
			}
		}
	})
}
