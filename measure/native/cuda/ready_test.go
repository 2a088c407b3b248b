package cuda_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"llmprof/measure/native/cuda"
	"llmprof/measure/native/internal/emulate"
)

// A GPU that is too old is refused first. The emulated GPU reads its compute capability from the
// environment of the process.
func TestReadyKnowsOldGPUs(t *testing.T) {
	emulate.Long(t)
	const major = "LLMPROF_EMULATED_MAJOR"
	folder := emulate.Device(t)
	if emulate.RealGPU() == nil {
		t.Skip("of GPUs that are emulated, and here is a real one")
	}
	if os.Getenv(major) != "" {
		t.Logf("ready: %v", cuda.Ready(folder))
		return
	}
	for age, want := range map[string]string{
		"7": "ready: cuda: emulated GPU has compute capability 7.0; an engine that is not named needs 8.0 or newer", "8": "ready: <nil>",
	} {
		c := exec.Command(os.Args[0], "-test.v", "-test.run=^TestReadyKnowsOldGPUs$")
		c.Env = append(os.Environ(), major+"="+age)
		if out, err := c.CombinedOutput(); err != nil || !strings.Contains(string(out), want) {
			t.Errorf("compute capability %s.0: %v, want %q in\n%s", age, err, want, out)
		}
	}
}
