package count

import (
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]int{
		"0": 0, "8": 8, "-1": -1, "1k": 1000, "32k": 32000, "32K": 32768, "1Ki": 1024, "1e3": 1000, "1.5k": 1500, "0.5K": 512, "2M": 2 << 20, "2m": 2000000, "+7": 7,
	} {
		if got, err := Parse(text); err != nil || got != want {
			t.Errorf("Parse(%q) = %d, %v; want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "k", "x", "1.5", "1kk", "1ik", "0x10", "inf", "nan", "1e99", "3G", "1e-3", "1_000", "1,000", "--1", "9999999999"} {
		if got, err := Parse(text); err == nil {
			t.Errorf("Parse(%q) = %d", text, got)
		} else if strings.Contains(err.Error(), "strconv") {
			t.Errorf("Parse(%q): %v", text, err)
		}
	}
}

// FuzzParse checks that what is read is in the range of the flags.
func FuzzParse(f *testing.F) {
	for _, s := range []string{"8", "32k", "1e3", "-0.5K", "Ki", "1e999", "."} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if n, err := Parse(s); err == nil && (n > mostCount || n < -mostCount) {
			t.Errorf("Parse(%q) = %d", s, n)
		}
	})
}
