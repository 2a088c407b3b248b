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

	"llmprof/internal/input"
	"llmprof/serving"
	"llmprof/unit"
)

// Options say how a trace is replayed, and what it does not say itself.
type Options struct {
	Speed    float64 // how many times faster than it was recorded; 0 for 1
	Requests int     // at most so many; 0 for all
	Unit     string  // of its times: "s", "ms", "us" or "ns"; "" for what the trace says
	Block    int     // tokens that a hash is of; 0 for what the trace says

	lengths bool // times do not matter
}

// A Trace is the requests of a file in the order of their arrival. It is a serving.Source
// that reads as it goes.
type Trace struct {
	Format  string // the name of a form, or "csv" or "jsonl"
	Unit    string // of its times: "s", "ms", "us", "ns" or "date"
	Block   int    // tokens that a hash is of; 0 without hashes
	Hashed  bool   // requests name the blocks of their prompts
	Skipped int    // requests that generated nothing

	form    *form
	times   times
	why     []string // by what unit and blocks are known where the form does not say it
	next    func() (row, error)
	sorted  sorted
	options Options
	played
}

// times are how those of a trace are written.
type times struct {
	scale float64 // seconds of their unit
	whole bool    // they are whole numbers of it
	kind  string  // "" before the first
	key   string  // of the first
}

// A sorted is requests that are sorted by time, of the results of one benchmark or of several.
type sorted struct {
	rows  []sortedRow
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
	at     float64
	prompt int
	gen    int
	hashes []uint64
	line   int // 0 of those that are sorted
}

// These mark requests that are left out: one that failed when it was recorded, and one of those that has no prompt.
var (
	errSkip  = errors.New("no tokens were generated")
	errEmpty = fmt.Errorf("no prompt, so that %w", errSkip)
)

// possible is why a request is left out.
func (w *row) possible() error {
	switch {
	case w.prompt < 1:
		return errEmpty
	case w.gen < 1:
		return errSkip
	}
	return nil
}

// where is the request in an error, with its line where that is known.
func (t *Trace) where(w *row, n int) string {
	if w.line == 0 {
		return fmt.Sprintf("request %d", n)
	}
	return fmt.Sprintf("line %d: request %d", w.line, n)
}

// skips counts a request that is left out, and reports whether it is.
func (t *Trace) skips(why error) bool {
	if errors.Is(why, errEmpty) {
		t.empty++
	}
	if errors.Is(why, errSkip) {
		t.Skipped++
		return true
	}
	return false
}

// none says why a trace has no request that can be replayed.
func (t *Trace) none() error {
	if t.empty > 0 && t.empty == t.Skipped {
		return fmt.Errorf("the trace has no request with a prompt: of all %d the prompt has 0 tokens", t.empty)
	}
	return errors.New("the trace has no request that generated anything")
}

func bufferOf(r io.Reader) *bufio.Reader { return bufio.NewReaderSize(r, mostRecord) }

// Read recognises a trace by how it begins. It may be compressed by gzip.
func Read(r io.Reader, o Options) (*Trace, error) {
	if o.Speed == 0 {
		o.Speed = 1
	}
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
	b := bufferOf(r)
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
	t := &Trace{options: o, times: times{scale: 1}}
	if err := t.open(&text{b: b}, trimmed); err != nil {
		return nil, err
	}
	return t, nil
}

// open begins with a trace whose first bytes are known.
func (t *Trace) open(from *text, head []byte) error {
	if len(head) == 0 || head[0] != '{' && head[0] != '[' {
		return t.table(from)
	}
	d := newDocument(from)
	if t.form = around(topNames(head)); t.form == nil {
		return t.begin(d.next)
	}
	t.Format = t.form.name
	if !t.form.columns && t.form.lacks != "" {
		return t.form.refused()
	}
	if err := t.decide(nil); err != nil {
		return err
	}
	return t.results(d)
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
	more := ""
	if f.available != "" {
		more = ": " + f.available
	}
	return fmt.Errorf("this is %s, which lacks %s%s", f.what, f.lacks, more)
}

// How many records are looked at to learn what they are.
const (
	firstRecords = 256
	firstBytes   = 4 << 20
)

// begin looks at the first records of a trace.
func (t *Trace) begin(next func() (*record, error)) error {
	var some []*record
	var end error
	for size := 0; end == nil && len(some) < firstRecords && size < firstBytes; {
		var r *record
		if r, end = next(); end == nil {
			some = append(some, r)
			size += r.size
		}
	}
	if len(some) == 0 {
		if errors.Is(end, io.EOF) {
			return errors.New("the trace has no requests")
		}
		return end
	}
	if t.form == nil {
		if t.form = formOf(some[0].names()); t.form == nil {
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
	pull := func() (*record, error) {
		switch {
		case len(some) > 0:
			r := some[0]
			some = some[1:]
			return r, nil
		case end != nil:
			return nil, end
		}
		return next()
	}
	if t.form.ended {
		return t.all(pull)
	}
	t.next = func() (row, error) {
		r, err := pull()
		if err != nil {
			return row{}, err
		}
		return t.row(r)
	}
	return nil
}

// mostSorted bounds how many requests are sorted.
const mostSorted = 1 << 24

var errMany = fmt.Errorf("more than %d requests: they are sorted by time, and no more are kept", mostSorted)

// A sortedRow is a request of those that are sorted, which have no hashes.
type sortedRow struct {
	at          float64
	prompt, gen int32
}

// all reads a trace that was written as requests ended.
func (t *Trace) all(pull func() (*record, error)) error {
	for {
		r, err := pull()
		if errors.Is(err, io.EOF) {
			t.inOrder()
			return nil
		}
		if err == nil {
			err = t.gather(r)
		}
		if err != nil {
			return err
		}
	}
}

// gather takes a record of those that are sorted.
func (t *Trace) gather(r *record) error {
	w, err := t.row(r)
	if t.skips(err) {
		return nil
	}
	if err != nil {
		return err
	}
	return t.keep(w)
}

func (t *Trace) keep(w row) error {
	switch {
	case t.skips(w.possible()):
		return nil
	case len(t.sorted.rows) == mostSorted:
		return errMany
	}
	t.sorted.rows = append(t.sorted.rows, sortedRow{w.at, int32(w.prompt), int32(w.gen)})
	return nil
}

// inOrder yields requests in the order of their arrival.
func (t *Trace) inOrder() {
	slices.SortStableFunc(t.sorted.rows, func(a, b sortedRow) int { return cmp.Compare(a.at, b.at) })
	t.next = func() (row, error) {
		if len(t.sorted.rows) == 0 {
			return row{}, io.EOF
		}
		w := t.sorted.rows[0]
		t.sorted.rows = t.sorted.rows[1:]
		return row{at: w.at, prompt: int(w.prompt), gen: int(w.gen)}, nil
	}
}

// Next is the next request of the trace.
func (t *Trace) Next() (serving.Request, bool) {
	for t.err == nil && (t.options.Requests == 0 || t.sent < t.options.Requests) {
		w, err := t.next()
		switch {
		case t.skips(err):
			continue
		case errors.Is(err, io.EOF):
			if t.sent == 0 {
				t.err = t.none()
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
			t.err = fmt.Errorf("%s came %.4g s before the one ahead of it: sort the trace by time", t.where(&w, t.sent+t.Skipped+1), t.last-w.at)
			return serving.Request{}, false
		}
		t.last = w.at
		t.sent++
		at := (w.at - t.first) / t.options.Speed
		if at > mostSeconds {
			t.err = fmt.Errorf("%s comes %.4g s after the first: at most %g s are replayed", t.where(&w, t.sent+t.Skipped), at,
				float64(mostSeconds))
			return serving.Request{}, false
		}
		r := serving.Request{At: unit.Seconds(at), Prompt: w.prompt, Gen: w.gen}
		if len(w.hashes) > 0 && t.Block > 0 {
			r.Hashes, r.HashTokens = w.hashes, t.Block
		}
		return r, true
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
