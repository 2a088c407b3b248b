package ask

import "testing"

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
