//go:build linux

package transformers_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"llmprof/internal/testkit"
	"llmprof/internal/testkit/pythontest"
	"llmprof/measure/internal/transformers"
)

// plant writes modules that say that they were run, under names that Python, torchrun
// and the worker import, and gives the file that they say it in.
func plant(t *testing.T, folder string) (told string) {
	t.Helper()
	told = filepath.Join(t.TempDir(), "told")
	for _, name := range []string{
		"llmprof_worker", "launch", "ctypes", "queue", "signal", "torch", "transformers", "accelerate", "safetensors", "sitecustomize",
		"usercustomize",
	} {
		text := fmt.Sprintf("with open(%q, 'a') as f: f.write('%s ')\n", told, name)
		testkit.Must(t, os.WriteFile(filepath.Join(folder, name+".py"), []byte(text), 0o600))
	}
	return told
}

// Nothing in the working directory or beside the model's config.json is run, neither by
// Python nor by torchrun and its ranks, also where an empty entry of PYTHONPATH names it.
func TestPlantedModulesDoNotRun(t *testing.T) {
	interpreter, err := filepath.Abs(pythontest.Find(t))
	testkit.Must(t, err)
	folder := t.TempDir()
	config := filepath.Join(folder, "config.json")
	testkit.Must(t, os.WriteFile(config, tiny(t, "llama"), 0o600))
	told := plant(t, folder)
	l := tinyLoad(t, "llama")
	l.Model, l.Config, l.GenLen = config, nil, 2
	t.Chdir(folder)
	for tp, path := range map[int]string{1: "", 2: string(os.PathListSeparator) + t.TempDir()} {
		t.Setenv("PYTHONPATH", path)
		w, err := transformers.Start(t.Context(), transformers.Options{
			Python: interpreter, TP: tp, Env: []string{"HF_HUB_OFFLINE=1", "OMP_NUM_THREADS=1"},
		})
		if err == nil {
			l.TP = tp
			_, err = w.Load(t.Context(), l)
			w.Close()
		}
		if ran, _ := os.ReadFile(told); len(ran) > 0 {
			t.Errorf("TP %d ran %s of the working directory", tp, ran)
		}
		if err != nil {
			t.Errorf("TP %d: %v", tp, err)
		}
	}
}
