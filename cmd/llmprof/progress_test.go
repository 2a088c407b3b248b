package main

import (
	"strings"
	"testing"
	"time"
)

// TestTimeLeft checks that the time left is that of the parts so far.
func TestTimeLeft(t *testing.T) {
	if got := timeLeft(0, 0, 3); got != "" {
		t.Errorf("of nothing: %q", got)
	}
	if got := timeLeft(6*time.Second, 2, 10); got != "30s left" {
		t.Errorf("10 parts of 3 s: %q", got)
	}
	if got := timeLeft(6*time.Second, 2, 0); got != "" {
		t.Errorf("at the end: %q", got)
	}
}

// TestCounted checks that a terminal sees one line, which is gone at the end, and that a file
// sees none of a short run.
func TestCounted(t *testing.T) {
	for _, terminal := range []bool{true, false} {
		var out strings.Builder
		f := &progressLine{to: &out, terminal: terminal, last: time.Now()}
		part, end := f.counted("counting")
		part(1, 2)
		part(2, 2)
		end()
		shown := strings.Contains(out.String(), "counting ["+strings.Repeat("#", 12)+strings.Repeat(".", 12)+"] 1/2 0s left")
		if shown != terminal || terminal && !strings.HasSuffix(out.String(), "\r\x1b[K") {
			t.Errorf("terminal %v: %q", terminal, out.String())
		}
	}
}
