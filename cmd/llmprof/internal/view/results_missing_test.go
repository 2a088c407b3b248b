package view

import (
	"slices"
	"testing"

	"llmprof/measure/result"
)

// TestMissing holds that figures which one reason explains share a note, and that the lines of a reason stay apart.
func TestMissing(t *testing.T) {
	none := "no sensor: no driver\nno Jetson\n"
	r := &result.Result{Reasons: map[string]string{"conditions": none, "energy": none, "operators": "a server does not say", "ttft_s": "not asked for"}}
	want := []string{"energy, conditions: no sensor: no driver; no Jetson", "operators: a server does not say"}
	if got := missing(r).Items; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
