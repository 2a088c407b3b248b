package unit

import (
	"strings"
	"testing"
)

func TestParseCount(t *testing.T) {
	for text, want := range map[string]int{
		"0": 0, "8": 8, "-1": -1, "1k": 1000, "32k": 32000, "32K": 32768, "1Ki": 1024, "1e3": 1000, "1.5k": 1500, "0.5K": 512, "2M": 2 << 20,
		"2m": 2000000, "+7": 7,
	} {
		if got, err := ParseCount(text); err != nil || got != want {
			t.Errorf("ParseCount(%q) = %d, %v; want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "k", "x", "1.5", "1kk", "1ik", "0x10", "inf", "nan", "1e99", "3G", "1e-3", "1_000", "1,000", "--1",
		"9999999999"} {
		if got, err := ParseCount(text); err == nil {
			t.Errorf("ParseCount(%q) = %d", text, got)
		} else if strings.Contains(err.Error(), "strconv") {
			t.Errorf("ParseCount(%q): %v", text, err)
		}
	}
}

func TestParseNumber(t *testing.T) {
	for text, want := range map[string]float64{"0.8": 0.8, "1.5k": 1500, "2Ki": 2048, "1e-3": 1e-3, "-2": -2} {
		if got, err := ParseNumber(text); err != nil || got != want {
			t.Errorf("ParseNumber(%q) = %g, %v; want %g", text, got, err, want)
		}
	}
	for _, text := range []string{"", "k", "nan", "0x10", "1kk", "1,5"} {
		if got, err := ParseNumber(text); err == nil {
			t.Errorf("ParseNumber(%q) = %g", text, got)
		}
	}
}

// FuzzParseCount checks that what is read is in the range of the flags.
func FuzzParseCount(f *testing.F) {
	for _, s := range []string{"8", "32k", "1e3", "-0.5K", "Ki", "1e999", "."} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if n, err := ParseCount(s); err == nil && (n > mostCount || n < -mostCount) {
			t.Errorf("ParseCount(%q) = %d", s, n)
		}
	})
}
