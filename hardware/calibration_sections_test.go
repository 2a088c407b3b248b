package hardware

import (
	"strings"
	"testing"

	"llmprof/roofline"
)

// Every constant of a calibration file has a section, and every section a constant.
func TestSections(t *testing.T) {
	listed, used := map[string]bool{}, map[string]bool{}
	for _, s := range calibrationSections() {
		if s[1] == "" || strings.HasSuffix(s[1], " ") || listed[s[0]] {
			t.Errorf("section %q", s)
		}
		listed[s[0]] = true
	}
	for _, c := range roofline.All() {
		section, _, _ := strings.Cut(c.Info().Key, ".")
		if used[section] = true; !listed[section] && !c.Info().Unfiled {
			t.Errorf("%s: a calibration file has no such section", c)
		}
	}
	for s := range listed {
		if !used[s] {
			t.Errorf("no constant is in section %q", s)
		}
	}
}
