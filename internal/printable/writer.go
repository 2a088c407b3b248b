package printable

import (
	"io"
	"unicode/utf8"
)

// A Writer writes text as Text makes it, wherever writes cut it.
type Writer struct {
	To   io.Writer
	rest []byte // the beginning of a character
}

// Write writes b up to its last whole character.
func (w *Writer) Write(b []byte) (int, error) {
	text := append(w.rest, b...)
	whole := len(text) - begun(text)
	w.rest = append([]byte(nil), text[whole:]...)
	if _, err := io.WriteString(w.To, Text(string(text[:whole]))); err != nil {
		return 0, err
	}
	return len(b), nil
}

// Flush writes what began a character that did not come.
func (w *Writer) Flush() error {
	_, err := io.WriteString(w.To, Text(string(w.rest)))
	w.rest = nil
	return err
}

// begun is how many bytes at the end of a text begin a character.
func begun(text []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(text); n++ {
		if end := text[len(text)-n:]; utf8.RuneStart(end[0]) {
			if utf8.FullRune(end) {
				return 0
			}
			return n
		}
	}
	return 0
}
