package analytic_test

import (
	"testing"

	"llmprof/internal/testkit/casetest"
)

var (
	testCase = casetest.Case
	onEngine = casetest.OnEngine
	with     = casetest.With
	scheme   = casetest.Scheme
	predict  = casetest.Predict
	explain  = casetest.Explain
	line     = casetest.Line
)

func near[T ~float64](t testing.TB, what string, got, want T, rel float64) {
	t.Helper()
	casetest.Near(t, what, got, want, rel)
}

// variety has a model of every kind that the theory distinguishes.
var variety = []string{
	"llama3.1-8b", "gpt2", "falcon-7b", "gemma2-9b", "gemma3-27b", "mistral-7b-v0.1", "mixtral-8x7b", "qwen3-30b-a3b",
	"deepseek-v3", "gpt-oss-120b", "mamba2-2.7b", "falcon-mamba-7b", "jamba-v0.1", "nemotron-h-8b", "qwen3-next-80b-a3b", "llama4-scout",
}
