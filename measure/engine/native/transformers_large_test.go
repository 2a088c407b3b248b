package native

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"llmprof/measure/engine/native/cuda"
	"llmprof/measure/engine/native/internal/emulate"
)

// TestGPUIsTransformersAt8B is TestGPUIsTransformers of llama3.1-8b, on one GPU and on
// two if there are two. Errors of rounding grow with layers and widths, and how much hangs
// on the weights. With those that transformers initializes what enters products cannot be in
// 16 bits and the scores within a percent: scores are held against what that rounding alone
// does. With those of a model that blocks change little, as trained ones are, scores are
// within a percent. Checkpoints take 32 GB of TMPDIR (best of memory, /dev/shm) and the
// reference in float64 80 GB of a GPU, so it runs where LLMPROF_TEST_8B is set.
func TestGPUIsTransformersAt8B(t *testing.T) {
	if os.Getenv("LLMPROF_TEST_8B") == "" {
		t.Skip("LLMPROF_TEST_8B is not set: 32 GB of disk, and 80 GB of a GPU's memory")
	}
	libraries := emulate.Device(t)
	if emulate.RealGPU() != nil {
		t.Skip("too large for an emulated GPU")
	}
	dir, begin := t.TempDir(), time.Now()
	names := []string{"initialized", "scaled"}
	args := []string{"write", dir}
	for _, name := range names {
		config := filepath.Join(dir, name+"-8b.json")
		if err := os.WriteFile(config, []byte(llama8B), 0o644); err != nil {
			t.Fatal(err)
		}
		args = append(args, config)
	}
	logitsScript(t, args...)
	t.Logf("written after %.0f s", time.Since(begin).Seconds())
	var said answers
	for i, name := range names {
		folder := filepath.Join(dir, strconv.Itoa(i))
		add := func(name string, w workload, e interface {
			runner
			Close() error
		}) {
			said.add(t, name, folder, e, w, 128256)
			if err := e.Close(); err != nil {
				t.Fatal(err)
			}
			t.Logf("%s: batch %d, prompt %d: %d tokens after %.0f s", name, w.batch, w.prompt, w.gen, time.Since(begin).Seconds())
		}
		for _, w := range []workload{{1, 1, 64}, {8, 77, 64}, {1, 4096, 3}} {
			add(name, w, open(t, llama8B, Options{Weights: folder, Batch: w.batch, PromptLen: w.prompt, GenLen: w.gen}))
		}
		if n, err := cuda.Count(libraries); err == nil && n > 1 {
			w := workload{8, 77, 64}
			add(name+" on two GPUs", w, openShared(t, llama8B, Options{TP: 2, Weights: folder, Batch: w.batch, PromptLen: w.prompt, GenLen: w.gen}))
		}
	}
	said.holdLarge(t, 1e-2)
	t.Logf("held after %.0f s", time.Since(begin).Seconds())
}

// holdLarge holds answers against transformers': within the limit, or where rounding what
// enters products moves scores further than that at once, within 1.5 of it. It says how
// far transformers is with everything in bf16.
func (a *answers) holdLarge(t *testing.T, limit float64) {
	t.Helper()
	var asked []scoreRequest
	ways := []string{"exact", "rounded", "bfloat16"}
	for _, r := range a.requests {
		for _, r.How = range ways {
			asked = append(asked, r)
		}
	}
	all := scores(t, asked)
	for i, name := range a.names {
		exact := all[i*len(ways)]
		var moved [3]float64 // by the engine, rounding, and bf16
		var ties, steps int
		for s, positions := range exact {
			for step, want := range positions {
				got := a.logits[i][step][s]
				moved[0] = max(moved[0], apart(got, want))
				moved[1] = max(moved[1], apart(all[i*len(ways)+1][s][step], want))
				moved[2] = max(moved[2], apart(all[i*len(ways)+2][s][step], want))
				if steps++; argmax(got) != int32(slices.Index(want, slices.Max(want))) {
					ties++
				}
			}
		}
		most := max(limit, 1.5*moved[1])
		t.Logf("%s, request %d: scores of %d steps are %.2e from transformers' in float64 at worst; where inputs of products are rounded %.2e, transformers' in bf16 %.2e; %d other tokens",
			name, i, steps, moved[0], moved[1], moved[2], ties)
		if moved[0] > most {
			t.Errorf("%s, request %d: scores are %.2e from transformers', want %.2e", name, i, moved[0], most)
		}
		for s, positions := range exact {
			for step, want := range positions {
				if !sameChoice(want, argmax(a.logits[i][step][s]), most) {
					t.Errorf("%s, request %d, sequence %d, step %d: another token", name, i, s, step)
				}
			}
		}
	}
}
