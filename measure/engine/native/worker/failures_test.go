package worker

import (
	"fmt"
	"testing"

	"llmprof/measure/engine"
	"llmprof/measure/engine/native/cuda"
)

// The worker distinguishes a GPU on which nothing works any more from other errors of the driver.
func TestClassify(t *testing.T) {
	for code, want := range map[int]string{
		2: engine.OutOfMemory, 214: engine.GPUFailed, 220: engine.GPUFailed, 700: engine.GPUFailed, 719: engine.GPUFailed, 999: engine.GPUFailed,
		1: engine.Internal, 209: engine.Internal,
	} {
		name := map[int]string{2: "CUDA_ERROR_OUT_OF_MEMORY"}[code]
		f := classify(fmt.Errorf("rank 1: %w", &cuda.Error{Call: "cuStreamSynchronize", Code: code, Name: name}))
		if f.Kind != want || f.Fatal != (want != engine.OutOfMemory) {
			t.Errorf("code %d: %+v, want %s", code, f, want)
		}
	}
}
