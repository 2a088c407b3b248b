package printable

import (
	"strings"
	"testing"

	"llmprof/internal/testkit"
)

// A text is written as it is in one piece, wherever it is cut.
func TestWriter(t *testing.T) {
	const text = "a\x1b[2J µ漢🎉\u009b31m\xff\xf0\x9f x\u202e\r\n\tend\xe6"
	for size := 1; size <= len(text); size++ {
		var b strings.Builder
		w := &Writer{To: &b}
		for rest := text; rest != ""; rest = rest[min(size, len(rest)):] {
			n, err := w.Write([]byte(rest[:min(size, len(rest))]))
			testkit.Must(t, err)
			if n != min(size, len(rest)) {
				t.Errorf("%d bytes written", n)
			}
		}
		testkit.Must(t, w.Flush())
		if b.String() != Text(text) {
			t.Errorf("in pieces of %d: %q, want %q", size, b.String(), Text(text))
		}
	}
}
