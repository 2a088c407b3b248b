package validate

import (
	"strings"
	"testing"
)

// TestServerSettings holds that the rows of servers have the settings of their launch scripts, where
// these changed from one release of an engine to the next.
func TestServerSettings(t *testing.T) {
	minimax, deepseek, flash, own, newest := 0, 0, 0, 0, 0
	for _, o := range embedded(t) {
		switch {
		case o.Model == "minimax-m2.5" && strings.Contains(o.Note, "0.19.0"): // vllm/vllm-openai:v0.19.0 came with a new script
			minimax++
			if o.KV != "fp8" || o.Graphs != 2048 || o.Budget > 2*10240 {
				t.Errorf("%s: cache %q, graphs of %d tokens, steps of %d: want fp8, 2048, two prompts", o.ID, o.KV, o.Graphs, o.Budget)
			}
			if o.EP > 1 && !strings.Contains(o.ID, "_ep2_") && !strings.Contains(o.ID, "_ep4_") {
				t.Errorf("%s: EP %d, which its list does not have", o.ID, o.EP)
			}
		case o.Model == "deepseek-r1" && strings.Contains(o.Note, "1.2.0rc6"): // of January 2026 and later
			deepseek++
			if o.Budget < 8192 {
				t.Errorf("%s: steps of %d tokens, want at least 8192", o.ID, o.Budget)
			}
		case o.Source == "inferencex": // glm5_fp8_b*.sh and qwen3.5_fp8_b300.sh leave DeepGEMM on, unlike qwen3.5_fp8_b200.sh
			newest++
			deepGEMM := o.Model == "glm-5" || o.GPU[:4] == "b300" && o.Release == "0.5.10.post1" || o.Weights != "fp8-block" || o.GPU[0] != 'b'
			if (o.Option == "") != deepGEMM {
				t.Errorf("%s: dense products by %q", o.ID, o.Option)
			}
			if o.Model == "kimi-k2.5" && o.Graphs > 0 && (o.Graphs != 2048 || o.Budget > 2*10240) {
				t.Errorf("%s: graphs of %d tokens, steps of %d: want 2048, two prompts", o.ID, o.Graphs, o.Budget)
			}
		case o.Engine == "sglang" && o.Weights == "fp8-block" && strings.HasPrefix(o.GPU, "b"): // SGL_ENABLE_JIT_DEEPGEMM=false
			flash++
			if o.Option != "flashinfer-gemm" {
				t.Errorf("%s: dense products by %q, want FlashInfer's", o.ID, o.Option)
			}
		case o.Load == Closed && o.Engine != "sglang":
			own++
			if o.Budget != o.Batch+o.Prompt+1500 {
				t.Errorf("%s: steps of %d tokens, want %d", o.ID, o.Budget, o.Batch+o.Prompt+1500)
			}
		}
	}
	if minimax == 0 || deepseek == 0 || flash == 0 || own == 0 || newest == 0 {
		t.Errorf("%d rows of MiniMax, %d and %d of DeepSeek, %d of aiconfigurator's own and %d of the newest models: want some of each", minimax,
			deepseek, flash, own, newest)
	}
}
