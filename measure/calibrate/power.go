package calibrate

import (
	"fmt"
	"slices"

	"llmprof/energy"
	"llmprof/hardware"
	"llmprof/roofline"
)

// The constants of the power model (package energy) are fitted to rows that were run for it.
// A GPU draws the waiting power and, of the difference between that and the power limit,
//
//	(matrix·C + (share - memory)·M)/x + memory·M + fixed·F
//
// C, M and F being the shares of a call's time that its arithmetic, its memory and its
// start and end take at the rates that the rows of times gave, share that of the
// kernel's kind, and x by how much the clocks were below the highest.

// powerKeys are the constants, in the order of drawing's parts.
var powerKeys = []roofline.Constant{roofline.PowerMemory, roofline.PowerSkinnyGEMM, roofline.PowerAttention, roofline.PowerFixed}

// A drawing is what a row says of power, in shares of what lies between the waiting
// power and the limit.
type drawing struct {
	of     int     // the constant of its kind, by its place among powerKeys
	matrix float64 // power of its arithmetic
	memory float64 // share of the time
	fixed  float64 // share of the time
	slowed float64 // highest clock over the actual one, at least 1
}

// draws is the power of a call, above waiting and as a share of the rest.
func draws(keys ...roofline.Constant) equation {
	return equation{keys: keys, parts: func(p []float64, s *sample, parts []float64) float64 {
		d := &s.drawing
		clear(parts)
		share, base := p[d.of], p[0]
		if share <= base {
			parts[d.of] = share * d.memory
		} else {
			parts[0] = base * d.memory
			parts[d.of] += (share - base) * d.memory / d.slowed
		}
		parts[3] += p[3] * d.fixed
		sum := d.matrix / d.slowed
		for _, part := range parts {
			sum += part
		}
		return sum
	}}
}

// power fits what the GPU draws, where rows measured it.
func (b *builder) power(m *Machine) error {
	rows := b.of(GEMMPower, AttentionPower)
	if len(rows) == 0 {
		return nil
	}
	cal, err := b.file.Apply(b.gpu, b.file.Engine)
	if err != nil {
		return err
	}
	waiting, err := b.waiting(&cal)
	if err != nil {
		return err
	}
	arithmetic, err := energy.BurstPower(b.gpu, &cal)
	if err != nil {
		return err
	}
	var samples []sample
	clock := 0.0
	if m.Clock != nil {
		clock = float64(*m.Clock)
	}
	for _, r := range rows {
		if r.Power != nil && *r.Power > waiting {
			samples = append(samples, b.drawn(r, &cal, arithmetic, waiting, clock))
		}
	}
	if len(samples) == 0 {
		return nil
	}
	for _, c := range powerKeys {
		b.file.Values[c.String()] = hardware.Value{Value: cal.Constants[c], From: "default for " + b.gpu.Generation}
	}
	err = b.fit(draws(powerKeys...), samples, "runs for their power")
	if b.skinny() == 0 {
		b.forget(roofline.PowerSkinnyGEMM)
	}
	for _, c := range powerKeys {
		if v, ok := b.file.Values[c.String()]; ok && !c.Valid(v.Value) {
			b.note("runs for their power do not agree with what arithmetic and waiting draw: %s comes out as %.4g, and has to be %s", c, v.Value, c.Info().Quantity.Want())
			b.forget(powerKeys...)
		}
	}
	return err
}

// forget leaves constants of power to the defaults.
func (b *builder) forget(keys ...roofline.Constant) {
	for _, c := range keys {
		delete(b.file.Values, c.String())
		delete(b.file.HeldOut, c.String())
	}
}

// waiting is the power of a GPU that has nothing to do, by its row, else by default.
func (b *builder) waiting(cal *hardware.Calibration) (float64, error) {
	limit := float64(b.gpu.TDP)
	idle := cal.Constants[roofline.PowerIdle] * limit
	if known, ok := b.gpu.Idle(); ok {
		idle = float64(known)
	}
	var shares []float64
	from := ""
	for _, r := range b.of(Idle) {
		if r.Power != nil && *r.Power > idle {
			shares = append(shares, (*r.Power-idle)/(limit-idle))
			from = fmt.Sprintf("%.0f W with nothing to do for %.0f s", *r.Power, r.Median)
		}
	}
	if len(shares) == 0 {
		return idle + cal.Constants[roofline.PowerWaiting]*(limit-idle), nil
	}
	v, err := middle(shares, from)
	if err != nil {
		return 0, err
	}
	b.file.Values["power.waiting"] = v
	cal.Constants[roofline.PowerWaiting] = v.Value
	return idle + v.Value*(limit-idle), nil
}

// drawn is what a row says of power.
func (b *builder) drawn(r *Row, cal *hardware.Calibration, matrix, waiting, clock float64) sample {
	s := b.sample(r)
	busy := roofline.NewMachine(b.peaks, &cal.Constants).Times(&s.kernel)
	rest := float64(b.gpu.TDP) - waiting
	d := drawing{
		of: slices.Index(powerKeys, roofline.LawOf(s.kernel.Class).Power), slowed: 1,
		matrix: matrix * float64(busy.Compute()) / s.time, memory: float64(busy[roofline.Memory]) / s.time, fixed: float64(busy[roofline.Fixed]) / s.time,
	}
	if r.Clock != nil && clock > *r.Clock {
		d.slowed = clock / *r.Clock
	}
	return sample{time: (*r.Power - waiting) / rest, drawing: d}
}
