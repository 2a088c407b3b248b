package measure

import (
	"math"
	"slices"

	"llmprof/measure/stats"
)

// Warm-up rules. ELANA's five fixed passes left its first eager TPOT on an H200
// at 100 ms, where 23 to 26 ms is what it settles to; so times decide, not a
// count.
const (
	steadyCV    = 0.05 // spread of the times of a block
	steadyDrift = 0.01 // between the medians of two blocks that follow each other
	blockPasses = 5    // at least, in a block
	longPasses  = 2    // where passes are long
	longBlock   = 3    // times the length of a block, is long
)

// A steadiness watches the times of passes until they hold still: two blocks in
// a row whose medians agree and whose second has little spread.
type steadiness struct {
	times []float64
	spent float64
	block float64 // seconds of a block, at least
	marks []int   // where a block ends
	begun float64 // spent at the start of the block
}

// add takes the time of a pass and says if the times are steady.
func (s *steadiness) add(seconds float64) bool {
	s.times = append(s.times, seconds)
	s.spent += seconds
	from := 0
	if len(s.marks) > 0 {
		from = s.marks[len(s.marks)-1]
	}
	n, took := len(s.times)-from, s.spent-s.begun
	whole := n >= blockPasses && took >= s.block
	long := n >= longPasses && s.block > 0 && took >= longBlock*s.block
	if !whole && !long {
		return false
	}
	s.marks, s.begun = append(s.marks, len(s.times)), s.spent
	return s.still()
}

// still compares the last block with the one before. Their medians have to agree
// within the drift that is allowed, or within what is noise: two standard errors
// of a median, which of a normal sample is sqrt(pi/2) of the mean's.
func (s *steadiness) still() bool {
	n := len(s.marks)
	if n < 2 {
		return false
	}
	first := 0
	if n > 2 {
		first = s.marks[n-3]
	}
	before, last := s.times[first:s.marks[n-2]], s.times[s.marks[n-2]:s.marks[n-1]]
	sum, err := stats.Summarize(last)
	if err != nil || sum.CV == nil {
		return false
	}
	noise := 2 * math.Sqrt(math.Pi/2) * *sum.CV / math.Sqrt(float64(len(last)))
	return *sum.CV <= steadyCV && math.Abs(median(last)/median(before)-1) <= max(steadyDrift, noise)
}

// latest is how many passes the last whole block has.
func (s *steadiness) latest() int {
	switch n := len(s.marks); n {
	case 0:
		return 0
	case 1:
		return s.marks[0]
	default:
		return s.marks[n-1] - s.marks[n-2]
	}
}

func median(xs []float64) float64 {
	return stats.Percentile(slices.Sorted(slices.Values(xs)), 50)
}
