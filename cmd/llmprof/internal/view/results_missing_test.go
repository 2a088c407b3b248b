package view

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"llmprof/measure/result"
)

// TestMissing holds that figures which one reason explains share a note, and that the lines of a reason stay apart.
func TestMissing(t *testing.T) {
	none := "no sensor: no driver\nno Jetson\n"
	r := &result.Result{Reasons: map[string]string{"conditions": none, "energy": none, "operators": "a server does not say",
		"ttft_s": "not asked for"}}
	want := []string{"energy, conditions: no sensor: no driver; no Jetson", "operators: a server does not say"}
	if got := missing(r).Items; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestTokensWithoutUsage holds that a server which never counts its tokens has not sent none.
func TestTokensWithoutUsage(t *testing.T) {
	s := &result.Serving{Requests: 12, Completed: 12, Usage: &result.UsageCheck{Missing: 12}}
	if got := fmt.Sprint(servingFields(s).Rows); !strings.Contains(got, "Tokens [not known: no answer came with usage]") {
		t.Error(got)
	}
}
