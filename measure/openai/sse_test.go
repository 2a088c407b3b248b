package openai

import (
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

// read gives all events of a stream and how it ended.
func read(from io.Reader) (all []string, err error) {
	e := newEvents(from, func() time.Duration { return 0 })
	for {
		data, _, err := e.next()
		if err != nil {
			return all, err
		}
		all = append(all, string(data))
	}
}

func TestEvents(t *testing.T) {
	tests := []struct {
		name, text string
		want       []string
	}{
		{"LF", "data: a\n\ndata: b\n\n", []string{"a", "b"}},
		{"CRLF", "data: a\r\n\r\ndata: b\r\n\r\n", []string{"a", "b"}},
		{"CR", "data: a\r\rdata: b\r\r", []string{"a", "b"}},
		{"mixed ends", "data: a\r\n\ndata: b\n\r\ndata: c\r\n\r", []string{"a", "b", "c"}},
		{"several lines", "data: a\ndata: b\ndata:\ndata: c\n\n", []string{"a\nb\n\nc"}},
		{"no space", "data:a\n\n", []string{"a"}},
		{"two spaces", "data:  a\n\n", []string{" a"}},
		{"no colon", "data\n\n", []string{""}},
		{"empty", "data:\n\n", []string{""}},
		{"comments", ": ping\n\n:\ndata: a\n:data: no\n\n", []string{"a"}},
		{"other fields", "event: x\nid: 7\nretry: 9\ndatas: no\nDATA: no\n data: no\ndata: a\n\n", []string{"a"}},
		{"no data", "event: x\n\nid: 7\n\ndata: a\n\n", []string{"a"}},
		{"blank lines", "\n\n\r\n\rdata: a\n\n\n\n", []string{"a"}},
		{"mark", "\xef\xbb\xbfdata: a\n\n", []string{"a"}},
		{"mark later", "data: a\n\n\xef\xbb\xbfdata: b\n\ndata: c\n\n", []string{"a", "c"}},
		{"colons", "data: {\"a\": \"b:c\"}\n\n", []string{`{"a": "b:c"}`}},
		{"not ended", "data: a\n\ndata: b\n", []string{"a"}},
		{"not ended, no line", "data: a\n\ndata: b", []string{"a"}},
		{"long", "data: " + strings.Repeat("x", 100_000) + "\n\ndata: b\n\n", []string{strings.Repeat("x", 100_000), "b"}},
		{"nothing", "", nil},
	}
	readers := map[string]func(io.Reader) io.Reader{
		"whole": func(r io.Reader) io.Reader { return r }, "byte by byte": iotest.OneByteReader,
		"halves": iotest.HalfReader, "error with data": iotest.DataErrReader,
	}
	for _, test := range tests {
		for how, reader := range readers {
			got, err := read(reader(strings.NewReader(test.text)))
			if !errors.Is(err, io.EOF) || !slices.Equal(got, test.want) {
				t.Errorf("%s, %s: got %.100q, %v; want %.100q", test.name, how, got, err, test.want)
			}
		}
	}
	if got, err := read(iotest.TimeoutReader(iotest.OneByteReader(strings.NewReader("data: a\n\n")))); !errors.Is(err, iotest.ErrTimeout) ||
		got != nil {
		t.Errorf("an error of the connection: %q, %v", got, err)
	}
	if _, err := read(stuck{}); !errors.Is(err, io.ErrNoProgress) {
		t.Errorf("a reader that gives nothing: %v", err)
	}
	if _, err := read(endless{}); !errors.Is(err, errTooLarge) {
		t.Errorf("an answer without end: %v", err)
	}
}

type stuck struct{}

func (stuck) Read([]byte) (int, error) { return 0, nil }

type endless struct{}

func (endless) Read(p []byte) (int, error) {
	copy(p, ":")
	copy(p[max(len(p)-1, 0):], "\n")
	return len(p), nil
}

// What came in one read came at one time; what an event's last line came with is
// the event's time.
func TestEventTimes(t *testing.T) {
	r, w := io.Pipe()
	clock := time.Duration(0)
	e := newEvents(r, func() time.Duration { clock++; return clock })
	go func() {
		for _, part := range []string{"data: a\n", "\ndata: b\n\ndata", ": c\n\n"} {
			w.Write([]byte(part))
		}
		w.Close()
	}()
	for _, want := range []struct {
		data string
		at   time.Duration
	}{{"a", 2}, {"b", 2}, {"c", 3}} {
		if data, at, err := e.next(); string(data) != want.data || at != want.at || err != nil {
			t.Errorf("got %q at %d, %v; want %q at %d", data, at, err, want.data, want.at)
		}
	}
	if _, _, err := e.next(); !errors.Is(err, io.EOF) {
		t.Error(err)
	}
}

// standard reads events the slow way, from a text that is all there: the steps
// of the standard, one after the other.
func standard(text string) (all []string) {
	text = strings.TrimPrefix(text, "\xef\xbb\xbf")
	text = strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\r", "\n")
	lines := strings.Split(text, "\n")
	var data []string
	for _, line := range lines[:len(lines)-1] { // the last was not ended
		name, value, _ := strings.Cut(line, ":")
		switch {
		case line == "":
			if data != nil {
				all = append(all, strings.Join(data, "\n"))
			}
			data = nil
		case name == "data":
			data = append(data, strings.TrimPrefix(value, " "))
		}
	}
	return all
}

// However a stream is cut into reads, its events are those of the standard.
func FuzzEvents(f *testing.F) {
	for _, seed := range []string{whole(), "data: a\r\n\r\n: c\rdata\r\r", "\xef\xbb\xbfdata:x\n\ndata", "\xef\xbb\xbf\r\n", "\r\n\n\r"} {
		f.Add(seed, 1)
	}
	f.Fuzz(func(t *testing.T, text string, size int) {
		if len(text) > 1<<16 {
			return
		}
		want := standard(text)
		got, err := read(&pieces{text, max(1, size%50)})
		if !errors.Is(err, io.EOF) || !slices.Equal(got, want) {
			t.Errorf("got %q, %v; want %q", got, err, want)
		}
	})
}

type pieces struct {
	text string
	size int
}

func (p *pieces) Read(to []byte) (int, error) {
	if p.text == "" {
		return 0, io.EOF
	}
	n := copy(to, p.text[:min(p.size, len(p.text))])
	p.text = p.text[n:]
	return n, nil
}
