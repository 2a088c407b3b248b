// Package stats says what a sample of repeated measurements says: its middle,
// its spread, its tails, and how far the mean and the median can be trusted.
package stats

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
)

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

// Describe gives the middle and the tails of xs, which it leaves as they are. An empty sample and a
// value that is not finite are errors: neither may become a number.
func Describe(xs []float64) (*Summary, error) {
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
	return &Summary{
		N: len(s), Mean: Mean(s), Median: Percentile(s, 50), Min: s[0], Max: s[len(s)-1],
		P5: Percentile(s, 5), P25: Percentile(s, 25), P75: Percentile(s, 75),
		P90: Percentile(s, 90), P95: Percentile(s, 95), P99: Percentile(s, 99),
	}, nil
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

// Mean is the sum of a sample over its size. Package stat of gonum has it too, with matrices that the page's program would carry.
func Mean(xs []float64) float64 { return floats.Sum(xs) / float64(len(xs)) }

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
