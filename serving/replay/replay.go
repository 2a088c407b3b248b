// Package replay reads requests that others recorded: when they came, and how many tokens
// they had. It knows a format by its content.
package replay

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"llmprof/internal/input"
	"llmprof/serving"
	"llmprof/unit"
)

// Options say how a trace is replayed, and what it does not say itself.
type Options struct {
	Speed    float64 // how many times faster than it was recorded; 0 for 1
	Requests int     // most requests that are replayed; 0 for all
	Unit     string  // unit of its times: "s", "ms", "us" or "ns"; "" for what the trace says
	Block    int     // tokens that a hash is of; 0 for what the trace says

	lengths bool // times do not matter
}

// A Trace is the requests of a file in the order of their arrival. It is a serving.Source
// that reads as it goes.
type Trace struct {
	Format  string // the name of a form, or "csv" or "jsonl"
	Unit    string // unit of its times: "s", "ms", "us", "ns" or "date"
	Block   int    // tokens that a hash is of; 0 without hashes
	Hashed  bool   // requests name the blocks of their prompts
	Skipped int    // requests that generated nothing

	form    *form
	times   times
	why     []string // how unit and blocks are known where the form does not say them
	next    func() (row, error)
	sorted  sorted
	options Options
	played
}

// times are how those of a trace are written.
type times struct {
	whole bool   // All of them are whole numbers.
	kind  string // It is "" before the first time was read.
	key   string // The first time stood in this field.
}

// A sorted is requests that are sorted by time, of the results of one benchmark or of several.
type sorted struct {
	rows  []row
	runs  int
	ended float64 // when the last of them did
}

// A played is how far a trace has been replayed.
type played struct {
	first, last float64
	sent        int
	empty       int // requests without a prompt
	err         error
}

// A row is one request as it was recorded.
type row struct {
	at          float64
	hashes      []uint64
	line        int
	prompt, gen int
}

// skips counts a request that is left out, and reports whether it is: one that failed or generated nothing, or has no prompt.
func (t *Trace) skips(w *row) bool {
	if w.prompt < 1 {
		t.empty++
	}
	left := w.prompt < 1 || w.gen < 1
	if left {
		t.Skipped++
	}
	return left
}

// none says why a trace has no request that can be replayed.
func (t *Trace) none() error {
	if t.empty > 0 && t.empty == t.Skipped {
		return fmt.Errorf("the trace has no request with a prompt: of all %d the prompt has 0 tokens", t.empty)
	}
	return errors.New("the trace has no request that generated anything")
}

// Read recognises a trace by how it begins. It may be compressed by gzip.
func Read(r io.Reader, o Options) (*Trace, error) {
	o.Speed = cmp.Or(o.Speed, 1)
	switch {
	case !(o.Speed > 0 && o.Speed <= 1e9):
		return nil, fmt.Errorf("a speed of %g: want above 0 and at most 1e9", o.Speed)
	case o.Unit != "" && units[o.Unit] == 0:
		return nil, fmt.Errorf("a unit of %.40q: want s, ms, us or ns", o.Unit)
	case o.Block < 0:
		return nil, fmt.Errorf("hashes of %d tokens: want at least 1", o.Block)
	}
	r, err := input.Unpack(r)
	if err != nil {
		return nil, err
	}
	b := bufio.NewReaderSize(r, mostRecord)
	if mark, _ := b.Peek(3); string(mark) == "\ufeff" {
		_, _ = b.Discard(3)
	}
	head, err := b.Peek(mostRecord)
	trimmed := bytes.TrimLeft(head, " \t\r\n")
	switch {
	case len(head) == 0 && (err == nil || errors.Is(err, io.EOF)):
		return nil, errors.New("the trace is empty")
	case len(head) == 0:
		return nil, err
	case bytes.IndexByte(head, 0) >= 0:
		return nil, errors.New("no text: want CSV or JSON in UTF-8, compressed by gzip or not")
	case len(trimmed) == 0 && errors.Is(err, io.EOF):
		return nil, errors.New("the trace has nothing but blank lines")
	}
	t := &Trace{options: o}
	if err := t.open(b, trimmed); err != nil {
		return nil, err
	}
	return t, nil
}

// open begins with a trace whose first bytes are known.
func (t *Trace) open(b *bufio.Reader, head []byte) error {
	if len(head) == 0 || head[0] != '{' && head[0] != '[' {
		return t.table(&lines{b: b, line: 1})
	}
	v := newValues(b, 1)
	if t.form = formOf(topOf(head), true); t.form == nil {
		return t.begin(v.next)
	}
	t.Format = t.form.name
	if !t.form.columns && t.form.lacks != "" {
		return t.form.refused()
	}
	if err := t.decide(nil); err != nil {
		return err
	}
	return t.inOrder(t.results(v))
}

// Arrivals names a trace that has when requests came, and not how long their answers took; "" for any other file.
func Arrivals(r io.Reader) string {
	t, err := Read(r, Options{lengths: true})
	if err != nil || !t.form.arrivals && t.form.what != "" {
		return ""
	}
	return cmp.Or(t.form.what, "a list of requests")
}

// refused says what a file lacks that is of a known form.
func (f *form) refused() error {
	return errors.New(strings.TrimSuffix(fmt.Sprintf("this is %s, which lacks %s: %s", f.what, f.lacks, f.available), ": "))
}

// firstRecords is how many records are looked at to learn what they are.
const firstRecords = 256

// begin looks at the first records of a trace.
func (t *Trace) begin(next func() (*record, error)) error {
	var some []*record
	var end error
	for end == nil && len(some) < firstRecords {
		var r *record
		if r, end = next(); end == nil {
			some = append(some, r)
		}
	}
	switch {
	case len(some) == 0 && errors.Is(end, io.EOF):
		return errors.New("the trace has no requests")
	case len(some) == 0:
		return end
	case t.form == nil:
		if t.form = formOf(some[0].has, false); t.form == nil {
			return some[0].wrong("no field for %s", general().missing(some[0], inJSON))
		}
		t.Format = "jsonl"
	}
	if t.form.lacks != "" {
		return t.form.refused()
	}
	t.Format = cmp.Or(t.form.name, t.Format)
	if err := t.decide(some); err != nil {
		return err
	}
	pull := func() (r *record, err error) {
		switch {
		case len(some) > 0:
			r, some = some[0], some[1:]
			return r, nil
		case end != nil:
			return nil, end
		}
		return next()
	}
	if t.form.ended {
		return t.inOrder(t.all(pull))
	}
	t.next = func() (w row, err error) {
		r, err := pull()
		if err != nil {
			return w, err
		}
		return t.row(r)
	}
	return nil
}

// mostSorted bounds how many requests are sorted.
const mostSorted = 1 << 24

var errMany = fmt.Errorf("more than %d requests: they are sorted by time, and no more are kept", mostSorted)

// all reads a trace that was written as requests ended.
func (t *Trace) all(next func() (*record, error)) error {
	r, err := next()
	for err == nil {
		if err = t.gather(r); err == nil {
			r, err = next()
		}
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// gather takes a record of those that are sorted.
func (t *Trace) gather(r *record) error {
	w, err := t.row(r)
	if err != nil {
		return err
	}
	return t.keep(w)
}

// keep takes a request of those that are sorted.
func (t *Trace) keep(w row) error {
	switch {
	case t.skips(&w):
	case len(t.sorted.rows) == mostSorted:
		return errMany
	default:
		t.sorted.rows = append(t.sorted.rows, w)
	}
	return nil
}

// inOrder yields requests in the order of their arrival, if there was no error in reading them.
func (t *Trace) inOrder(err error) error {
	slices.SortStableFunc(t.sorted.rows, func(a, b row) int { return cmp.Compare(a.at, b.at) })
	t.next = func() (w row, err error) {
		if len(t.sorted.rows) == 0 {
			return w, io.EOF
		}
		w, t.sorted.rows = t.sorted.rows[0], t.sorted.rows[1:]
		return w, nil
	}
	return err
}

// Next is the next request of the trace.
func (t *Trace) Next() (serving.Request, bool) {
	for t.err == nil && (t.options.Requests == 0 || t.sent < t.options.Requests) {
		w, err := t.next()
		if t.sent == 0 {
			t.first, t.last = w.at, w.at
		}
		switch at := (w.at - t.first) / t.options.Speed; {
		case errors.Is(err, io.EOF):
			if t.sent == 0 {
				t.err = t.none()
			}
			return serving.Request{}, false
		case err != nil:
			t.err = err
		case t.skips(&w):
		case w.at < t.last:
			t.err = fmt.Errorf("line %d: request %d came %.4g s before the one ahead of it: sort the trace by time", w.line, t.sent+t.Skipped+1,
				t.last-w.at)
		case at > mostSeconds:
			t.err = fmt.Errorf("line %d: request %d comes %.4g s after the first: at most %g s are replayed", w.line, t.sent+t.Skipped+1, at,
				float64(mostSeconds))
		default:
			t.last = w.at
			t.sent++
			r := serving.Request{At: unit.Seconds(at), Prompt: w.prompt, Gen: w.gen}
			if len(w.hashes) > 0 && t.Block > 0 {
				r.Hashes, r.HashTokens = w.hashes, t.Block
			}
			return r, true
		}
	}
	return serving.Request{}, false
}

// mostSeconds is the longest trace: 300 years, in which a float64 still tells 2 µs apart.
const mostSeconds = 1e10

// Finished is nothing to a trace.
func (t *Trace) Finished(unit.Seconds) {}

// Err is why the trace could not be read to its end.
func (t *Trace) Err() error { return t.err }

// Lengths are those of the prompts and of the answers of a trace, which file names.
func Lengths(r io.Reader, file string) (prompt, gen serving.Lengths, err error) {
	t, err := Read(r, Options{lengths: true})
	if err != nil {
		return prompt, gen, err
	}
	var prompts, outputs []int
	for {
		q, ok := t.Next()
		if !ok {
			break
		}
		prompts, outputs = append(prompts, q.Prompt), append(outputs, q.Gen)
	}
	if err := t.Err(); err != nil {
		return prompt, gen, err
	}
	return serving.Traced(file, prompts), serving.Traced(file, outputs), nil
}
