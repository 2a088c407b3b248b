package native

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"llmprof/measure/engine/native/cuda"
	"llmprof/measure/engine/native/internal/emulate"
)

// TestGPUIsTransformersAt8B is TestGPUIsTransformers of llama3.1-8b, on one GPU and on
// two if there are two: errors of rounding grow with layers and widths. Its checkpoint
// takes 16 GB of TMPDIR (best of memory, /dev/shm) and its reference in float64 80 GB of
// a GPU, so it runs where LLMPROF_TEST_8B is set.
func TestGPUIsTransformersAt8B(t *testing.T) {
	if os.Getenv("LLMPROF_TEST_8B") == "" {
		t.Skip("LLMPROF_TEST_8B is not set: 16 GB of disk, and 80 GB of a GPU's memory")
	}
	libraries := emulate.Device(t)
	if emulate.RealGPU() != nil {
		t.Skip("too large for an emulated GPU")
	}
	dir := t.TempDir()
	config, folder := filepath.Join(dir, "llama3.1-8b.json"), filepath.Join(dir, "0")
	if err := os.WriteFile(config, []byte(llama8B), 0o644); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	logitsScript(t, "write", dir, config)
	t.Logf("written after %.0f s", time.Since(begin).Seconds())
	var said answers
	add := func(name string, e interface {
		runner
		Close() error
	}, w workload) {
		const vocab, limit = 128256, 1e-2
		said.add(t, name, folder, e, w, vocab)
		said.limits = append(said.limits, slices.Repeat([][]float64{slices.Repeat([]float64{limit}, w.gen)}, w.batch))
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: batch %d, prompt %d: %d tokens after %.0f s", name, w.batch, w.prompt, w.gen, time.Since(begin).Seconds())
	}
	for _, w := range []workload{{1, 1, 64}, {8, 77, 64}, {1, 4096, 3}} {
		add("llama3.1-8b", open(t, llama8B, Options{Weights: folder, Batch: w.batch, PromptLen: w.prompt, GenLen: w.gen}), w)
	}
	if n, err := cuda.Count(libraries); err == nil && n > 1 {
		w := workload{8, 77, 64}
		add("llama3.1-8b on two GPUs", openShared(t, llama8B, Options{TP: 2, Weights: folder, Batch: w.batch, PromptLen: w.prompt, GenLen: w.gen}), w)
	}
	said.hold(t)
}
