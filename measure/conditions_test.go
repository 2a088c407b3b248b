package measure

import (
	"context"
	"errors"
	"strings"
	"testing"

	"llmprof/internal/stats"
	"llmprof/internal/testkit"
	"llmprof/measure/result"
)

// A sentry is a sensor that tells clocks and no energy.
type sentry struct {
	ticker
	state result.Condition
	fails error
}

func (s *sentry) Look(context.Context) func() ([]result.Condition, error) {
	return func() ([]result.Condition, error) {
		if s.fails != nil {
			return nil, s.fails
		}
		c := s.state
		return []result.Condition{c}, nil
	}
}

func clock(hz float64) *stats.Summary {
	return &stats.Summary{N: 1, Mean: hz, Median: hz, Min: hz, Max: hz}
}

// A GPU that does not reach its clocks is said whether or not energy is asked, with the
// clocks; one whose power limit explains them is throttled alone.
func TestClocksWithoutEnergy(t *testing.T) {
	for name, c := range map[string]struct {
		sm, memory, held, limit float64
		marks                   string
		says                    string
	}{
		"at its best":           {1980e6, 2619e6, 0, 700, "", ""},
		"power limit, as usual": {1400e6, 2619e6, 0.5, 700, "throttled", "clocks were held down for more than 1 % of the time: [sw_power_cap]"},
		"slow, no reason": {540e6, 2619e6, 0, 700, "slow-clocks",
			"GPU-1 did not reach its clocks under load: SM clock 540.0 MHz of 1.980 GHz"},
		"slow beyond any reason":  {540e6, 2619e6, 0.5, 700, "slow-clocks throttled", "SM clock 540.0 MHz of 1.980 GHz"},
		"slow memory":             {1980e6, 1593e6, 0, 700, "slow-clocks", "memory clock 1.593 GHz of 2.619 GHz"},
		"a lower limit of power":  {1980e6, 2619e6, 0, 400, "power-limit", "GPU-1 is limited to 400.0 W, its default is 700.0 W"},
		"held for too short time": {1980e6, 2619e6, 0.001, 700, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			one, most, memory, usual := 1., 1980e6, 2619e6, 700.
			s := &sentry{state: result.Condition{
				UUID: "GPU-1", Seconds: &one, SMClockHz: clock(c.sm), MemClockHz: clock(c.memory), SMClockMaxHz: &most, MemClockMaxHz: &memory,
				PowerLimitW: &c.limit, PowerLimitDefaultW: &usual, ThrottledS: map[string]float64{"sw_power_cap": c.held},
			}}
			r, err := measureOne(t, settings(), newClockwork(), s, func(string) {})
			testkit.Must(t, err)
			keepsSchema(t, r)
			if got := strings.Join(r.Marks, " "); got != c.marks {
				t.Errorf("marks %q: want %q", got, c.marks)
			}
			if said := strings.Join(r.Warnings, "\n"); !strings.Contains(said, c.says) || c.says == "" && said != "" {
				t.Errorf("warnings %q: want %q", said, c.says)
			}
			if len(r.Conditions) != 3 || r.Conditions[0].Phase != "prefill" || r.Energy != nil {
				t.Errorf("conditions %+v, energy %v: want those of each phase, and no energy", r.Conditions, r.Energy)
			}
		})
	}
}

// A sensor that is lost costs no time that was measured.
func TestClocksThatAreLost(t *testing.T) {
	r, err := measureOne(t, settings(), newClockwork(), &sentry{fails: errors.New("GPU is lost")}, func(string) {})
	testkit.Must(t, err)
	keepsSchema(t, r)
	if r.TPOT == nil || len(r.Conditions) != 0 || r.Reasons["conditions"] != "GPU is lost" || len(r.Warnings) != 3 {
		t.Errorf("conditions %v, reason %q, warnings %v", r.Conditions, r.Reasons["conditions"], r.Warnings)
	}
}
