package sweep

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"unicode"

	"llmprof/analytic"
	"llmprof/unit"
)

// A Format is a form in which rows are written.
type Format string

// The formats.
const (
	CSV     Format = "csv"
	JSON    Format = "json" // one list; it is no whole before its end, so that nothing is appended to it
	JSONL   Format = "jsonl"
	Parquet Format = "parquet"
)

// Formats lists the formats.
func Formats() []string { return []string{string(CSV), string(JSON), string(JSONL), string(Parquet)} }

// A Setup answers for all workloads of one setting.
type Setup struct {
	Setting    Setting
	Case       *analytic.Predictor
	Workload   analytic.Workload // lengths and batch that no axis varies
	MaxContext int               // longest context of the model; 0 where it is not known
	Media      int               // tokens of a prompt that are of images and audio

	// Load is the steady state under the load of the setting; nil where there is none.
	Load func(w *analytic.Workload, e *analytic.Estimate) (Loaded, error)
}

// A Source prepares the settings of a grid. It is for one goroutine.
type Source interface {
	// Prepare takes a value of each axis. A setting that cannot be has an error, and as much
	// of a Setting as is known of it.
	Prepare(values []Value) (*Setup, error)
}

// Options say what is written, and where.
type Options struct {
	Format   Format
	Shard    Shard
	Skip     uint64                  // points of the shard that were answered before; the header was written then
	Keep     bool                    // impossible points too, with the reason
	Workers  int                     // 0 for as many as there are processors
	Progress func(done, all uint64)  // called from one goroutine, in order; done counts skipped points too
	See      func(rows []Row)        // is shown all rows, in order
	Source   func() (Source, error)  // makes one for each worker
	Name     func(key string) string // names settings in reasons; nil for their keys
	Out      io.Writer               // nil where See alone takes the rows
}

// text is what an error says of a point.
func (o *Options) text(err error) string {
	if o.Name == nil {
		return err.Error()
	}
	return unit.Text(err, o.Name)
}

// blockPoints is how many points a worker answers at a time.
const blockPoints = 2048

// loadedPoints is blockPoints under loads, whose steady states take some milliseconds each.
const loadedPoints = 32

func (g *Grid) blockPoints() uint64 {
	if g.Loaded() {
		return loadedPoints
	}
	return blockPoints
}

// A block is a run of points with what was written of them.
type block struct {
	from, to uint64
	rows     []Row
	text     []byte
	summary  Summary
	err      error
	done     chan struct{}
}

// Run answers the points of a grid in order. What was written before the context ended
// stays, up to the last whole block.
func Run(ctx context.Context, g *Grid, o Options) (all Summary, err error) {
	points, inner, err := g.Points()
	if err != nil {
		return all, err
	}
	out, err := newSink(&o, g.Loaded())
	if err != nil {
		return all, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	all.Left = map[string]*Reason{}
	workers := o.Workers
	if workers <= 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	jobs, order, free := make(chan *block), make(chan *block, 4*workers), newBlocks(4*workers+2)
	var team sync.WaitGroup
	for range workers {
		source, err := o.Source()
		if err != nil {
			return all, err
		}
		w := &worker{grid: g, inner: inner, source: source, options: &o, values: make([]Value, len(g.Axes)), outer: ^uint64(0)}
		w.text = newText(o.Format, &w.row, g.Loaded())
		team.Go(func() { w.run(ctx, jobs) })
	}
	from, to := o.Shard.Span(points)
	all.Points, from = to-from, min(from+o.Skip, to)
	all.Done, all.Bytes = min(o.Skip, all.Points), out.bytes
	team.Go(func() { deal(ctx, from, to, g.blockPoints(), free, jobs, order) })
	for b := range order {
		if err = b.wait(ctx); err == nil {
			err = out.write(b)
		}
		if err != nil {
			break
		}
		all.add(&b.summary)
		all.Done, all.Bytes = all.Done+b.to-b.from, out.bytes
		if o.Progress != nil {
			o.Progress(all.Done, all.Points)
		}
		free <- b
	}
	cancel()
	team.Wait()
	if closed := out.finish(&all, o.Skip); err == nil {
		err = closed
	}
	return all, err
}

// deal hands out the blocks, in order. It waits for a free one: its slices have grown, and
// their number bounds the memory.
func deal(ctx context.Context, from, to, size uint64, free <-chan *block, jobs, order chan<- *block) {
	defer close(order)
	defer close(jobs)
	for at := from; at < to; at += size {
		var b *block
		select {
		case b = <-free:
			b.reset(at, min(at+size, to))
		case <-ctx.Done():
			return
		}
		select {
		case order <- b:
		case <-ctx.Done():
			return
		}
		select {
		case jobs <- b:
		case <-ctx.Done():
			return
		}
	}
}

// wait waits for a block.
func (b *block) wait(ctx context.Context) error {
	select {
	case <-b.done:
		return b.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func newBlocks(n int) chan *block {
	blocks := make(chan *block, n)
	for range n {
		blocks <- new(block)
	}
	return blocks
}

// reset empties a block for another run of points.
func (b *block) reset(from, to uint64) {
	*b = block{from: from, to: to, rows: b.rows[:0], text: b.text[:0], done: make(chan struct{}), summary: Summary{Left: map[string]*Reason{}}}
}

// A worker answers blocks.
type worker struct {
	grid    *Grid
	inner   uint64
	source  Source
	options *Options
	values  []Value
	outer   uint64 // outer index of the setup at hand
	setup   *Setup
	wrong   error // why that setting cannot be
	text    *text
	row     Row // row of the point being answered
	filler  filler

	reason, kind string // the last reason that was given, and its kind
}

// kindOf is the kind of a reason, which most points have in common with the one before.
func (w *worker) kindOf(reason string) string {
	if reason != w.reason {
		w.reason, w.kind = reason, kindOf(reason)
	}
	return w.kind
}

func (w *worker) run(ctx context.Context, jobs <-chan *block) {
	for b := range jobs {
		if ctx.Err() != nil {
			b.err = ctx.Err()
		} else {
			w.estimate(b)
		}
		close(b.done)
	}
}

// estimate answers the points of a block.
func (w *worker) estimate(b *block) {
	for at := b.from; at < b.to; {
		outer := at / w.inner
		if outer != w.outer {
			w.prepare(outer)
		}
		end := min((outer+1)*w.inner, b.to)
		if w.wrong != nil && !w.options.Keep {
			reason := w.options.text(w.wrong)
			b.summary.left(w.kindOf(reason), reason, end-at)
			at = end
			continue
		}
		for ; at < end; at++ {
			w.point(b, at-outer*w.inner)
		}
	}
}

// prepare prepares the setting at the outer index.
func (w *worker) prepare(outer uint64) {
	w.grid.at(outer, w.values)
	w.setup, w.wrong = w.source.Prepare(w.values)
	w.outer = outer
	if w.setup == nil && w.wrong == nil {
		w.wrong = fmt.Errorf("no setting")
	}
	w.row = Row{}
	if w.setup != nil {
		w.row.Setting = w.setup.Setting
	}
	w.text.begin()
}

// point answers one point.
func (w *worker) point(b *block, inner uint64) {
	r := &w.row
	r.Figures, r.Loaded = Figures{}, Loaded{}
	reason := ""
	if w.wrong != nil {
		var load analytic.Workload
		w.grid.workload(inner, &load)
		r.workload(&load)
		reason = w.options.text(w.wrong)
	} else {
		reason = w.predict(r, inner)
	}
	if reason != "" && !w.options.Keep {
		b.summary.left(w.kindOf(reason), reason, 1)
		return
	}
	if r.Reason = reason; reason != "" {
		b.summary.left(w.kindOf(reason), reason, 1)
	}
	b.summary.Written++
	if w.options.Format == Parquet || w.options.See != nil {
		b.rows = append(b.rows, *r)
	}
	if w.options.Format != Parquet && w.options.Out != nil {
		b.text = w.text.append(b.text)
	}
}

const beyond = "the figures are beyond any number"

// predict fills in a row, and says why the point is impossible if it is.
func (w *worker) predict(r *Row, inner uint64) (reason string) {
	load := w.setup.Workload
	w.grid.workload(inner, &load)
	if w.setup.Load != nil { // a request alone, of whose batch nobody chooses the size
		load.Batch = max(load.Batch, r.MicroBatches)
	}
	r.workload(&load)
	load.PromptLen += w.setup.Media
	if most := w.setup.MaxContext; most > 0 && load.PromptLen+load.GenLen > most {
		return fmt.Sprintf("a context of %d tokens is over the %d that %s was made for", load.PromptLen+load.GenLen, most, r.Model)
	}
	e, err := w.setup.Case.Fitting(&load)
	if err != nil {
		return err.Error()
	}
	if m := &e.Memory; !m.Fits() {
		r.Total, r.Capacity, r.MaxBatch = float64(m.Total), float64(m.Capacity), m.MaxBatch
		if m.Short() <= 0 {
			return m.Refusal()
		}
		return "does not fit in memory"
	}
	w.filler.fill(r, &e)
	if !r.Figures.finite() {
		r.Figures = Figures{}
		return beyond
	}
	if w.setup.Load != nil {
		return w.load(r, load, e)
	}
	return ""
}

// load fills in the steady state of a row. Its copies are the only ones that leave the stack.
func (w *worker) load(r *Row, load analytic.Workload, e analytic.Estimate) (reason string) {
	loaded, err := w.setup.Load(&load, &e)
	switch {
	case err != nil:
		return w.options.text(err)
	case !loaded.finite():
		return beyond
	}
	r.Loaded = loaded
	return ""
}

func (r *Row) workload(w *analytic.Workload) {
	r.Batch, r.Prompt, r.CachedPrefix, r.Chunk, r.Gen = w.Batch, w.PromptLen, w.CachedPrefix, w.Chunk, w.GenLen
}

// A Summary says what became of the points.
type Summary struct {
	Points  uint64             `json:"points"` // points of the shard
	Done    uint64             `json:"done"`   // points done, from the first on: in the output or left out of it
	Written uint64             `json:"written"`
	Left    map[string]*Reason `json:"left"` // out, by the kind of reason
	Bytes   int64              `json:"-"`    // size of the CSV or JSON Lines of the points done, with the header
}

// Add adds the counts of another shard.
func (s *Summary) Add(o *Summary) {
	s.Points, s.Done = s.Points+o.Points, s.Done+o.Done
	s.add(o)
}

// Possible is how many points are not impossible.
func (s *Summary) Possible() uint64 {
	n := s.Points
	for _, r := range s.Left {
		n -= r.Points
	}
	return n
}

// Reasons lists why points are impossible, the most frequent first.
func (s *Summary) Reasons() []Reason {
	var all []Reason
	for _, kind := range slices.Sorted(maps.Keys(s.Left)) {
		all = append(all, *s.Left[kind])
	}
	slices.SortStableFunc(all, func(a, b Reason) int { return cmp.Compare(b.Points, a.Points) })
	return all
}

// A Reason is why points are impossible.
type Reason struct {
	Points  uint64 `json:"points"`
	Example string `json:"example"`
}

// add adds the counts of a block.
func (s *Summary) add(b *Summary) {
	s.Written += b.Written
	for kind, r := range b.Left {
		s.left(kind, r.Example, r.Points)
	}
}

// left counts points that were left out.
func (s *Summary) left(kind, example string, n uint64) {
	if s.Left == nil {
		s.Left = map[string]*Reason{}
	}
	if r := s.Left[kind]; r != nil {
		r.Points += n
		return
	}
	s.Left[kind] = &Reason{n, example}
}

// kindOf is a reason without its numbers, so that those that differ in them alone are
// counted together.
func kindOf(reason string) string {
	var b strings.Builder
	number := false
	for i, r := range reason {
		point := number && r == '.' && i+1 < len(reason) && unicode.IsDigit(rune(reason[i+1]))
		if unicode.IsDigit(r) || point {
			if !number {
				b.WriteByte('N')
			}
			number = true
			continue
		}
		number = false
		b.WriteRune(r)
	}
	return b.String()
}
