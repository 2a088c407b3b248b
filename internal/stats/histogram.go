package stats

import (
	"fmt"
	"iter"
	"math"
	"slices"
)

// A Histogram is a sample of values from 0 up in bins whose ends have one ratio, so that each value is known to
// within it, however many there are.
type Histogram struct {
	Ratio float64 `json:"ratio" jsonschema:"minimum=1,maximum=2"` // upper end of a bin over its lower end
	// Bin i reaches from ratio^(first+i) to ratio^(first+i+1); the lowest bin that there can be begins at 0.
	First  int   `json:"first" jsonschema:"signed"`
	Counts []int `json:"counts"` // values in each bin
}

const (
	binRatio = 1.02
	least    = 1e-9 // lower values are in the lowest bin
	mostBins = 10_000
)

// NewHistogram sorts values into bins.
func NewHistogram(xs []float64) *Histogram {
	h := &Histogram{Ratio: binRatio}
	if len(xs) == 0 {
		return h
	}
	h.First = h.bin(slices.Min(xs))
	h.Counts = make([]int, h.bin(slices.Max(xs))-h.First+1)
	for _, x := range xs {
		h.Counts[h.bin(x)-h.First]++
	}
	return h
}

func (h *Histogram) bin(x float64) int {
	return int(math.Floor(math.Log(max(x, least)) / math.Log(h.Ratio)))
}

// ends are those of a bin.
func (h *Histogram) ends(i int) (low, high float64) {
	low, high = math.Pow(h.Ratio, float64(h.First+i)), math.Pow(h.Ratio, float64(h.First+i+1))
	if low <= least {
		low = 0
	}
	return low, high
}

// N is how many values there are.
func (h *Histogram) N() (n int) {
	for _, count := range h.Counts {
		n += count
	}
	return n
}

// Values gives each value as the middle of its bin, the least first.
func (h *Histogram) Values() iter.Seq[float64] {
	return func(yield func(float64) bool) {
		for i, count := range h.Counts {
			low, high := h.ends(i)
			middle := math.Sqrt(max(low, least) * high)
			for range count {
				if !yield(middle) {
					return
				}
			}
		}
	}
}

// Holds says what of a summary cannot be of the values in the bins.
func (h *Histogram) Holds(s *Summary) error {
	if !(h.Ratio > 1 && h.Ratio <= 2) || len(h.Counts) > mostBins || h.First < -mostBins || h.First > mostBins ||
		slices.ContainsFunc(h.Counts, func(n int) bool { return n < 0 }) {
		return fmt.Errorf("its histogram has %d bins from %d with a ratio of %v: want at most %d, a ratio above 1 and up to 2, and no count "+
			"below 0", len(h.Counts), h.First, h.Ratio, mostBins)
	}
	if n := h.N(); n != s.N || n == 0 {
		return fmt.Errorf("n is %d, but its histogram has %d values: want as many, and one at least", s.N, n)
	}
	low, high := 0., 0.
	for i, count := range h.Counts {
		from, to := h.ends(i)
		low, high = low+from*float64(count), high+to*float64(count)
	}
	low, high = low/float64(s.N), high/float64(s.N)
	if !between(s.Mean, low, high) {
		return fmt.Errorf("mean is %v, but the histogram's is from %v to %v", s.Mean, low, high)
	}
	for _, f := range []struct {
		name string
		got  float64
		p    float64
	}{
		{"min", s.Min, 0}, {"p5", s.P5, 5}, {"p25", s.P25, 25}, {"median", s.Median, 50}, {"p75", s.P75, 75},
		{"p90", s.P90, 90}, {"p95", s.P95, 95}, {"p99", s.P99, 99}, {"max", s.Max, 100},
	} {
		rank := f.p / 100 * float64(s.N-1)
		low, _ := h.ends(h.at(int(rank)))
		_, high := h.ends(h.at(int(math.Ceil(rank))))
		if !between(f.got, low, high) {
			return fmt.Errorf("%s is %v, but the histogram's is from %v to %v", f.name, f.got, low, high)
		}
	}
	return nil
}

// at is the bin of the value of a rank, from 0.
func (h *Histogram) at(rank int) int {
	for i, count := range h.Counts {
		if rank -= count; rank < 0 {
			return i
		}
	}
	return len(h.Counts) - 1
}

// between allows for the rounding of a bin's ends.
func between(x, low, high float64) bool { return x >= low*(1-1e-9) && x <= high*(1+1e-9) }
