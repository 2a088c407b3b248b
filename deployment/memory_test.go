package deployment

import (
	"math"
	"testing"

	"llmprof/internal/testkit"
)

// An estimate and the server of a simulation have the same KV cache, whatever they are told that memory depends on. With steps of 16384
// tokens vLLM 0.4.3 on two T4 has fewer than with its own.
func TestOneCache(t *testing.T) {
	l, seen := Within(nil), map[string]int{}
	for name, change := range map[string]func(*Request){
		"default":   func(*Request) {},
		"budget":    func(q *Request) { q.Budget = new(16384) },
		"sequences": func(q *Request) { q.MaxSeqs = new(16) },
		"eager":     func(q *Request) { q.Eager = true },
		"share":     func(q *Request) { q.MemoryUtilization = new(Share(0.8)) },
	} {
		for _, x := range []struct{ model, gpu, engine string }{{"llama2-7b", "t4", "vllm@0.4.3"}, {"llama3-8b", "a100", "vllm@0.33.0"}} {
			q := &Request{Model: x.model, GPU: x.gpu, Engine: x.engine, TP: new(2), Weights: "fp16"}
			change(q)
			ans, err := l.Answer(t.Context(), q)
			testkit.Must(t, err)
			server, err := ans.Server(t.Context())
			testkit.Must(t, err)
			estimated, simulated := ans.Memory.Logged.Tokens, server.Tokens()
			if math.Abs(estimated-float64(simulated)) > 16 {
				t.Errorf("%s, %s: an estimate has %.0f tokens, a simulation %d", name, x.engine, estimated, simulated)
			}
			seen[x.engine+" "+name] = simulated
		}
	}
	for _, e := range []string{"vllm@0.4.3", "vllm@0.33.0"} {
		d := seen[e+" default"]
		if max(seen[e+" budget"], seen[e+" share"]) >= d || min(seen[e+" sequences"], seen[e+" eager"]) < d {
			t.Errorf("%s: %v", e, seen)
		}
	}
	if min(seen["vllm@0.33.0 eager"], seen["vllm@0.33.0 sequences"]) <= seen["vllm@0.33.0 default"] {
		t.Errorf("CUDA graphs and sequences take no memory: %v", seen)
	}
}
