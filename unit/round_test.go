package unit

import "testing"

// TestAround checks that no more digits are shown than the interval leaves a meaning to.
func TestAround(t *testing.T) {
	for _, c := range []struct {
		v, low, high   Seconds
		text, interval string
	}{
		{0.11783, 0.09426, 0.1414, "120 ms", "94 to 140"},
		{0.01585, 0.01347, 0.01823, "16 ms", "13 to 18"},
		{0.01586, 0.0154, 0.0163, "15.9 ms", "15.4 to 16.3"},
		{0.9996, 0.8, 1.2, "1.0 s", "0.80 to 1.2"},
		{1.02, 0.85, 1.2, "1.0 s", "0.85 to 1.2"},
		{2, 2, 2, "2.00 s", "2.00 to 2.00"},
		{0, 0, 0, "0 s", "0 to 0"},
	} {
		got := Around(c.v, c.low, c.high)
		if got.String() != c.text || got.Interval() != c.interval {
			t.Errorf("Around(%v, %v, %v) = %q, %q; want %q, %q", float64(c.v), float64(c.low), float64(c.high), got, got.Interval(), c.text,
				c.interval)
		}
	}
	if got := Around(Joules(4357), 4000, 4700).String(); got != "4.36 kJ" {
		t.Errorf("joules: %q", got)
	}
}

// TestFormatAliases checks that the names of torch, of engines and of llama.cpp are read, and no others.
func TestFormatAliases(t *testing.T) {
	for name, want := range map[string]Format{"BF16": BF16, "bfloat16": BF16, "half": FP16, "fp8_e4m3": FP8, "float8_e4m3fn": FP8, "f16": FP16,
		"q8_0": INT8, "q4_0": INT4} {
		if f, err := ParseFormat(name); err != nil || f != want {
			t.Errorf("ParseFormat(%q) = %v, %v", name, f, err)
		}
	}
	if f, err := ParseFormat("fp9"); err == nil {
		t.Errorf("fp9 is %v", f)
	}
}
