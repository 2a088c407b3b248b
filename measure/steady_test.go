package measure

import "testing"

// untilSteady feeds times to a steadiness and returns how many it took, or 0.
func untilSteady(block float64, times func(i int) float64) int {
	s := steadiness{block: block}
	for i := range 1000 {
		if s.add(times(i)) {
			return i + 1
		}
	}
	return 0
}

// ELANA's eager TPOT on an H200 after loading: 100 ms, then 40, 26, 23, 23, 24;
// its five fixed warm-ups report the first.
func TestSettlingTimesAreWaitedFor(t *testing.T) {
	settling := []float64{0.100, 0.100, 0.100, 0.100, 0.100, 0.040, 0.040, 0.040, 0.040, 0.040, 0.026, 0.026, 0.026, 0.026, 0.026}
	n := untilSteady(0, func(i int) float64 {
		if i < len(settling) {
			return settling[i]
		}
		return 0.023
	})
	if n <= len(settling)+blockPasses {
		t.Errorf("steady after %d passes, of which %d were still settling", n, len(settling))
	}
	if n == 0 || n > len(settling)+3*blockPasses {
		t.Errorf("steady after %d passes, want soon after %d", n, len(settling))
	}
}

func TestDriftIsNotSteady(t *testing.T) {
	// 0.5 % slower each pass: 2.5 % from block to block.
	if n := untilSteady(0, func(i int) float64 { return 0.010 * (1 + 0.005*float64(i%100)) }); n != 0 && n < 20 {
		t.Errorf("times that drift by 0.5 %% a pass were steady after %d passes", n)
	}
}

func TestSpreadIsNotSteady(t *testing.T) {
	if n := untilSteady(0, func(i int) float64 { return 0.010 * float64(1+i%2) }); n != 0 {
		t.Errorf("times that alternate by a factor of two were steady after %d passes", n)
	}
}

func TestBlocksLastAsLongAsAsked(t *testing.T) {
	if n := untilSteady(1, func(int) float64 { return 0.010 }); n < 200 {
		t.Errorf("two blocks of a second were over after %d passes of 10 ms", n)
	}
}

func TestConstantTimesAreSteadyAfterTwoBlocks(t *testing.T) {
	if n := untilSteady(0, func(int) float64 { return 0.010 }); n != 2*blockPasses {
		t.Errorf("steady after %d passes, want %d", n, 2*blockPasses)
	}
}

func TestLongPassesNeedFewer(t *testing.T) {
	if n := untilSteady(1, func(int) float64 { return 2 }); n != 2*longPasses {
		t.Errorf("steady after %d passes of two blocks' length, want %d", n, 2*longPasses)
	}
}
