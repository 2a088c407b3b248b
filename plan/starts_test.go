package plan

import (
	"slices"
	"strconv"
	"testing"

	"llmprof/unit"
)

// A command of vLLM has no more sequences than the cache has blocks of states, with which it would stop at start-up.
func TestLaunchWithinStates(t *testing.T) {
	for _, x := range []struct {
		model, gpu, weights string
		most                int
	}{{"qwen3.6-27b", "h100", "", 400}, {"qwen3.6-27b", "h100", "fp8", 900}, {"llama3.1-8b", "h100", "", 1024}} {
		q := request(t, x.model, x.gpu)
		r := Row{Card: &q.Cards[0], Formats: Formats{Weights: x.weights, KV: unit.BF16}, Split: Split{1, 1, 1, 0}, DP: 1, Batch: 1024, GPUs: 1}
		l := Launches(&r, q, "org/model")[0]
		at := slices.Index(l.Args, "--max-num-seqs")
		if at < 0 {
			t.Fatalf("%s: %v", x.model, l)
		}
		n, err := strconv.Atoi(l.Args[at+1])
		if err != nil || n > x.most || n < x.most*3/4 {
			t.Errorf("%s %s: %s sequences, want up to %d", x.model, x.weights, l.Args[at+1], x.most)
		}
		t.Log(x.model, x.weights, l.Args[at+1])
	}
	// The weights leave no room for a request: no command is printed.
	q := request(t, "llama3.1-70b", "h100")
	r := Row{Card: &q.Cards[0], Formats: Formats{KV: unit.BF16}, Split: Split{1, 1, 1, 0}, DP: 1, Batch: 8, GPUs: 1}
	for _, l := range Launches(&r, q, "org/model") {
		if l.Engine == "vllm" || l.Engine == "kubernetes" {
			t.Errorf("%s: %s", l.Engine, l.Text)
		}
	}
}
