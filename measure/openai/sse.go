package openai

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"time"

	"llmprof/internal/input"
)

// Bounds of what is taken from a server, in bytes.
const (
	maxEvent  = 8 << 20   // limit of one event's data
	maxStream = 256 << 20 // limit of one answer
)

var errTooLarge = errors.New("too large")

// events reads server-sent events (WHATWG HTML, section 9.2, "Server-sent
// events"): lines end in CRLF, LF or CR, lines that begin with a colon are
// comments, data lines of one event are joined by LF, a blank line ends it.
//
// Only data is of use here; other fields are read over.
type events struct {
	from io.Reader
	now  func() time.Duration

	buf    []byte // read, not yet taken: buf[start:end]
	start  int
	end    int
	total  int
	at     time.Duration // when what was read last had come
	begun  bool          // the byte order mark, if any, is past
	skipLF bool          // the last line ended in CR, an LF now belongs to it

	data  []byte // data of the event being read
	named bool   // The event has a data line, which may be empty.
}

func newEvents(from io.Reader, now func() time.Duration) *events {
	return &events{from: from, now: now, buf: make([]byte, 16<<10)}
}

// next gives the data of an event, which is good until the call after, and when
// it had come. At the stream's end it gives io.EOF; an event that was not ended
// by a blank line is dropped, as the standard has it.
func (e *events) next() (data []byte, at time.Duration, err error) {
	e.data, e.named = e.data[:0], false
	for {
		line, err := e.line()
		if err != nil {
			return nil, e.at, err
		}
		if len(line) == 0 {
			if e.named {
				return e.data, e.at, nil
			}
			continue
		}
		if err := e.field(line); err != nil {
			return nil, e.at, err
		}
	}
}

func (e *events) field(line []byte) error {
	name, value, _ := bytes.Cut(line, []byte(":"))
	if string(name) != "data" { // a comment's name is empty
		return nil
	}
	value = bytes.TrimPrefix(value, []byte(" "))
	if e.named {
		e.data = append(e.data, '\n')
	}
	e.named = true
	e.data = append(e.data, value...)
	if len(e.data) > maxEvent {
		return fmt.Errorf("%w: an event is longer than %s", errTooLarge, input.Size(maxEvent))
	}
	return nil
}

// line gives the next line without its end. It is good until the next call.
func (e *events) line() ([]byte, error) {
	seen := 0 // bytes of the buffer without an end of line
	for {
		if e.skipLF && e.start < e.end {
			e.skipLF = false
			if e.buf[e.start] == '\n' {
				e.start++
			}
		}
		held := e.buf[e.start:e.end]
		if i := lineEnd(held[seen:]); i >= 0 {
			i += seen
			e.skipLF = held[i] == '\r'
			e.start += i + 1
			return e.unmarked(held[:i]), nil
		}
		if seen = len(held); seen > maxEvent+len("data: ") {
			return nil, fmt.Errorf("%w: a line is longer than %s", errTooLarge, input.Size(maxEvent))
		}
		if err := e.fill(); err != nil {
			return nil, err
		}
	}
}

// lineEnd is where the first CR or LF is, or -1. (Two searches for a byte are
// some ten times as fast as bytes.IndexAny.)
func lineEnd(b []byte) int {
	lf := bytes.IndexByte(b, '\n')
	if lf >= 0 {
		b = b[:lf]
	}
	if cr := bytes.IndexByte(b, '\r'); cr >= 0 {
		return cr
	}
	return lf
}

// unmarked takes the byte order mark off the first line.
func (e *events) unmarked(line []byte) []byte {
	if !e.begun {
		e.begun = true
		line = bytes.TrimPrefix(line, []byte("\xef\xbb\xbf"))
	}
	return line
}

// fill reads more, and looks at the clock as soon as it has.
func (e *events) fill() error {
	if e.end == len(e.buf) {
		e.room()
	}
	for range 100 {
		n, err := e.from.Read(e.buf[e.end:])
		if n > 0 {
			e.at = e.now()
			e.end += n
			if e.total += n; e.total > maxStream {
				return fmt.Errorf("%w: an answer is longer than %s", errTooLarge, input.Size(maxStream))
			}
			return nil // an error comes again with the next read
		}
		if err != nil {
			e.at = e.now()
			return err
		}
	}
	return io.ErrNoProgress
}

// room moves what is left to the front, and doubles a buffer that is full of
// one line.
func (e *events) room() {
	held := e.buf[e.start:e.end]
	to := e.buf
	if len(held) > len(e.buf)/2 {
		to = make([]byte, 2*len(e.buf))
	}
	e.end = copy(to, held)
	e.buf, e.start = to, 0
}
