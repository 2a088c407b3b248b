package energy

import (
	"fmt"

	"llmprof/hardware"
	"llmprof/roofline"
	"llmprof/unit"
)

// A Cap is what a user sets of a GPU: a power limit, and the highest clock of its multiprocessors. 0 leaves one as the board has it.
//
// Below the board's own limit the clock of the multiprocessors falls, from where the board's limit holds it, until the power is that of
// the limit. All that they do takes longer then (roofline.Cost.Clocked), and the voltage falls with the clock: with it the energy of
// arithmetic, of the multiprocessors' share of a byte, and of a kernel that starts. What the board draws while it waits, and memory and
// links for themselves, stay as they are.
type Cap struct {
	Limit unit.Watts
	Clock unit.Hertz
}

const (
	// lowestClock is the lowest clock that NVIDIA's drivers list for graphics cards and data-centre GPUs from Ampere on.
	lowestClock unit.Hertz = 210e6
	// onChip is the share of the energy of a byte that the multiprocessors and the caches take, whose voltage falls with their clocks. A
	// byte takes some 135 pJ on an H100 (experiments/power), of which the memory and its interface take 30 to 40 (4 to 5 pJ a bit).
	onChip = 0.7
	// The energy of an operation is lower by these factors at the lowest voltage. Of seven depths of drafts on an RTX 5090 at 400 and
	// 600 W, and of the clocks of RTX 3090s (testdata/power_caps.csv), it is 1.3 to 1.6. On an H100 it is 1.35 at its own limit already
	// (experiments/power), and taken for (1.05 V / 0.7 V)² at the lowest voltage.
	deepestUnknown  = 1.35
	deepestBalanced = 2.25
)

// Clocks are factors by which arithmetic takes longer than at full clocks.
type Clocks struct {
	At    float64
	Own   float64 // at the board's own limit
	Unmet bool    // even the lowest clock draws more than the limit

	hidden    float64 // factor by which the clock is lower than the full one at Own, though the load takes no longer
	stretched float64 // factor by which all of the load takes longer than at Own
}

// stretches are the factors at which a load's times are known; times between them are taken from lines.
var stretches = [...]float64{1, 1.15, 1.35, 1.6, 2, 3, 6}

// A stretch is the time added where the clock of the multiprocessors is lower by each of stretches.
type stretch [len(stretches)]unit.Seconds

func (s *stretch) take(c *roofline.Cost) {
	for i, x := range stretches[1:] {
		s[i+1] += c.Clocked(x) - c.Time
	}
}

// Hide takes from the added times what the GPU waits for launches meanwhile.
func (s *stretch) Hide(wait unit.Seconds) {
	for i := range s {
		s[i] = max(s[i]-wait, 0)
	}
}

// at is the time added at a factor.
func (s *stretch) at(x float64) unit.Seconds {
	i := 1
	for i < len(s)-1 && x > stretches[i] {
		i++
	}
	return s[i-1] + (s[i] - s[i-1]).Times((x-stretches[i-1])/(stretches[i]-stretches[i-1]))
}

// Capped is the power model of a GPU under limits.
func (p *Power) Capped(c Cap, g *hardware.GPU) (Power, error) {
	m := *p
	m.headroom, m.least, m.lowest = 1, 1, float64(g.Clock/lowestClock)
	if c.Limit > 0 {
		m.headroom = float64((c.Limit - m.Waiting) / m.Rest)
	}
	if c.Clock > 0 {
		m.least = float64(g.Clock / c.Clock)
	}
	m.capped = m.headroom < 1 || m.least > 1
	switch {
	case c.Limit > 0 && m.headroom <= 0:
		return m, fmt.Errorf("a power limit of %v: %s draws %v with nothing to do; give more than that (its own limit is %v)",
			c.Limit, g.Name, m.Waiting, g.TDP)
	case c.Clock > 0 && c.Clock < lowestClock, m.least < 1:
		return m, fmt.Errorf("a clock of %v: give one from %v to %v, the highest of %s", c.Clock, lowestClock, g.Clock, g.Name)
	}
	return m, nil
}

// cap lowers the clock until the load draws no more than a limit below the board's own: the lower the clock, the less
// energy a load takes, and the more time.
func (p *Power) cap(l *Load) (c Clocks, throttled unit.Seconds) {
	own, slowed := p.balanced(l, max(p.headroom, 1))
	added := func(x float64) unit.Seconds { return slowed + l.Stretch.at(x) - l.Stretch.at(own) }
	hidden := p.hidden(l, own, l.Expected+slowed)
	clocks := func(x float64) Clocks {
		return Clocks{At: x, Own: own, hidden: hidden, stretched: float64((l.Expected + added(x)) / (l.Expected + slowed))}
	}
	within := func(x float64) bool {
		return float64(p.lowered(&l.Busy, clocks(x))) <= p.headroom*float64(l.Expected+added(x))
	}
	low := max(own, p.least)
	if l.Expected <= 0 || p.headroom >= 1 || within(low) {
		return clocks(low), added(low)
	}
	high := max(p.lowest, low)
	if !within(high) {
		c = clocks(high)
		c.Unmet = true
		return c, added(high)
	}
	high = least(low, high, within)
	return clocks(high), added(high)
}

// hidden is the factor by which the clock is lower than the full one where a load would draw more than the board's own limit, and takes no
// longer there: its times are those of a board at its limit.
func (p *Power) hidden(l *Load, own float64, time unit.Seconds) float64 {
	limit := max(p.headroom, 1) * float64(time)
	within := func(x float64) bool {
		return float64(p.lowered(&l.Busy, Clocks{At: own, Own: own, hidden: x, stretched: 1})) <= limit
	}
	if within(1) {
		return 1
	}
	return least(1, p.lowest, within)
}

// least is the least number from low to high for which something holds, which does for high and for all that are
// greater than one for which it does.
func least(low, high float64, holds func(float64) bool) float64 {
	for range 60 {
		if x := (low + high) / 2; holds(x) {
			high = x
		} else {
			low = x
		}
	}
	return high
}

// Slows is how much time a lower clock adds to the part of a kernel that an operator has: of its arithmetic at
// the board's own limit, of all of it below that.
func (p *Power) Slows(c *roofline.Cost, compute, all float64) unit.Seconds {
	if p.capped {
		return (c.Clocked(stretches[4]) - c.Time).Times(all)
	}
	return (c.Slower(p.Throttle) - c.Time).Times(compute)
}

// Held is the part of the time added by limits that those below the board's own add.
func (p *Power) Held(l *Load, throttled unit.Seconds) unit.Seconds {
	if !p.capped {
		return 0
	}
	_, own := p.balanced(l, max(p.headroom, 1))
	return max(throttled-own, 0)
}

// lowered is the time at full power above waiting that a load's energy is worth at clocks below the board's own. An operation takes the
// energy of its voltage. What the multiprocessors draw while they wait for bytes goes with their clock besides, for as long as they wait.
func (p *Power) lowered(b *Busy, c Clocks) unit.Seconds {
	own, deepest := p.Fall(c.Own), deepestUnknown
	if p.Throttle > 1 {
		deepest = deepestBalanced
	}
	fall := min(p.Fall(c.At*c.hidden), max(deepest, own))
	volts := own / fall
	waiting := volts * c.Own / (c.At * c.hidden) * c.stretched
	arithmetic, bytes := p.Matrix*float64(b.Compute)/fall, float64(b.Memory)
	return unit.Seconds(arithmetic + float64(b.Chip)/own*waiting + bytes*(1-onChip+onChip*waiting) +
		p.constants[roofline.PowerNetwork]*float64(b.Network) + p.constants[roofline.PowerFixed]*float64(b.Fixed)*volts)
}
