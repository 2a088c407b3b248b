package settings

import (
	"testing"

	"llmprof/unit"
)

// A rate of which a request takes an energy that is no number is refused, as one is that is no rate.
func TestRatesFlagRefuses(t *testing.T) {
	var rates []float64
	for _, text := range []string{"0", "-1", "1e-320", "1e7", "NaN", "Inf", "1,1e-320", ""} {
		if err := RatesFlag(&rates, nil).Set(text); err == nil {
			t.Errorf("--rate %q is taken", text)
		}
	}
	if err := RatesFlag(&rates, nil).Set("1e-9,2"); err != nil || len(rates) != 2 {
		t.Errorf("--rate 1e-9,2: %v, %v", rates, err)
	}
}

// A time is read as people write it elsewhere: with its unit, or in seconds where it has none.
func TestTimes(t *testing.T) {
	for text, want := range map[string]unit.Seconds{"120": 120, "0.5": 0.5, "5s": 5, "500ms": 0.5, "500 ms": 0.5, "2m": 120, "1h": 3600,
		"5us": 5e-6, "5µs": 5e-6} {
		var got unit.Seconds
		if err := TimeFlag(&got).Set(text); err != nil || got != want {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "s", "-5s", "5 parsecs", "1e400s"} {
		var got unit.Seconds
		if err := TimeFlag(&got).Set(text); err == nil {
			t.Errorf("%q: %v", text, got)
		}
	}
}
