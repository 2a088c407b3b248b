//go:build unix

package transformers_test

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"llmprof/internal/testkit"
	"llmprof/measure/tracefile"
	"llmprof/measure/worker"
)

// Decode steps have the true context, which grows with each and begins anew with
// each pass; only with a frozen one does it stay.
func TestContextGrows(t *testing.T) {
	w := common(t)
	l := tinyLoad(t, "llama")
	for _, frozen := range []bool{false, true} {
		l.FrozenContext = frozen
		load(t, w, l)
		for _, pass := range repeat(t, w, worker.Decode, 2) {
			var got, want []int
			for i, step := range pass.Steps {
				got = append(got, step.Context)
				want = append(want, l.PromptLen)
				if !frozen {
					want[i] += i
				}
			}
			if diff := cmp.Diff(want, got); diff != "" || len(got) != l.GenLen-1 {
				t.Errorf("frozen %v: contexts (-want +got):\n%s", frozen, diff)
			}
		}
	}
}

// The time to the last token is at least its parts: steps do not overlap.
func TestPartsMakeUpTheWhole(t *testing.T) {
	w := common(t)
	load(t, w, tinyLoad(t, "llama"))
	for _, pass := range repeat(t, w, worker.Request, 5) {
		var parts int64
		for _, step := range pass.Steps {
			parts += step.EndNS - step.StartNS
		}
		whole := pass.Tokens[len(pass.Tokens)-1].NS - pass.Steps[0].StartNS
		if parts > whole || whole > pass.EndNS-pass.BeginNS {
			t.Errorf("the steps take %d ns, the request %d ns, the pass %d ns", parts, whole, pass.EndNS-pass.BeginNS)
		}
		t.Logf("parts make up %.1f %% of the whole", 100*float64(parts)/float64(whole))
	}
}

// What a killed worker had finished is not lost.
func TestKilledInARun(t *testing.T) {
	w := start(t)
	load(t, w, tinyLoad(t, "llama"))
	finished := 0
	_, err := w.Run(t.Context(), worker.Run{Phase: worker.Request, Seconds: 600}, func(p worker.Pass) {
		if len(p.Steps) != 6 || len(p.Tokens) != 6 || p.Index != finished {
			t.Errorf("pass %d has %d steps and %d tokens", p.Index, len(p.Steps), len(p.Tokens))
		}
		if finished++; finished == 5 {
			kill(t, w.Hello().PID)
		}
	})
	var crash *worker.Crash
	if !errors.As(err, &crash) || finished < 5 {
		t.Errorf("%d passes, then %v", finished, err)
	}
}

func TestStopAndIdle(t *testing.T) {
	w := common(t)
	l := tinyLoad(t, "llama")
	l.SaveOutputs = false
	load(t, w, l)
	passes := 0
	done, err := w.Run(t.Context(), worker.Run{Phase: worker.Decode, Seconds: 600}, func(p worker.Pass) {
		if passes++; passes == 3 {
			w.Stop()
		}
		if p.Tokens[0].IDs != nil {
			t.Errorf("tokens were sent that nobody asked for: %v", p.Tokens[0])
		}
	})
	if err != nil || done.Passes != passes || passes < 3 {
		t.Errorf("%d passes, %+v, %v", passes, done, err)
	}
}

// Prompts are taken in turn, a batch a pass, from the start again at the end.
func TestPromptsInTurn(t *testing.T) {
	w := common(t)
	l := tinyLoad(t, "llama")
	l.PromptLen, l.Batch = 0, 2
	l.Prompts = [][]int{{1, 2, 3, 4}, {5, 6, 7, 8}, {9, 10, 11, 12}}
	if ready := load(t, w, l); ready.PromptLen != 4 {
		t.Errorf("the prompts have %d tokens, want 4", ready.PromptLen)
	}
	turns := repeat(t, w, worker.Request, 3)
	if cmp.Equal(ids(turns[0]), ids(turns[1])) {
		t.Error("the second batch of prompts gives the tokens of the first")
	}
	if diff := cmp.Diff(ids(turns[0]), ids(turns[2])); diff != "" {
		t.Errorf("the first batch again gives other tokens:\n%s", diff)
	}
	if turns[1].Tokens[0].IDs[1] != turns[0].Tokens[0].IDs[0] {
		t.Error("the fourth sequence is not the first again")
	}
}

// A directory with weights and a tokenizer, and one with code of its own.
func TestCheckpoint(t *testing.T) {
	t.Setenv("HF_HOME", t.TempDir()) // code is copied there before it runs
	plain, custom := t.TempDir(), t.TempDir()
	script(t, nil, "checkpoint.py", "testdata/llama.json", plain, custom)
	w := start(t)
	l := tinyLoad(t, "llama")
	l.Model, l.Config, l.RandomWeights, l.PromptLen = plain, nil, false, 3
	l.Texts = []string{"w5 w6 w7 w8", "w1 w2 w3"}
	load(t, w, l)
	want := ids(repeat(t, w, worker.Request, 1)[0])
	l.Texts, l.Prompts = nil, [][]int{{5, 6, 7}, {1, 2, 3}}
	load(t, w, l)
	if diff := cmp.Diff(want, ids(repeat(t, w, worker.Request, 1)[0])); diff != "" {
		t.Errorf("texts and their tokens (-texts +tokens):\n%s", diff)
	}
	l.Model = custom
	_, err := w.Load(t.Context(), l)
	wantFailure(t, "code that was not trusted", err, worker.Unsupported, "--trust-remote-code")
	l.TrustRemoteCode = true
	ready := load(t, w, l)
	if diff := cmp.Diff(want, ids(repeat(t, w, worker.Request, 1)[0])); diff != "" || ready.Options["model_class"] != "Model" {
		t.Errorf("its own code, class %s (-library +own):\n%s", ready.Options["model_class"], diff)
	}
}

// The trace holds an annotation for each pass and step, and its clock is the
// host's.
func TestTrace(t *testing.T) {
	w := common(t)
	load(t, w, tinyLoad(t, "llama"))
	file := filepath.Join(t.TempDir(), "trace.json.gz")
	traced, err := w.Trace(t.Context(), worker.Trace{Phase: worker.Request, Passes: 2, File: file})
	testkit.Must(t, err)
	trace, err := tracefile.ReadFile(traced.File)
	testkit.Must(t, err)
	for _, name := range []string{"request pass 0", "request pass 1", "prefill", "decode step 5"} {
		if err := trace.Anchor(name, 1); err != nil {
			t.Error(err)
		}
	}
	testkit.Must(t, trace.Anchor(traced.Anchor, traced.AnchorNS))
	begin, err := trace.Micros(traced.BeginNS)
	testkit.Must(t, err)
	testkit.Must(t, trace.Anchor("request pass 0", 0))
	first, err := trace.Micros(0)
	if err != nil || first < begin || first > begin+float64(traced.EndNS-traced.BeginNS)/1e3 {
		t.Errorf("the first pass begins at %v us, the passes at %v us", first, begin)
	}
	repeat(t, w, worker.Decode, 1)
}
