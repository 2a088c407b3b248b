package process

import (
	"fmt"
	"testing"

	"llmprof/measure/native/cuda"
	"llmprof/measure/worker"
)

// The worker distinguishes a GPU on which nothing works any more from other errors of the driver.
func TestClassify(t *testing.T) {
	for code, want := range map[int]string{
		2: worker.OutOfMemory, 214: worker.GPUFailed, 220: worker.GPUFailed, 700: worker.GPUFailed, 719: worker.GPUFailed, 999: worker.GPUFailed,
		1: worker.Internal, 209: worker.Internal,
	} {
		name := map[int]string{2: "CUDA_ERROR_OUT_OF_MEMORY"}[code]
		f := classify(fmt.Errorf("rank 1: %w", &cuda.Error{Call: "cuStreamSynchronize", Code: code, Name: name}))
		if f.Kind != want || f.Fatal != (want != worker.OutOfMemory) {
			t.Errorf("code %d: %+v, want %s", code, f, want)
		}
	}
}
