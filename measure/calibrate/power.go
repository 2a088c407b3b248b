package calibrate

import (
	"fmt"
	"slices"
	"strings"

	"llmprof/analytic/energy"
	"llmprof/hardware"
	"llmprof/roofline"
)

// The constants of the power model are fitted to rows that were run for it, by the law of package energy: a GPU draws
// the waiting power and, of the difference between that and the power limit,
//
//	(matrix·C + (share - memory)·M)/xⁿ + memory·M + fixed·F
//
// C, M and F being the shares of a call's time that its arithmetic, its bytes and its
// start and end take at the rates that the rows of times gave, share that of the
// kernel's kind, and x by how much the clocks were below the highest.

// powerKeys are the constants: what kernels draw while their bytes move, and while they start and end.
var powerKeys = []roofline.Constant{
	roofline.PowerMemory, roofline.PowerSkinnyGEMM, roofline.PowerWGMMA, roofline.PowerMoEDecode, roofline.PowerAttention,
	roofline.PowerNetwork, roofline.PowerFixed,
}

// powerKinds are the kinds of rows that they are fitted to.
var powerKinds = []Kind{GEMMPower, GateUpPower, MoEPower, AttentionPower, AllReducePower}

// A drawing is what a row says of power, in shares of what lies between the waiting
// power and the limit.
type drawing struct {
	of     int     // the constant of its kind, by its place among the fit's
	matrix float64 // power of its arithmetic
	moves  float64 // share of the time in which its bytes move, or those of links
	fixed  float64 // share of the time
	links  bool    // Links move the bytes, which have clocks of their own.
	fall   float64 // factor by which lower clocks reduce the energy of what the multiprocessors do, at least 1
	held   bool    // The power limit held the GPU: at its full clocks it would draw the limit or more.
}

// draws is the power of a call, above waiting and as a share of the rest. A row that the power limit held says no more than that: it
// draws the whole, of which each constant accounts for its part.
func draws(keys ...roofline.Constant) equation {
	return equation{keys: keys, time: func(p []float64, s *sample, slopes []float64) float64 {
		d := &s.drawing
		bytes, chip := energy.Split(p[d.of], p[0])
		if d.links {
			bytes, chip = p[d.of], 0
		}
		fixed := p[len(p)-1] * d.fixed
		sum := d.matrix/d.fall + (bytes+chip/d.fall)*d.moves + fixed
		over := 1.0
		if d.held {
			over = max(sum, 1)
		}
		if slopes != nil {
			clear(slopes)
			slopes[len(p)-1] = fixed / over
			slopes[0] = bytes * d.moves / over
			if chip > 0 { // the memory draws all that it can, and the multiprocessors draw the rest
				slopes[0] *= 1 - 1/d.fall
				slopes[d.of] += p[d.of] / d.fall * d.moves / over
			} else {
				slopes[0], slopes[d.of] = 0, slopes[0]
			}
		}
		return sum / over
	}}
}

// power fits what the GPU draws, where rows measured it.
func (b *builder) power(m *Machine) error {
	rows := b.of(powerKinds...)
	if len(rows) == 0 {
		return nil
	}
	cal, err := b.file.Apply(b.gpu, b.file.Engine)
	if err != nil {
		return err
	}
	waiting := b.waiting(&cal)
	d := drawer{prices: roofline.NewMachine(b.peaks, &cal.Constants), waiting: waiting}
	if m.Clock != nil {
		d.clock = float64(*m.Clock)
	}
	d.law = energy.PowerOf(b.gpu, &cal, d.prices)
	rows = slices.DeleteFunc(rows, func(r *Row) bool { return r.Power == nil || *r.Power <= waiting })
	if len(rows) == 0 {
		return nil
	}
	d.keys = slices.DeleteFunc(slices.Clone(powerKeys), func(c roofline.Constant) bool { // rows do not depend on all of them
		return c != roofline.PowerMemory && c != roofline.PowerFixed && !slices.ContainsFunc(rows, func(r *Row) bool {
			return powerOf(r, b.sample(r).kernel.Class) == c
		})
	})
	samples, held := make([]sample, len(rows)), 0
	for i, r := range rows {
		if samples[i] = b.drawn(r, &d); samples[i].held {
			held++
		}
	}
	if held > 0 {
		b.note("the power limit held the GPU in runs for their power, whose kernels draw that or more: %d of %d", held, len(rows))
	}
	defaults := func() {
		for _, c := range d.keys {
			b.byDefault(c, d.prices.Constant(c))
			delete(b.file.HeldOut, c.String())
		}
	}
	defaults()
	b.solve(draws(d.keys...), samples, "runs for their power")
	for _, c := range d.keys {
		if v := b.file.Values[c.String()]; !c.Valid(v.Value) {
			b.note("runs for their power do not agree with what arithmetic and waiting draw: %s comes out as %.4g, and has to be %s", c, v.Value,
				c.Info().Quantity.Want())
			defaults()
			break
		}
	}
	return nil
}

// powerOf is the constant of what a row's kernel draws while it moves bytes.
func powerOf(r *Row, class roofline.Class) roofline.Constant {
	if r.Kind == AllReducePower {
		return roofline.PowerNetwork
	}
	return roofline.LawOf(class).Power
}

// waiting is the power of a GPU that has nothing to do, by its row, else by default.
func (b *builder) waiting(cal *hardware.Calibration) float64 {
	limit := float64(b.gpu.TDP)
	idle := cal.Constants[roofline.PowerIdle] * limit
	if known, ok := b.gpu.Idle(); ok {
		idle = float64(known)
	}
	var shares []float64
	var seen []string
	for _, r := range b.of(Idle) {
		if r.Power != nil && *r.Power > idle && idle < limit {
			shares = append(shares, (*r.Power-idle)/(limit-idle))
			seen = append(seen, fmt.Sprintf("%.0f W with nothing to do for %.0f s", *r.Power, r.Median))
		}
	}
	if len(shares) == 0 {
		return idle + cal.Constants[roofline.PowerWaiting]*(limit-idle)
	}
	v := middle(shares, strings.Join(seen, "; "))
	b.file.Values["power.waiting"] = v
	cal.Constants[roofline.PowerWaiting] = v.Value
	return idle + v.Value*(limit-idle)
}

// A drawer is what the power of rows is told by.
type drawer struct {
	prices  *roofline.Machine
	keys    []roofline.Constant
	waiting float64 // W
	law     energy.Power
	clock   float64 // the highest, in Hz; 0 for not known
}

// atLimit is the share of the power limit from which on it holds a board.
const atLimit = 0.97

// drawn is what a row says of power.
func (b *builder) drawn(r *Row, by *drawer) sample {
	s := b.sample(r)
	k := s.kernel
	k.Count = 1
	cost := by.prices.Cost(&k)
	busy := by.law.BusyOf(&cost)
	limit := float64(b.gpu.TDP)
	d := drawing{
		of: slices.Index(by.keys, powerOf(r, k.Class)), links: r.Kind == AllReducePower, fall: 1,
		matrix: by.law.Matrix * float64(busy.Compute) / s.time, moves: float64(by.law.Moves(&cost)+busy.Network) / s.time,
		fixed: float64(busy.Fixed) / s.time,
	}
	power := *r.Power
	switch {
	case len(r.Limited) > 0 && power >= atLimit*limit: // The clocks go up and down, and medians are of either.
		power, d.held = limit, true
	case r.Clock != nil && by.clock > *r.Clock:
		d.fall = by.law.Fall(by.clock / *r.Clock)
	}
	return sample{time: (power - by.waiting) / (limit - by.waiting), drawing: d}
}
