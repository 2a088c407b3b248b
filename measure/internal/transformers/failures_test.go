package transformers_test

import (
	"os/exec"
	"strings"
	"testing"
)

// What torch and NCCL say of a GPU that is lost is told apart from other errors. It is
// classified without torch.
func TestClassify(t *testing.T) {
	const program = `import sys
from llmprof_worker.failures import classify
sys.stderr = open("/dev/null", "w")
failure = classify(RuntimeError(sys.argv[1]))
print(failure.kind, failure.fatal)`
	for text, want := range map[string]string{
		"CUDA error: unspecified launch failure":                                  "gpu-failed True",
		"CUDA error: uncorrectable ECC error encountered":                         "gpu-failed True",
		"CUDA error: an illegal memory access was encountered":                    "gpu-failed True",
		"CUDA error: device-side assert triggered":                                "gpu-failed True",
		"NCCL error: unhandled cuda error (run with NCCL_DEBUG=INFO for details)": "gpu-failed True",
		"CUDA error: out of memory":                                               "out-of-memory False",
		"CUDA error: no kernel image is available for execution on the device":    "internal True",
		"the size of tensor a (3) must match the size of tensor b (4)":            "internal False",
		"FlashAttention does not support head dimensions of 512":                  "unsupported False",
	} {
		c := exec.Command("python3", "-c", program, text)
		if out, err := c.CombinedOutput(); err != nil || strings.TrimSpace(string(out)) != want {
			t.Errorf("%s: %q, %v; want %s", text, out, err, want)
		}
	}
}
