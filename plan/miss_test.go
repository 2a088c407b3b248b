package plan

import (
	"testing"

	"llmprof/unit"
)

// A figure that misses its target is told with digits that show it.
func TestMissDigits(t *testing.T) {
	for _, x := range []struct {
		is, limit unit.Seconds
		want      string
	}{
		{0.513, 0.5, "513.0 ms"}, {0.50002, 0.5, "500.02 ms"}, {0.5000004, 0.5, "500.0004 ms"}, {0.0304, 0.03, "30.40 ms"},
		{63.2, 0.5, "63.20 s"}, {2.0004, 2, "2.0004 s"},
		{1.0002, 0.99999, "1.0002 s"},
	} {
		if got := beyond(x.is, x.limit); got != x.want {
			t.Errorf("%v for %v is told as %q, want %q", float64(x.is), float64(x.limit), got, x.want)
		}
	}
	if got := digits(8.0004, 8); got != "8.0004" {
		t.Errorf("8.0004 $/h for 8 are told as %q", got)
	}
}
