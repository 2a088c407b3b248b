package hardware_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"llmprof"
	"llmprof/hardware"
	"llmprof/internal/testkit"
)

// The quick way finds what the long way finds.
func TestFindAgreesWithLoad(t *testing.T) {
	exported := cmp.AllowUnexported(hardware.GPU{})
	for i, want := range load(t).All() {
		if i%testkit.Cases(4, 1) > 0 {
			continue
		}
		for _, name := range append([]string{want.Key, want.Name}, want.Aliases...) {
			got, err := hardware.Find(llmprof.HardwareTOML, name)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(want, got, exported); d != "" {
				t.Errorf("%q (-long +quick):\n%s", name, d)
			}
		}
	}
	if _, err := hardware.Find(llmprof.HardwareTOML, "h10"); err == nil {
		t.Error("h10 was found")
	}
}

func BenchmarkFind(b *testing.B) {
	for b.Loop() {
		if _, err := hardware.Find(llmprof.HardwareTOML, "thor"); err != nil {
			b.Fatal(err)
		}
	}
}
