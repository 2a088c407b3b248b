package replay

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"llmprof/internal/fileerror"
	"llmprof/internal/input"
)

// mostRecord is how many bytes of one record are read: Mooncake's have a hash for every 512 tokens of a prompt. mostWord is how many bytes
// a text or a number has outside of records.
const (
	mostRecord = 1 << 20
	mostWord   = 1 << 26
)

var (
	errLong = fmt.Errorf("longer than %s, the most that is read of one record", input.Size(mostRecord))
	errWord = fmt.Errorf("longer than %s, the most that is read of a text or a number", input.Size(mostWord))
)

// A lines gives a parser one line of a text at a time, so that it is known in which one reading fails, and bounds a record. The parser of
// JSON gets the numbers that Python writes and JSON lacks as strings.
type lines struct {
	b    *bufio.Reader
	line int
	left int   // bytes of the record, or of the word outside of records
	err  error // why there is no further text

	json            bool
	words           bool   // No record has begun.
	quoted, escaped bool   // The next byte is in a string, and behind a backslash.
	word            string // what is left of such a number
}

// Read reads up to the end of a line.
func (l *lines) Read(p []byte) (n int, err error) {
	for ; n < len(p) && (n == 0 || p[n-1] != '\n'); n++ {
		if p[n] = l.next(); l.err != nil {
			return n, l.err
		}
	}
	return n, nil
}

// next is the next byte.
func (l *lines) next() (c byte) {
	if len(l.word) > 0 {
		c, l.word = l.word[0], l.word[1:]
		return c
	}
	if l.left == 0 {
		if l.err = errLong; l.words {
			l.err = errWord
		}
		return 0
	}
	c, l.err = l.b.ReadByte()
	l.left--
	switch {
	case c == '\n':
		l.line++
	case !l.json:
	case l.escaped:
		l.escaped = false
	case l.quoted:
		l.escaped, l.quoted = c == '\\', c != '"'
	case c == '"':
		l.quoted = true
	case l.words && strings.IndexByte("[]{},", c) >= 0:
		l.left = mostWord
	case c == 'N' || c == 'I' || c == '-':
		for _, word := range [...]string{"NaN", "Infinity", "-Infinity"} {
			if rest, _ := l.b.Peek(len(word) - 1); word == string(c)+string(rest) {
				_, _ = l.b.Discard(len(rest))
				l.word = word + `"`
				return '"'
			}
		}
	}
	return c
}

// A values reads the values of JSON, and knows the lines.
type values struct {
	*jsontext.Decoder
	in *lines
}

func newValues(r io.Reader, line int) *values {
	in := &lines{b: bufio.NewReader(r), line: line, left: mostWord, json: true, words: true}
	return &values{jsontext.NewDecoder(in, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)), in}
}

// line is the line in which the next value begins.
func (v *values) line() int {
	return v.in.line - bytes.Count(bytes.TrimLeft(v.UnreadBuffer(), " \t\r\n:,"), []byte("\n"))
}

// fields lets take have the name of each field of an object, to read its value.
func (v *values) fields(take func(key string) error) error {
	return v.each('{', "an object is wanted", func() error {
		key, err := v.ReadToken()
		if err != nil {
			return err
		}
		return take(key.String())
	})
}

// list lets take read each value of a list.
func (v *values) list(take func() error) error { return v.each('[', "a list is wanted", take) }

// each lets take read what is in an object or a list.
func (v *values) each(begin jsontext.Kind, wanted string, take func() error) error {
	if v.PeekKind() != begin {
		return v.other(wanted)
	}
	_, err := v.ReadToken()
	for err == nil && v.PeekKind() != begin+2 { // In ASCII the ends are two behind.
		err = take()
	}
	if err == nil {
		_, err = v.ReadToken()
	}
	return err
}

// other says that what comes next is not what is wanted there.
func (v *values) other(wanted string) error {
	line, what := v.line(), string(v.PeekKind())
	if what != "{" && what != "[" {
		value, err := v.ReadValue()
		if err != nil {
			return err
		}
		what = string(value)
	}
	return fmt.Errorf("line %d: %.40s where %s", line, what, wanted)
}

// wrong says in which line and why a text is no JSON, where that is the error.
func (v *values) wrong(err error) error {
	e, ok := errors.AsType[*jsontext.SyntacticError](err)
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return broken(v.in.line, err)
	case v.in.err != nil && !errors.Is(err, io.EOF) && errors.Is(err, v.in.err):
		return broken(v.in.line, v.in.err)
	case !ok:
		return err
	}
	rest := v.UnreadBuffer()
	rest = rest[min(max(int(e.ByteOffset-v.InputOffset()), 0), len(rest)):]
	ahead, _ := v.in.b.Peek(200)
	text, _, _ := bytes.Cut(slices.Concat(rest, ahead), []byte("\n"))
	return fmt.Errorf("line %d: not JSON: %w:\n%s", v.in.line-bytes.Count(rest, []byte("\n")), e.Err,
		fileerror.Excerpt(string(text), 1, len(text)))
}

// broken says why a record could not be read, at the line up to which the file was.
func broken(line int, err error) error {
	switch {
	case errors.Is(err, errLong), errors.Is(err, errWord):
		return fmt.Errorf("line %d is %w", line, err)
	case errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("line %d: the file ends in the middle of a record", line)
	}
	return fmt.Errorf("line %d: %w", line, err)
}
