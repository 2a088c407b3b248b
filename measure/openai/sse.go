package openai

import (
	"bufio"
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
	lines *bufio.Scanner
	clocked
	begun  bool // the byte order mark, if any, is past
	skipLF bool // the last line ended in CR, an LF now belongs to it

	data  []byte // data of the event being read
	named bool   // The event has a data line, which may be empty.
}

// clocked looks at the clock as soon as a read has come.
type clocked struct {
	from  io.Reader
	now   func() time.Duration
	total int
	at    time.Duration // when what was read last had come
}

// Read reads what has come, up to the most of an answer.
func (c *clocked) Read(p []byte) (int, error) {
	n, err := c.from.Read(p)
	if n > 0 || err != nil {
		c.at = c.now()
	}
	if c.total += n; c.total > maxStream {
		return 0, fmt.Errorf("%w: an answer is longer than %s", errTooLarge, input.Size(maxStream))
	}
	return n, err
}

func newEvents(from io.Reader, now func() time.Duration) *events {
	e := &events{clocked: clocked{from: from, now: now}}
	e.lines = bufio.NewScanner(&e.clocked)
	e.lines.Buffer(make([]byte, 16<<10), maxEvent+64)
	e.lines.Split(e.split)
	return e
}

// next gives the data of an event, which is good until the call after, and when
// it had come. At the stream's end it gives io.EOF; an event that was not ended
// by a blank line is dropped, as the standard has it.
func (e *events) next() (data []byte, at time.Duration, err error) {
	e.data, e.named = e.data[:0], false
	for e.lines.Scan() {
		line := e.lines.Bytes()
		if !e.begun {
			e.begun, line = true, bytes.TrimPrefix(line, []byte("\xef\xbb\xbf"))
		}
		switch {
		case len(line) > 0:
			e.field(line)
		case e.named:
			return e.data, e.at, nil
		}
		if len(e.data) > maxEvent {
			return nil, e.at, fmt.Errorf("%w: an event is longer than %s", errTooLarge, input.Size(maxEvent))
		}
	}
	switch err := e.lines.Err(); {
	case err == nil:
		return nil, e.at, io.EOF
	case errors.Is(err, bufio.ErrTooLong):
		return nil, e.at, fmt.Errorf("%w: a line is longer than %s", errTooLarge, input.Size(maxEvent))
	default:
		return nil, e.at, err
	}
}

func (e *events) field(line []byte) {
	name, value, _ := bytes.Cut(line, []byte(":"))
	if string(name) != "data" { // a comment's name is empty
		return
	}
	if e.named {
		e.data = append(e.data, '\n')
	}
	e.named = true
	e.data = append(e.data, bytes.TrimPrefix(value, []byte(" "))...)
}

// split finds a line for a bufio.Scanner. A line that ends in CR is there before it is known whether an LF follows. The last one, which
// was not ended, is none.
func (e *events) split(data []byte, atEOF bool) (advance int, line []byte, err error) {
	if e.skipLF && len(data) > 0 {
		e.skipLF = false
		if data[0] == '\n' {
			advance, data = 1, data[1:]
		}
	}
	end := bytes.IndexByte(data, '\n')
	if cr := bytes.IndexByte(data[:max(end, 0)], '\r'); cr >= 0 {
		end, e.skipLF = cr, true
	} else if end < 0 {
		if end = bytes.IndexByte(data, '\r'); end < 0 {
			if atEOF {
				return advance + len(data), nil, nil
			}
			return advance, nil, nil
		}
		e.skipLF = true
	}
	return advance + end + 1, data[:end], nil
}
