package measure

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"llmprof/measure/power"
	"llmprof/measure/result"
	"llmprof/measure/worker"
	"llmprof/unit"
)

// Shares of a GPU's greatest clocks. The power limit of an H200 takes the SM clock of long
// prompts down to 0.70 of 1980 MHz (experiments/h200-native), and it leaves the memory's alone.
const (
	leastMemoryClock = 0.95
	leastClock       = 0.90 // share of the SMs' greatest clock, where the driver names no reason for less
	leastHeldClock   = 0.60 // share of the SMs' greatest clock, where it names one
)

// throttledShare is the part of the time that clocks may be held down for before
// it is said.
const throttledShare = 0.01

// saw keeps the conditions of a phase, or of a server's requests, and marks the result
// where the GPUs were not what they are at their best.
func saw(r *result.Result, phase worker.Phase, conditions []result.Condition) {
	for _, c := range conditions {
		c.Phase = string(phase)
		r.Conditions = append(r.Conditions, c)
		if len(c.OtherPIDs) > 0 {
			warn(r, "contaminated", "%s: %s ran the processes %v of others", phase, c.UUID, c.OtherPIDs)
		}
		held := power.Throttled([]result.Condition{c}, throttledShare)
		if why := slow(&c, len(held) > 0); why != "" {
			warn(r, "slow-clocks", "%s: %s did not reach its clocks under load: %s", phase, nameOf(&c), why)
		}
		if l, usual := c.PowerLimitW, c.PowerLimitDefaultW; l != nil && usual != nil && *l < *usual {
			once(r, "power-limit", fmt.Sprintf("%s is limited to %v, its default is %v", nameOf(&c), unit.Watts(*l), unit.Watts(*usual)))
		}
	}
	if why := power.Throttled(conditions, throttledShare); len(why) > 0 {
		warn(r, "throttled", "%s: clocks were held down for more than %.0f %% of the time: %v", phase, 100*throttledShare, why)
	}
}

// warn notes what makes a figure doubtful, under a mark if it has one.
func warn(r *result.Result, mark, format string, args ...any) {
	if mark != "" && !slices.Contains(r.Marks, mark) {
		r.Marks = append(r.Marks, mark)
	}
	r.Warnings = append(r.Warnings, fmt.Sprintf(format, args...))
}

// once warns, unless an earlier phase had the same warning.
func once(r *result.Result, mark, text string) {
	if !slices.Contains(r.Warnings, text) {
		warn(r, mark, "%s", text)
	}
}

// nameOf is the UUID of a GPU; a Jetson's has none.
func nameOf(c *result.Condition) string {
	if c.UUID == "" {
		return "the GPU"
	}
	return c.UUID
}

// slow says which clock was below what the GPU has, "" if none was. Clocks for which the
// driver names a reason may be lower.
func slow(c *result.Condition, held bool) string {
	least := leastClock
	if held {
		least = leastHeldClock
	}
	var low []string
	if s, most := c.SMClockHz, c.SMClockMaxHz; s != nil && most != nil && s.Median < least**most {
		low = append(low, fmt.Sprintf("SM clock %v of %v", unit.Hertz(s.Median), unit.Hertz(*most)))
	}
	if s, most := c.MemClockHz, c.MemClockMaxHz; s != nil && most != nil && s.Median < leastMemoryClock**most {
		low = append(low, fmt.Sprintf("memory clock %v of %v", unit.Hertz(s.Median), unit.Hertz(*most)))
	}
	return strings.Join(low, ", ")
}

// unseen is why a machine has no conditions although its sensors were asked.
const unseen = "the sensors of this machine report no clocks of a GPU"

// look begins to read the clocks where no energy is measured, of which they are a part.
func (s *session) look(ctx context.Context) {
	if s.meter == nil && s.sensors != nil {
		s.looked = s.sensors.Look(ctx)
	}
}

// seen ends what look began.
func (s *session) seen(phase worker.Phase) {
	if s.looked != nil {
		looked(s.res, phase, s.looked)
	}
}

// looked ends the reading of clocks. A sensor that fails costs the conditions, not the times.
func looked(r *result.Result, phase worker.Phase, end func() ([]result.Condition, error)) {
	conditions, err := end()
	if err != nil {
		r.Reasons["conditions"] = err.Error()
		warn(r, "", "%s: clocks were not read: %v", phase, err)
	}
	saw(r, phase, conditions)
}

// sayClocks reports the clocks of the GPUs before anything runs.
func (l *Lab) sayClocks(m *power.Monitor) {
	now, err := m.Now()
	if err != nil {
		l.say(fmt.Sprintf("the clocks of the GPUs could not be read: %v", err))
	}
	for i := range now {
		l.say(nameOf(&now[i]) + ": " + power.Clocks(&now[i]))
	}
}
