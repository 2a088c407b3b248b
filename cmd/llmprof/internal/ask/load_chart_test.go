package ask

import (
	"math"
	"testing"
)

// Each rate of a chart that names the one of its slow end has it at that place.
func TestSpreadOfRates(t *testing.T) {
	for _, slower := range []float64{1, 1.05, 1.2, 1.3, 1.45, 1.5, 2, 3.7} {
		rates, ahead := spread(100, slower)
		named := 0
		for i, slow := range ahead {
			if i > 0 && rates[i] <= rates[i-1] {
				t.Errorf("%g: rate %d is %g after %g", slower, i, rates[i], rates[i-1])
			}
			switch {
			case slow >= len(rates) && rates[i]*slower < 100*chartTop*0.999:
				t.Errorf("%g: rate %d (%g) has no slow end, though %g is stable", slower, i, rates[i], rates[i]*slower)
			case slow > 0 && slow < len(rates):
				if named++; math.Abs(rates[slow]/rates[i]-slower) > 1e-9 {
					t.Errorf("%g: rate %d is %g, that of its slow end %g", slower, i, rates[i], rates[slow])
				}
			}
		}
		if len(rates) > 12 || rates[len(rates)-1] != 100*chartTop || slower > 1.2 && named < 3 {
			t.Errorf("%g: %d rates up to %g, %d with a slow end", slower, len(rates), rates[len(rates)-1], named)
		}
	}
}
