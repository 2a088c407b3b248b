package replay

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"llmprof/internal/input"
)

// mostRecord is how many bytes of one record are read: Mooncake's have a hash for every 512 tokens of a prompt.
const mostRecord = 1 << 20

var errLong, errOther = errors.New("longer"), errors.New("another end")

// A values finds where the values of JSON begin and end, in a text of any length, and knows the lines. Package json then reads those that
// are of use. After an error there is nothing more.
type values struct {
	b    io.ByteScanner
	line int
	raw  []byte // the latest value
	err  error
}

// fail notes an error, if it is one and the first.
func (v *values) fail(err error) {
	if v.err == nil && err != nil {
		v.err = err
	}
}

// peek is the first byte of what comes next: a value, or the end of a list or an object; 0 at the end of the text.
func (v *values) peek() byte {
	for v.err == nil {
		switch c, err := v.b.ReadByte(); {
		case errors.Is(err, io.EOF):
			return 0
		case err != nil:
			v.fail(broken(v.line, err))
		case c == '\n':
			v.line++
		case strings.IndexByte(" \t\r", c) < 0:
			v.fail(v.b.UnreadByte())
			return c
		}
	}
	return 0
}

// value is the next value, until another one is asked for. It has at most so many bytes; with 0 it is passed over, however long it is.
func (v *values) value(most int) []byte {
	var ends []byte // The lists and objects that were begun end with these.
	quoted, escaped := false, false
	v.raw = v.raw[:0]
	v.peek()
	for n := 0; v.err == nil; n++ {
		c, err := v.b.ReadByte()
		alone := len(ends) == 0 && !quoted // The value is a number or a word, or has not begun.
		switch {
		case alone && n > 0 && (err != nil || strings.IndexByte(" \t\r\n,:]}", c) >= 0):
			if err == nil {
				v.fail(v.b.UnreadByte())
			}
			return v.raw
		case err == nil && len(v.raw) > most:
			err = errLong
		case escaped:
			escaped = false
		case quoted:
			escaped, quoted = c == '\\', c != '"'
		case c == '"':
			quoted = true
		case c == '{' || c == '[':
			ends = append(ends, c+2)
		case (c == '}' || c == ']') && (len(ends) == 0 || c != ends[len(ends)-1]):
			err = errOther
		case c == '}' || c == ']':
			ends = ends[:len(ends)-1]
		}
		switch {
		case errors.Is(err, errOther):
			v.fail(fmt.Errorf("line %d: not JSON: %c where a value, or another end, is wanted", v.line, c))
		case err != nil:
			v.fail(broken(v.line, err))
		case c == '\n':
			v.line++
		}
		if most > 0 {
			v.raw = append(v.raw, c)
		}
		if len(ends) == 0 && !quoted && strings.IndexByte(`"}]`, c) >= 0 {
			break
		}
	}
	return v.raw
}

// fields lets take have the name of each field of an object, to read its value.
func (v *values) fields(take func(key string)) {
	v.each('{', '}', "an object is wanted", func() {
		raw, key := v.value(mostRecord), ""
		if v.err == nil && json.Unmarshal(raw, &key) != nil {
			v.fail(fmt.Errorf("line %d: not JSON: %.40s where a name is wanted", v.line, raw))
		}
		if v.pass(':'); v.err == nil {
			take(key)
		}
	})
}

// list lets take read each value of a list.
func (v *values) list(take func()) { v.each('[', ']', "a list is wanted", take) }

// each lets take read what is between two bytes.
func (v *values) each(first, last byte, wanted string, take func()) {
	if v.peek() != first {
		v.other(wanted)
		return
	}
	v.pass(first)
	for i := 0; v.peek() != last && v.err == nil; i++ {
		if i > 0 {
			v.pass(',')
		}
		take()
	}
	v.pass(last)
}

// pass goes on behind a byte, which has to be the next.
func (v *values) pass(wanted byte) {
	switch c := v.peek(); {
	case c == 0:
		v.fail(broken(v.line, io.EOF))
	case c != wanted:
		v.fail(fmt.Errorf("line %d: not JSON: %q where %q is wanted", v.line, c, wanted))
	}
	_, _ = v.b.ReadByte()
}

// other says that what comes next is not what is wanted there.
func (v *values) other(wanted string) {
	what := []byte{v.peek()}
	line := v.line
	if strings.IndexByte("{[", what[0]) < 0 {
		what = v.value(mostRecord)
	}
	v.fail(fmt.Errorf("line %d: %.40s where %s", line, what, wanted))
}

// broken says why a record could not be read, at the line up to which the file was.
func broken(line int, err error) error {
	switch {
	case errors.Is(err, errLong):
		return fmt.Errorf("line %d is longer than %s, the most that is read of one record", line, input.Size(mostRecord))
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("line %d: the file ends in the middle of a record", line)
	}
	return fmt.Errorf("line %d: %w", line, err)
}
