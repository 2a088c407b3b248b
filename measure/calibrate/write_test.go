package calibrate

import (
	"strings"
	"testing"

	"llmprof/roofline"
)

// Every constant of a calibration file has a section, and every section a constant.
func TestSections(t *testing.T) {
	heads, used := sectionHeads(), map[string]bool{}
	for section, head := range heads {
		if head == "" || strings.HasSuffix(head, " ") {
			t.Errorf("what stands above section %q is %q", section, head)
		}
	}
	for _, c := range roofline.All() {
		section, _, _ := strings.Cut(c.Info().Key, ".")
		if used[section] = true; heads[section] == "" && !c.Info().Unfiled {
			t.Errorf("%s: a calibration file has no such section", c)
		}
	}
	for section := range heads {
		if !used[section] {
			t.Errorf("no constant is in section %q", section)
		}
	}
}
