package deployment

import (
	"math"
	"testing"
)

// Rates of a chart rise in equal steps to the highest, the last step in two halves.
func TestSpreadOfRates(t *testing.T) {
	rates := spread(100)
	last := len(rates) - 1
	if rates[last] != 100 || rates[0] > 100/10 || last > 8 {
		t.Errorf("%d rates from %g to %g", last+1, rates[0], rates[last])
	}
	for i := 1; i < last-1; i++ {
		if off := rates[i] / rates[i-1] / chartStep; math.Abs(off-1) > 1e-12 {
			t.Errorf("rate %d is %g after %g", i, rates[i], rates[i-1])
		}
	}
	if a, b := rates[last-1]/rates[last-2], rates[last]/rates[last-1]; math.Abs(a/b-1) > 1e-12 || math.Abs(a*b/chartStep-1) > 1e-12 {
		t.Errorf("the last step is in halves of %g and %g", a, b)
	}
}
