package calibrate

import (
	"slices"

	"llmprof/roofline"
)

// How tables of products were timed: each product is called with all copies of its weights, governorCalls times before the timed calls and as
// often in them (benchmark_with_power of aiconfigurator's collector: three calls, three of the CUDA graph, then six). A board holds
// the rate of a burst for governorDelay, and then its power limit slows it.
//
// The delay was chosen among 20, 35, 50, 75 and 100 ms by errors of shapes held out on L40S, H100, H200, B200 and B300.
const (
	governorCalls = 6
	governorDelay = 0.05 // seconds
)

// governed is a law of products that knows how long a table's calls took: those behind governorDelay run at the rate that
// the power limit sustains. A law without that constant is left as it is.
func governed(law equation) equation {
	burst, held := slices.Index(law.keys, roofline.GEMMCompute), slices.Index(law.keys, roofline.GEMMSustained)
	if burst < 0 || held < 0 {
		return law
	}
	slow := make([]float64, len(law.keys))
	slower := func(p []float64) []float64 {
		copy(slow, p)
		slow[burst] = p[held]
		return slow
	}
	late := make([]float64, len(law.keys))
	out := law
	out.fast = func(p []float64, s *sample) float64 {
		fast := law.fast(p, s)
		if share := s.atBurst(fast); share < 1 {
			return share*fast + (1-share)*law.fast(slower(p), s)
		}
		return fast
	}
	out.parts = func(p []float64, s *sample, parts []float64) float64 {
		time := law.parts(p, s, parts)
		share := s.atBurst(time)
		if share == 1 {
			return time
		}
		time = share*time + (1-share)*law.parts(slower(p), s, late)
		for i := range parts {
			parts[i] = share*parts[i] + (1-share)*late[i]
		}
		parts[held] += (1 - share) * late[burst]
		parts[burst] -= (1 - share) * late[burst]
		return time
	}
	out.basins = func(start []float64) [][]float64 { // a rate that is held back and one that is not explain most rows alike
		other := slices.Clone(start)
		other[burst], other[held] = min(1, 1.2*start[burst]), 0.9*start[burst]
		return [][]float64{other}
	}
	return out
}

// atBurst is the share of a table's timed calls that ran at the rate of a burst, where each takes so long at it.
func (s *sample) atBurst(time float64) float64 {
	calls := float64(governorCalls * s.copies)
	if calls == 0 {
		return 1
	}
	return min(max((governorDelay-calls*time)/(calls*time), 0), 1)
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
