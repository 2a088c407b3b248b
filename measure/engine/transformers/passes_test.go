package transformers_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"llmprof/measure/engine"
)

func TestPasses(t *testing.T) {
	for _, name := range []string{"llama"} {
		t.Run(name, func(t *testing.T) {
			w := start(t)
			load := workload(t, name)
			if _, err := w.Load(t.Context(), load); err != nil {
				t.Fatal(err)
			}
			decode := repeat(t, w, engine.Decode, 3)
			request := repeat(t, w, engine.Request, 2)
			prefill := repeat(t, w, engine.Prefill, 2)
			again := repeat(t, w, engine.Decode, 1)
			want := ids(request[0])
			for what, got := range map[string][][]int{
				"a second request":    ids(request[1]),
				"a prefill":           append(ids(prefill[1]), want[1:]...),
				"decode":              append(want[:1:1], ids(decode[0])...),
				"a third decode":      append(want[:1:1], ids(decode[2])...),
				"decode after others": append(want[:1:1], ids(again[0])...),
			} {
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("%s chose other tokens than the first request (-want +got):\n%s", what, diff)
				}
			}
			for i, step := range decode[2].Steps {
				if step.Index != i+1 || step.Context != load.PromptLen+i {
					t.Errorf("decode step %d is of index %d and context %d", i, step.Index, step.Context)
				}
			}
		})
	}
}
