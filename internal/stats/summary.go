// Package stats says what a sample of repeated measurements says: its middle,
// its spread, its tails, and how far the mean and the median can be trusted.
package stats

import (
	"fmt"
	"math"
	"slices"
	"sort"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// confidence is the level of every interval in a Summary.
const confidence = 0.95

// greatest is the magnitude up to which a sample's squares can be summed.
const greatest = 1e150

// A Summary describes a sample. What a sample of its size cannot show is nil:
// one value has no spread, and no interval.
type Summary struct {
	N      int     `json:"n"`
	Mean   float64 `json:"mean"`
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
	P5     float64 `json:"p5"`
	P25    float64 `json:"p25"`
	P75    float64 `json:"p75"`
	P90    float64 `json:"p90"`
	P95    float64 `json:"p95"`
	P99    float64 `json:"p99"`

	StdDev *float64 `json:"stddev"` // standard deviation with n-1
	CV     *float64 `json:"cv"`     // standard deviation over mean

	MeanLow    *float64 `json:"mean_low"` // Student's t interval of the mean
	MeanHigh   *float64 `json:"mean_high"`
	MedianLow  *float64 `json:"median_low"` // order statistics: no shape of the distribution is assumed
	MedianHigh *float64 `json:"median_high"`
}

// Summarize describes xs, which it leaves as they are. An empty sample and a
// value that is not finite are errors: neither may become a number.
func Summarize(xs []float64) (*Summary, error) {
	if len(xs) == 0 {
		return nil, fmt.Errorf("no samples to summarize")
	}
	for i, x := range xs {
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return nil, fmt.Errorf("sample %d of %d is %v: want a finite number", i+1, len(xs), x)
		}
		if math.Abs(x) > greatest {
			return nil, fmt.Errorf("sample %d of %d is %v: want at most %v, beyond which squares are not finite", i+1, len(xs), x, greatest)
		}
	}
	s := slices.Sorted(slices.Values(xs))
	sum := &Summary{
		N: len(s), Mean: stat.Mean(s, nil), Median: Percentile(s, 50), Min: s[0], Max: s[len(s)-1],
		P5: Percentile(s, 5), P25: Percentile(s, 25), P75: Percentile(s, 75),
		P90: Percentile(s, 90), P95: Percentile(s, 95), P99: Percentile(s, 99),
	}
	if len(s) > 1 {
		sum.spread(s)
	}
	return sum, nil
}

// Values are what of gives for the items that have it.
func Values[T any](items []T, of func(*T) *float64) (all []float64) {
	for i := range items {
		if v := of(&items[i]); v != nil {
			all = append(all, *v)
		}
	}
	return all
}

// Of describes what of gives for the items that have it, nil where none has, or where a value is not finite.
func Of[T any](items []T, of func(*T) *float64) *Summary {
	s, err := Summarize(Values(items, of))
	if err != nil {
		return nil
	}
	return s
}

// spread adds what takes two values or more.
func (sum *Summary) spread(sorted []float64) {
	sd := stat.StdDev(sorted, nil)
	sum.StdDev = &sd
	if cv := sd / math.Abs(sum.Mean); !math.IsNaN(cv) && !math.IsInf(cv, 0) {
		sum.CV = &cv
	}
	half := TCritical(sum.N) * StdErr(sd, sum.N)
	low, high := sum.Mean-half, sum.Mean+half
	sum.MeanLow, sum.MeanHigh = &low, &high
	if k := medianRank(sum.N); k >= 0 {
		sum.MedianLow, sum.MedianHigh = &sorted[k], &sorted[sum.N-1-k]
	}
}

// TCritical is how many standard errors the interval of a mean of n values, two
// or more, reaches to either side.
func TCritical(n int) float64 {
	return distuv.StudentsT{Mu: 0, Sigma: 1, Nu: float64(n - 1)}.Quantile(0.5 + confidence/2)
}

// StdErr is the standard error of a mean of n values.
func StdErr(sd float64, n int) float64 { return sd / math.Sqrt(float64(n)) }

// medianRank is the largest k for which the values of ranks k and n-1-k (from
// 0) enclose the median with the wanted confidence, or -1 if even the extremes
// do not. The number of values under the median is binomial with p = 1/2, so
// the chance to miss is 2 P(X <= k). (Hahn and Meeker, Statistical Intervals,
// 1991, section 5.2.)
func medianRank(n int) int {
	d := distuv.Binomial{N: float64(n), P: 0.5}
	return sort.Search((n+1)/2, func(k int) bool { return 2*d.CDF(float64(k)) > 1-confidence }) - 1
}

// Median is the middle of a sample in any order, which has a value at least.
func Median(xs []float64) float64 { return Percentile(slices.Sorted(slices.Values(xs)), 50) }

// MedianOf is the median of any sample, nil of none.
func MedianOf(xs []float64) *float64 {
	if len(xs) == 0 {
		return nil
	}
	return new(Median(xs))
}

// Percentile is the p-th percentile of a sorted sample, with values between
// ranks interpolated linearly (Hyndman and Fan's type 7, the default of NumPy).
func Percentile(sorted []float64, p float64) float64 {
	at := p / 100 * float64(len(sorted)-1)
	i := int(at)
	if i+1 >= len(sorted) {
		return sorted[len(sorted)-1]
	}
	return min(sorted[i]+(at-float64(i))*(sorted[i+1]-sorted[i]), sorted[i+1]) // rounding may pass the end
}
