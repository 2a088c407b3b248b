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

// A dot is the operators of one name in a phase: a row of the phase's table and, where they have both FLOPs and memory traffic, a mark on
// the roofline.
type dot struct {
	name           string
	mark           Marker
	bound          roofline.Bound // bound and number format of the operator that takes longest
	format         unit.Format
	flops, traffic float64
	time, floor    float64 // seconds
	share          float64 // share of the phase's time
	roof           *roof   // nil for those without a mark
	number         int     // number of the mark, 0 for none
	timed          float64 // rate over that of the data sheet by the measured time, 0 for none
}

func (d *dot) x() float64 { return d.flops / d.traffic } // FLOP/byte
func (d *dot) y() float64 { return d.flops / d.time }    // FLOP/s

// marked reports whether the dot has a place on a roofline.
func (d *dot) marked() bool { return shown(d.x()) && shown(d.y()) }

// ofRoof is how much the dot reaches of its roof, or of what bounds it where it has no place under one.
func (d *dot) ofRoof() float64 {
	if d.roof == nil {
		return min(d.floor/d.time, 1)
	}
	return min(d.y()/d.roof.at(d.x(), false), 1)
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

// dots are the operators of a phase by name, those of several kinds of layers as one.
func dots(lines []breakdown.Operator, m Marker) (ds []*dot, err error) {
	most := map[string]float64{}
	for _, l := range lines {
		if !finite(float64(l.FLOPs), float64(l.Traffic()), float64(l.Expected), l.Share) {
			return nil, fmt.Errorf("roofline: %s operator %q has FLOPs %v, traffic %v, time %v and share %v: all must be finite and not negative",
				m.phase(), l.Name, l.FLOPs, l.Traffic(), l.Expected, l.Share)
		}
		at := slices.IndexFunc(ds, func(d *dot) bool { return d.name == l.Name })
		if at < 0 {
			at, ds = len(ds), append(ds, &dot{name: l.Name, mark: m})
		}
		d := ds[at]
		d.flops += float64(l.FLOPs)
		d.traffic += float64(l.Traffic())
		d.time += float64(l.Expected)
		d.floor += float64(l.Floor)
		d.share += l.Share
		if l.Share >= most[l.Name] {
			most[l.Name], d.bound, d.format = l.Share, l.Bound, l.Format
		}
	}
	for _, d := range ds {
		d.share = min(d.share, 1)
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
