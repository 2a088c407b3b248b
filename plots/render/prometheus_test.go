package render

import (
	"strings"
	"testing"

	"llmprof/internal/testkit"
)

// TestPrometheusNamesUnitsAndBounds writes a document of all kinds of values.
func TestPrometheusNamesUnitsAndBounds(t *testing.T) {
	var b strings.Builder
	testkit.Must(t, Prometheus(&b, map[string]any{
		"schema": "x", "engine": "vllm", "model": map[string]any{"name": `a "b"`, "layers": 2}, "gpu": map[string]any{"key": "h100", "count": 4},
		"ttft_s": map[string]any{"low": 0.5, "expected": 1, "text": "x"}, "memory": map[string]any{"total_bytes": 1.5e10, "fits": true},
		"throughput_tok_s": map[string]any{"per_gpu": 7}, "energy_j": map[string]any{"per_token": nil}, "ops": []any{1}, "draw_w": 700,
	}))
	const labels = `{engine="vllm",gpu="h100",model="a \"b\""}`
	want := strings.ReplaceAll(`# TYPE llmprof_draw_watts gauge
llmprof_draw_watts* 700
# TYPE llmprof_gpu_count gauge
llmprof_gpu_count* 4
# TYPE llmprof_memory_fits gauge
llmprof_memory_fits* 1
# TYPE llmprof_memory_total_bytes gauge
llmprof_memory_total_bytes* 1.5e+10
# TYPE llmprof_model_layers gauge
llmprof_model_layers* 2
# TYPE llmprof_throughput_tok_s_per_gpu gauge
llmprof_throughput_tok_s_per_gpu* 7
# TYPE llmprof_ttft_seconds gauge
llmprof_ttft_seconds{engine="vllm",estimate="expected",gpu="h100",model="a \"b\""} 1
llmprof_ttft_seconds{engine="vllm",estimate="low",gpu="h100",model="a \"b\""} 0.5
`, "*", labels)
	if got := b.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
