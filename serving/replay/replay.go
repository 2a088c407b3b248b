// Package replay reads requests that others recorded: when they came, and how many tokens
// they had. It knows a format by its content.
package replay

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"strings"

	"llmprof/input"
	"llmprof/serving"
	"llmprof/unit"
)

// Limits of what is read.
const (
	mostLine     = 1 << 20 // bytes of a line
	mostDocument = 1 << 28 // bytes of a JSON document, as of a benchmark's results
)

// Options say how a trace is replayed.
type Options struct {
	Speed    float64 // how many times faster than it was recorded; 0 for 1
	Requests int     // at most so many; 0 for all
}

// A Trace is the requests of a file in the order of their arrival. It is a serving.Source
// that reads as it goes.
type Trace struct {
	Format  string // "azure", "burstgpt", "mooncake", "servegen", "csv", "jsonl", "records", "llmprof" or "vllm"
	Hashed  bool   // the first request names the blocks of its prompt
	Skipped int    // requests that generated nothing

	next    func() (row, error)
	options Options
	first   float64
	last    float64
	sent    int
	err     error
}

// A row is one request as it was recorded.
type row struct {
	at     float64
	prompt int
	gen    int
	hashes []uint64
}

// errSkip marks a request that failed when it was recorded.
var errSkip = errors.New("no tokens were generated")

// Read recognises a trace by how it begins. It may be compressed by gzip.
func Read(r io.Reader, o Options) (*Trace, error) {
	if o.Speed == 0 {
		o.Speed = 1
	}
	if !(o.Speed > 0 && o.Speed <= 1e9) {
		return nil, fmt.Errorf("a speed of %g: want above 0 and at most 1e9", o.Speed)
	}
	b := bufio.NewReaderSize(r, mostLine)
	if magic, _ := b.Peek(2); bytes.Equal(magic, []byte("\x1f\x8b")) {
		z, err := gzip.NewReader(b)
		if err != nil {
			return nil, err
		}
		b = bufio.NewReaderSize(z, mostLine)
	}
	head, err := b.Peek(mostLine)
	if len(head) == 0 {
		if err == nil || errors.Is(err, io.EOF) {
			err = fmt.Errorf("the trace is empty")
		}
		return nil, err
	}
	t := &Trace{options: o}
	switch trimmed := bytes.TrimLeft(head, "\ufeff \t\r\n"); {
	case len(trimmed) == 0 || trimmed[0] != '{':
		err = t.csv(b)
	case isLines(trimmed):
		err = t.lines(b)
	default:
		err = t.document(b)
	}
	if err != nil {
		return nil, err
	}
	return t, nil
}

// isLines reports whether a file has an object for each request: its first line is one, or
// ends where another object begins.
func isLines(head []byte) bool {
	first, rest, _ := bytes.Cut(head, []byte("\n"))
	first, rest = bytes.TrimSpace(first), bytes.TrimSpace(rest)
	if bytes.HasSuffix(first, []byte("}")) && len(rest) > 0 && rest[0] == '{' {
		return true
	}
	_, _, err := object(string(first))
	return err == nil || errors.Is(err, errSkip)
}

// Next is the next request of the trace.
func (t *Trace) Next() (serving.Request, bool) {
	for t.err == nil && (t.options.Requests == 0 || t.sent < t.options.Requests) {
		w, err := t.next()
		switch {
		case errors.Is(err, errSkip):
			t.Skipped++
			continue
		case errors.Is(err, io.EOF):
			if t.sent == 0 {
				t.err = fmt.Errorf("the trace has no request that generated anything")
			}
			return serving.Request{}, false
		case err != nil:
			t.err = err
			return serving.Request{}, false
		}
		if t.sent == 0 {
			t.first, t.last = w.at, w.at
		}
		if w.at < t.last {
			t.err = fmt.Errorf("request %d came %.4g s before the one ahead of it: sort the trace by time", t.sent+t.Skipped+1, t.last-w.at)
			return serving.Request{}, false
		}
		t.last = w.at
		t.sent++
		at := (w.at - t.first) / t.options.Speed
		if at > mostSeconds {
			t.err = fmt.Errorf("request %d comes %.4g s after the first: at most %g s are replayed", t.sent+t.Skipped, at, float64(mostSeconds))
			return serving.Request{}, false
		}
		r := serving.Request{At: unit.Seconds(at), Prompt: w.prompt, Gen: w.gen}
		if len(w.hashes) > 0 {
			r.Hashes, r.HashTokens = w.hashes, mooncakeBlock
		}
		return r, true
	}
	return serving.Request{}, false
}

// mostSeconds is the longest trace: 300 years, in which a float64 still tells 2 µs apart.
const mostSeconds = 1e10

// mooncakeBlock is the tokens of a block that Mooncake's traces have a hash of.
const mooncakeBlock = 512

// Finished is nothing to a trace.
func (t *Trace) Finished(unit.Seconds) {}

// Err is why the trace could not be read to its end.
func (t *Trace) Err() error { return t.err }

// filled reads the next line that is not blank, and counts lines. One that is too long is an error.
func filled(b *bufio.Reader, number *int) (string, error) {
	for {
		*number++
		data, err := b.ReadSlice('\n')
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			return "", fmt.Errorf("line %d is longer than %d bytes, the most that is read of one", *number, mostLine)
		case errors.Is(err, io.EOF) && len(data) == 0:
			return "", io.EOF
		case err != nil && !errors.Is(err, io.EOF):
			return "", fmt.Errorf("line %d: %w", *number, err)
		}
		if len(bytes.TrimSpace(data)) > 0 {
			return strings.TrimRight(string(data), "\r\n"), nil
		}
	}
}

func wrong(number int, text, format string, args ...any) error {
	return fmt.Errorf("line %d: %s:\n%s", number, fmt.Sprintf(format, args...), input.Excerpt(text, 1, len(text)))
}

// Lengths are those of the prompts and of the answers of a trace, which file names.
func Lengths(r io.Reader, file string) (prompt, gen serving.Lengths, err error) {
	t, err := Read(r, Options{})
	if err != nil {
		return prompt, gen, err
	}
	var prompts, answers []int
	for {
		q, ok := t.Next()
		if !ok {
			break
		}
		prompts, answers = append(prompts, q.Prompt), append(answers, q.Gen)
	}
	if err := t.Err(); err != nil {
		return prompt, gen, err
	}
	return serving.Traced(file, prompts), serving.Traced(file, answers), nil
}
