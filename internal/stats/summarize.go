//go:build !js

package stats

import (
	"math"
	"slices"
	"sort"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// confidence is the level of every interval in a Summary.
const confidence = 0.95

// Summarize describes xs as Describe does, with the spread and the intervals of two values or more.
func Summarize(xs []float64) (*Summary, error) {
	sum, err := Describe(xs)
	if err == nil && sum.N > 1 {
		sum.spread(slices.Sorted(slices.Values(xs)))
	}
	return sum, err
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
