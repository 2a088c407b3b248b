package hardware_test

import (
	"testing"

	"llmprof"
	"llmprof/hardware"
)

// The command reads the table at each start, within 20 ms in all.
func BenchmarkLoad(b *testing.B) {
	for b.Loop() {
		if _, err := hardware.Load(llmprof.HardwareTOML); err != nil {
			b.Fatal(err)
		}
	}
}
