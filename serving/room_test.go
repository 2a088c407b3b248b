package serving

import (
	"fmt"
	"math"
	"testing"
)

// TestTokensAsLogged holds that the KV cache of models whose sequences take more than one kind of block is stated as their engine's log
// does, and that a server which is told the tokens that are worked out has the same blocks.
func TestTokensAsLogged(t *testing.T) {
	for _, c := range []struct{ model, engine, scheduler string }{
		{"llama3.1-8b", "vllm", "vllm"}, {"qwen3.5-9b", "vllm", "vllm"}, {"gpt-oss-20b", "vllm", "vllm"}, {"deepseek-v2-lite", "vllm", "vllm"},
		{"qwen3.5-9b", "sglang", "sglang"}, {"gpt-oss-20b", "sglang", "sglang"},
	} {
		t.Run(fmt.Sprint(c.model, " on ", c.engine), func(t *testing.T) {
			s := engineServer(t, c.model, "h200", 1, c.engine, c.scheduler)
			s.Context = 131072
			sequences := min(s.Scheduler.MaxSeqs, s.Scheduler.Budget)
			log, known := s.Predictor.Start(s.Scheduler.Budget, sequences, s.Context)
			if !known {
				t.Fatal("the engine's log is not known")
			}
			got, blocks := s.Tokens(), s.room().blocks
			if math.Abs(float64(got)/log.Tokens-1) > 2e-3 {
				t.Errorf("%d tokens, the log has %.0f", got, log.Tokens)
			}
			s.CacheTokens = got
			if again := s.room().blocks; again < blocks-1 || again > blocks {
				t.Errorf("%d tokens given are %d blocks, worked out they are %d", got, again, blocks)
			}
		})
	}
}
