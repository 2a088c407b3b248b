package child

import (
	"bytes"
	"io"
	"sync"
)

// What is kept of a worker's log for an error: enough for a Python traceback.
const (
	tailLines = 40
	tailBytes = 16 << 10
)

// A tail keeps the end of what is written to it, and hands all of it on.
type tail struct {
	mu   sync.Mutex
	kept []byte
	also io.Writer // nil for nowhere
}

// Write never fails, for a full disk must not stop the worker's log.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.also != nil {
		if _, err := t.also.Write(p); err != nil {
			t.also = nil
		}
	}
	t.kept = append(t.kept, p...)
	if extra := len(t.kept) - tailBytes; extra > 0 {
		t.kept = append(t.kept[:0], t.kept[extra:]...)
	}
	return len(p), nil
}

// lines gives the last lines, without blank ones at the end.
func (t *tail) lines() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	text := bytes.TrimSpace(t.kept)
	if len(text) == 0 {
		return nil
	}
	split := bytes.Split(text, []byte("\n"))
	if len(split) > tailLines {
		split = split[len(split)-tailLines:]
	}
	lines := make([]string, len(split))
	for i, l := range split {
		lines[i] = string(bytes.TrimRight(l, "\r"))
	}
	return lines
}
