package power

import "testing"

// A process is named by what is known of it.
func TestProcessString(t *testing.T) {
	held := int64(3 << 30)
	for want, p := range map[string]Process{
		"process 12 on GPU-1":                       {UUID: "GPU-1", PID: 12},
		"process 12 python on GPU-1 holds 3.221 GB": {UUID: "GPU-1", PID: 12, Name: "python", MemoryBytes: &held},
	} {
		if got := p.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// energyOf is the sum of the domains that may be added up, in J.
func energyOf(w *Window) float64 {
	sum := 0.
	for i := range w.Domains {
		if w.Domains[i].Summed {
			sum += w.Domains[i].EnergyJ
		}
	}
	return sum
}
