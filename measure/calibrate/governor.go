package calibrate

import (
	"cmp"
	"math"
	"slices"

	"llmprof/roofline"
)

// How tables of products were timed: each product is called with all copies of its weights, governorCalls times before the timed calls and
// as often in them (benchmark_with_power of aiconfigurator's collector: three calls, three of the CUDA graph, then six). A board holds
// the rate of a burst for governorDelay, and then its power limit slows it.
//
// The delay was chosen among 20, 35, 50, 75 and 100 ms by errors of shapes held out on L40S, H100, H200, B200 and B300.
const (
	governorCalls = 6
	governorDelay = 0.05 // seconds
)

// rests are how much more of a burst a board may be capable of after the time between two rows of a table, in seconds. The
// time depends on the host that ran the collector. The fit chooses one of them by the rows that it is fitted to.
var rests = [...]float64{governorDelay, 0.01, 0.004, 0.002}

// inTurn finds how much of a burst the rows before each sample had spent. TensorRT-LLM's collector times the products by one matrix one
// after the other, those of most rows first: the power limit holds back the next ones too, until rows are so short that the board recovers.
func inTurn(samples []sample) {
	if len(samples) == 0 || !samples[0].inTurn {
		return
	}
	shape := func(s *sample) *roofline.Shape { return &s.kernel.Shape }
	order := make([]*sample, len(samples))
	for i := range samples {
		order[i] = &samples[i]
	}
	slices.SortStableFunc(order, func(a, b *sample) int {
		return cmp.Or(cmp.Compare(shape(a).N, shape(b).N), cmp.Compare(shape(a).K, shape(b).K), cmp.Compare(shape(b).M, shape(a).M))
	})
	for i, s := range order[1:] {
		before := order[i]
		if shape(before).N != shape(s).N || shape(before).K != shape(s).K {
			continue
		}
		busy := 2 * governorCalls * float64(before.copies) * before.time
		for r, rest := range rests {
			s.spent[r] = max(0, min(governorDelay, before.spent[r]+busy)-rest)
		}
	}
}

// withHeadroom is a law of products with the rest between two rows that explains samples best.
func withHeadroom(law, late equation, samples []sample, start []float64, hold []roofline.Constant) equation {
	best, lowest := governed(law, late, start, 0), math.Inf(1)
	if !slices.ContainsFunc(samples, func(s sample) bool { return s.inTurn }) || !slices.Contains(law.keys, roofline.GEMMSustained) {
		return best
	}
	for r := range rests {
		f := newFit(governed(law, late, start, r), samples, start, hold)
		f.nearest(start)
		if sum := f.loss(samples, f.value); sum < lowest {
			best, lowest = f.equation, sum
		}
	}
	return best
}

// governed is a law of products that knows how long a table's calls took: those behind governorDelay run at the rate that
// the power limit sustains. Between two rows the board rests by one of rests. A law without that constant is left as it is.
// Late is the law again, on a machine of its own, which keeps the constants that it was last asked for.
func governed(law, late equation, start []float64, rest int) equation {
	burst, held := slices.Index(law.keys, roofline.GEMMCompute), slices.Index(law.keys, roofline.GEMMSustained)
	if burst < 0 || held < 0 {
		return law
	}
	slow, slower := make([]float64, len(law.keys)), make([]float64, len(law.keys))
	out := law
	out.time = func(p []float64, s *sample, slopes []float64) float64 {
		time := law.time(p, s, slopes)
		share := s.atBurst(time, rest)
		if share == 1 {
			return time
		}
		copy(slow, p)
		slow[burst] = p[held]
		if slopes == nil {
			return share*time + (1-share)*late.time(slow, s, nil)
		}
		long := late.time(slow, s, slower)
		slower[burst], slower[held] = 0, slower[burst]
		early := share
		if share > 0 { // longer calls leave fewer of them to the burst
			early += (1 + share) * (long/time - 1)
		}
		for i := range slopes {
			slopes[i] = early*slopes[i] + (1-share)*slower[i]
		}
		return share*time + (1-share)*long
	}
	other := slices.Clone(start) // a rate that is held back and one that is not explain most rows alike
	other[burst], other[held] = min(1, 1.2*start[burst]), 0.9*start[burst]
	out.basins = [][]float64{other}
	return out
}

// atBurst is the share of a table's timed calls that ran at the rate of a burst, where each takes so long at it and the board rested
// between rows by one of rests.
func (s *sample) atBurst(time float64, rest int) float64 {
	calls := float64(governorCalls * s.copies)
	if calls == 0 {
		return 1
	}
	return min(max((governorDelay-s.spent[rest]-calls*time)/(calls*time), 0), 1)
}

// unslowed reports whether a fit of products found no rate that the power limit holds below that of bursts.
func (f *fit) unslowed() bool {
	burst, held := slices.Index(f.keys, roofline.GEMMCompute), slices.Index(f.keys, roofline.GEMMSustained)
	return held >= 0 && f.value[held] >= f.value[burst]
}

// atOneRate are samples of a table that the power limit did not slow.
func (b *builder) atOneRate(samples []sample, what string) []sample {
	b.note("the power limit slows no %s of the table", what)
	delete(b.file.Values, roofline.GEMMSustained.String())
	for i := range samples {
		samples[i].random = false
	}
	return samples
}
