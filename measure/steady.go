package measure

import (
	"math"

	"llmprof/internal/stats"
)

// Warm-up rules. ELANA's five fixed passes left its first eager TPOT on an H200
// at 100 ms, where 23 to 26 ms is what it settles to; so times decide, not a
// count.
const (
	steadyCV    = 0.05 // spread of the times of a block, from which on two that agree are not enough
	steadyDrift = 0.01 // between the medians of two blocks that follow each other
	blockPasses = 5    // at least, in a block
	longPasses  = 2    // passes of a block where passes are long
	longBlock   = 3    // times the length of a block, is long
)

// A steadiness watches the times of passes until they hold still: two blocks in a
// row whose medians agree, or three where the passes of a block are spread.
type steadiness struct {
	times []float64
	spent float64
	block float64 // seconds of a block, at least
	marks []int   // ends of the blocks
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

// still compares the last block with the one before and, where single passes
// differ much, as on a processor that others use too, with the one before that.
func (s *steadiness) still() bool {
	n := len(s.marks)
	if n < 2 {
		return false
	}
	last := s.blockAt(n - 1)
	sum, err := stats.Summarize(last)
	if err != nil || sum.CV == nil || !agree(last, s.blockAt(n-2), *sum.CV) {
		return false
	}
	return *sum.CV <= steadyCV || n > 2 && agree(last, s.blockAt(n-3), *sum.CV)
}

// agree reports whether the medians of two blocks differ by no more than the drift that
// is allowed, or than what is noise: two standard errors of a median, which of a
// normal sample is sqrt(pi/2) of the mean's.
func agree(last, before []float64, cv float64) bool {
	noise := 2 * math.Sqrt(math.Pi/2) * cv / math.Sqrt(float64(len(last)))
	return math.Abs(stats.Median(last)/stats.Median(before)-1) <= max(steadyDrift, noise)
}

func (s *steadiness) blockAt(i int) []float64 {
	from := 0
	if i > 0 {
		from = s.marks[i-1]
	}
	return s.times[from:s.marks[i]]
}

// latest is how many passes the last whole block has.
func (s *steadiness) latest() int {
	if len(s.marks) == 0 {
		return 0
	}
	return len(s.blockAt(len(s.marks) - 1))
}
