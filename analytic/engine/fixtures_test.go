package engine_test

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
