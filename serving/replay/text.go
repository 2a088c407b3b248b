package replay

import (
	"bufio"
	"errors"
	"fmt"
	"io"

	"llmprof/internal/input"
)

// mostRecord is how many bytes of one record are read: Mooncake's have a hash for every 512 tokens of a prompt.
const mostRecord = 1 << 20

var errLong = errors.New("longer")

// A text gives a parser one record's bytes at a time, and knows in which line they are.
type text struct {
	b        *bufio.Reader
	left     int     // bytes until renew is called
	offset   int64   // bytes given
	newlines []int64 // offsets of those ends of lines that were given and not counted
	counted  int     // ends of lines before
	json     bool    // words that Python writes for numbers JSON lacks become strings, and a blank stands before each comma
	quoted   bool    // inside a string of JSON
	pending  string  // what replaces a word
}

// renew lets the next record through.
func (t *text) renew() { t.left = mostRecord }

// Read gives at least a byte, and what follows as long as it does not have to wait.
func (t *text) Read(p []byte) (int, error) {
	n := 0
	for n < len(p) && (n == 0 || t.pending != "" || t.b.Buffered() > 0) {
		if t.left <= 0 {
			if n > 0 {
				break
			}
			return 0, errLong
		}
		c, err := t.byte()
		if err != nil {
			if n > 0 {
				break // The reader gives its error again.
			}
			return 0, err
		}
		p[n] = c
		n++
		t.left--
		t.offset++
		if c == '\n' {
			t.newlines = append(t.newlines, t.offset)
		}
	}
	return n, nil
}

// byte is the next one. Where a comma follows a number at once, package json writes an error for the number's end, which takes longer
// than all else.
func (t *text) byte() (byte, error) {
	if t.pending != "" {
		c := t.pending[0]
		t.pending = t.pending[1:]
		return c, nil
	}
	c, err := t.b.ReadByte()
	if err != nil || !t.json {
		return c, err
	}
	switch {
	case c == ',' && !t.quoted:
		t.pending = ","
		t.left++
		return ' ', nil
	case c == '"':
		t.quoted = !t.quoted
	case t.quoted && c == '\\':
		if next, err := t.b.ReadByte(); err == nil { // Where it fails, it fails again when the next byte is read.
			t.pending = string([]byte{next})
		}
	case !t.quoted && (c == 'N' || c == 'I' || c == '-'):
		for _, word := range []string{"NaN", "Infinity", "-Infinity"} {
			if rest, _ := t.b.Peek(len(word) - 1); word[0] == c && string(rest) == word[1:] {
				_, err = t.b.Discard(len(rest))
				t.pending = word + `"`
				return '"', err
			}
		}
	}
	return c, err
}

// line is that of a byte that was given, from 1. Offsets do not fall.
func (t *text) line(offset int64) int {
	n := 0
	for n < len(t.newlines) && t.newlines[n] <= offset {
		n++
	}
	t.counted += n
	t.newlines = append(t.newlines[:0], t.newlines[n:]...)
	return t.counted + 1
}

// broken says why a record could not be read, at the line up to which the file was.
func (t *text) broken(err error) error {
	line := t.line(t.offset)
	switch {
	case errors.Is(err, errLong):
		return fmt.Errorf("line %d is longer than %s, the most that is read of one record", line, input.Size(mostRecord))
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("line %d: the file ends in the middle of a record", line)
	}
	return fmt.Errorf("line %d: %w", line, err)
}
