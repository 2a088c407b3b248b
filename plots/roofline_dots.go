//go:build !js

package plots

import (
	"cmp"
	"fmt"
	"slices"

	"llmprof/analytic"
	"llmprof/analytic/breakdown"
	"llmprof/roofline"
	"llmprof/unit"
)

// A dot is one operator of a phase on a roofline.
type dot struct {
	name  string
	mark  Marker
	bound roofline.Bound
	x, y  float64 // FLOP/byte, FLOP/s
	share float64 // share of the phase's time

	format unit.Format
	roof   *roof
	ofRoof float64 // reached
	number int     // number of the mark, 0 for none
}

// A roof is what a GPU can do in one number format.
type roof struct {
	format                unit.Format
	peak, bandwidth       float64
	computeEff, memoryEff float64 // efficiencies of large GEMMs
}

// at is the roof over an intensity, achieved or at the data-sheet peaks.
func (r *roof) at(x float64, achieved bool) float64 {
	if achieved {
		return min(r.peak*r.computeEff, r.bandwidth*r.memoryEff*x)
	}
	return min(r.peak, r.bandwidth*x)
}

// ridge is the intensity from which arithmetic is what limits.
func (r *roof) ridge() float64 { return r.peak / r.bandwidth }

// dots are the operators of a phase by name, those of several kinds of layers
// as one, less those that have no place on a roofline.
func dots(lines []breakdown.Operator, m Marker) (ds []dot, err error) {
	type sum struct {
		flops, traffic, time, share, most float64
		bound                             roofline.Bound
		format                            unit.Format
	}
	var names []string
	sums := map[string]*sum{}
	for _, l := range lines {
		if !finite(float64(l.FLOPs), float64(l.Traffic()), float64(l.Expected), l.Share) {
			return nil, fmt.Errorf("roofline: %s operator %q has FLOPs %v, traffic %v, time %v and share %v: all must be finite and not negative",
				m.phase(), l.Name, l.FLOPs, l.Traffic(), l.Expected, l.Share)
		}
		s := sums[l.Name]
		if s == nil {
			s = &sum{}
			sums[l.Name], names = s, append(names, l.Name)
		}
		s.flops += float64(l.FLOPs)
		s.traffic += float64(l.Traffic())
		s.time += float64(l.Expected)
		s.share += l.Share
		if l.Share >= s.most {
			s.most, s.bound, s.format = l.Share, l.Bound, l.Format
		}
	}
	for _, n := range names {
		s := sums[n]
		d := dot{name: n, mark: m, bound: s.bound, x: s.flops / s.traffic, y: s.flops / s.time, share: min(s.share, 1), format: s.format}
		if !shown(d.x) || !shown(d.y) {
			continue
		}
		ds = append(ds, d)
	}
	return ds, nil
}

// roofs are those of the formats that the report's GEMMs run in, highest first.
func roofs(m *analytic.Machine, r *breakdown.Report) (rs []roof) {
	var seen [unit.NumFormats]bool
	for _, lines := range [][]breakdown.Operator{r.PrefillOps, r.DecodeOps} {
		for i := range lines {
			f := lines[i].Format
			if f == unit.NoFormat || f >= unit.NumFormats || seen[f] || lines[i].FLOPs == 0 {
				continue
			}
			seen[f] = true
			_, peak := m.Runs(f)
			rs = append(rs, roof{
				format: f, peak: float64(peak), bandwidth: float64(m.GPU.Bandwidth),
				computeEff: m.Cal.Constants[roofline.GEMMCompute], memoryEff: m.Cal.Constants[roofline.GEMMMemory],
			})
		}
	}
	slices.SortStableFunc(rs, func(a, b roof) int { return cmp.Compare(b.peak, a.peak) })
	return rs
}
