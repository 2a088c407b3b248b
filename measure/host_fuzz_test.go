package measure

import (
	"testing"
	"testing/fstest"
)

// FuzzHost checks that nothing in /proc makes a memory of no bytes or fewer.
func FuzzHost(f *testing.F) {
	f.Add("model name : x\n", "MemTotal: 64349180 kB\n", "NVIDIA Jetson\x00")
	f.Add("", "MemTotal: 9223372036854775807 kB\n", "")
	f.Add(":", "MemTotal: -1 kB\n", "\x00")
	f.Fuzz(func(t *testing.T, cpuinfo, meminfo, model string) {
		m := host(fstest.MapFS{
			"proc/cpuinfo": {Data: []byte(cpuinfo)}, "proc/meminfo": {Data: []byte(meminfo)}, "proc/device-tree/model": {Data: []byte(model)},
		})
		if m.MemoryBytes != nil && *m.MemoryBytes <= 0 {
			t.Errorf("%d bytes of %q", *m.MemoryBytes, meminfo)
		}
	})
}
