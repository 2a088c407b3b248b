package serving

import (
	"fmt"
	"testing"
)

// TestRetracted holds which sequence gives its blocks back where they run out, and when it begins again: by SGLang's source
// (0.5.23, retract_decode and _add_request_to_queue) that with the shortest answer and then with the longest prompt, behind all that
// wait; by vLLM's the youngest, before them.
func TestRetracted(t *testing.T) {
	for name, want := range map[string]struct {
		first int  // the request that is preempted
		next  bool // the request that waits takes its place
	}{"vllm": {2, false}, "sglang": {1, true}, "sglang-mixed": {1, true}} {
		s := server(t, "llama3.1-8b", "h100", 1, name)
		s.CacheTokens, s.Scheduler.MaxSeqs = 1820, 3
		all := []Request{{Prompt: 100, Gen: 500}, {Prompt: 300, Gen: 500}, {Prompt: 200, Gen: 500}, {At: 0.1, Prompt: 50, Gen: 100}}
		got := map[int]Record{}
		r, err := Simulate(t.Context(), s, Replay(all), Options{InEngine: true, Each: func(q *Record) { got[q.Index] = *q }})
		if err != nil || len(got) != len(all) {
			t.Fatal(name, err, r)
		}
		what := fmt.Sprintf("%s: preempted %d, %d, %d, %d times", name, got[0].Preempted, got[1].Preempted, got[2].Preempted, got[3].Preempted)
		for i := range 3 {
			if (got[i].Preempted > 0) != (i == want.first) {
				t.Errorf("%s, want request %d alone", what, want.first)
			}
		}
		if next := got[3].First < got[0].Last; next != want.next {
			t.Errorf("%s: the next begins at %v, the others end at %v", what, got[3].First, got[0].Last)
		}
	}
}
