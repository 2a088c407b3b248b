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
	block  float64     // seconds of a block, at least
	blocks [][]float64 // times of the passes of each whole block
	begun  []float64   // times of the passes of the block that is not whole yet
	spent  float64     // sum of begun
}

// add takes the time of a pass and says if the times are steady.
func (s *steadiness) add(seconds float64) bool {
	s.begun, s.spent = append(s.begun, seconds), s.spent+seconds
	n := len(s.begun)
	whole := n >= blockPasses && s.spent >= s.block
	long := n >= longPasses && s.block > 0 && s.spent >= longBlock*s.block
	if !whole && !long {
		return false
	}
	s.blocks, s.begun, s.spent = append(s.blocks, s.begun), nil, 0
	return s.still()
}

// still compares the last block with the one before and, where single passes
// differ much, as on a processor that others use too, with the one before that.
func (s *steadiness) still() bool {
	n := len(s.blocks)
	if n < 2 {
		return false
	}
	last := s.blocks[n-1]
	sum, err := stats.Summarize(last)
	if err != nil || sum.CV == nil || !agree(last, s.blocks[n-2], *sum.CV) {
		return false
	}
	return *sum.CV <= steadyCV || n > 2 && agree(last, s.blocks[n-3], *sum.CV)
}

// agree reports whether the medians of two blocks differ by no more than the drift that
// is allowed, or than what is noise: two standard errors of a median, which of a
// normal sample is sqrt(pi/2) of the mean's.
func agree(last, before []float64, cv float64) bool {
	noise := 2 * math.Sqrt(math.Pi/2) * cv / math.Sqrt(float64(len(last)))
	return math.Abs(stats.Median(last)/stats.Median(before)-1) <= max(steadyDrift, noise)
}

// latest is how many passes the last whole block has.
func (s *steadiness) latest() int {
	if len(s.blocks) == 0 {
		return 0
	}
	return len(s.blocks[len(s.blocks)-1])
}
