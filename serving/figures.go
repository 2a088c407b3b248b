package serving

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"llmprof/unit"
)

// Figures are those of requests that were answered.
type Figures struct {
	TTFT, TPOT, ITL, E2E Sketch
	Met                  int          // requests within the SLO; all without one
	Prompt, Generated    int          // tokens
	Cached               int          // prompt tokens found in a prefix cache
	Duration             unit.Seconds // from the first arrival to the last answer; in the steady state, that of as many arrivals

	spanned
}

// A spanned is the times of the requests of a part.
type spanned struct {
	begin       unit.Seconds // the first arrival of a part, whether it is answered or not
	first, last unit.Seconds // arrivals
	end         unit.Seconds // end of the last answer
	lastGap     unit.Seconds // between tokens, and how many as long came one after the other
	gaps        int
}

// gap enters the time between tokens of an answer that came to a client apart.
func (f *Figures) gap(t unit.Seconds) {
	if d := t - f.lastGap; max(d, -d) > f.lastGap.Times(1e-3) {
		f.ITL.Add(float64(f.lastGap), f.gaps)
		f.lastGap, f.gaps = t, 0
	}
	f.gaps++
}

// answered enters a request that was answered.
func (f *Figures) answered(q *Record, slo *SLO) {
	at := q.Request.At
	if f.E2E.N == 0 {
		f.first = at
	}
	f.first, f.last, f.end = min(f.first, at), max(f.last, at), max(f.end, q.Last)
	f.Prompt += q.Request.Prompt
	f.Generated += q.Request.Gen
	f.Cached += q.Cached
	f.TTFT.Add(float64(q.TTFT()), 1)
	f.E2E.Add(float64(q.E2E()), 1)
	if tpot, ok := q.TPOT(); ok {
		f.TPOT.Add(float64(tpot), 1)
	}
	if slo.meets(q) {
		f.Met++
	}
}

func (f *Figures) merge(o *Figures) {
	o.ITL.Add(float64(o.lastGap), o.gaps)
	o.gaps = 0
	if o.E2E.N > 0 {
		if f.E2E.N == 0 {
			f.first = o.first
		}
		f.first, f.last, f.end = min(f.first, o.first), max(f.last, o.last), max(f.end, o.end)
	}
	for i, from := range o.Sketches() {
		f.Sketches()[i].Merge(from)
	}
	f.Met += o.Met
	f.Prompt += o.Prompt
	f.Generated += o.Generated
	f.Cached += o.Cached
	f.Duration = f.end - f.first
}

// Counted is how many requests the figures are of.
func (f *Figures) Counted() int { return f.E2E.N }

// Rate is the requests answered a second.
func (f *Figures) Rate() float64 { return float64(f.E2E.N) / float64(f.Duration) }

// Throughput is the tokens generated a second.
func (f *Figures) Throughput() float64 { return float64(f.Generated) / float64(f.Duration) }

// Goodput is the requests a second that met the SLO.
func (f *Figures) Goodput() float64 { return float64(f.Met) / float64(f.Duration) }

// maxParts bounds the parts that a load is summed up in.
const maxParts = 64

// A batchMeans sums requests up in parts of equal size by their arrival, as the method of batch means does, so that those
// outside the steady state can be left out once it is known which they are. The size doubles when there are too many parts.
type batchMeans struct {
	parts  []*Figures
	size   int // requests of a part
	warmup int // requests before the first part, which count in none
	until  int // request from which on none counts
	none   Figures

	from, to int // parts that count at last
}

// newBatchMeans is of one part only, unless the steady state or intervals are looked for.
func newBatchMeans(o *Options) *batchMeans {
	t := &batchMeans{size: math.MaxInt, warmup: o.Warmup, until: cmp.Or(o.until, math.MaxInt)}
	if o.Steady || o.Intervals {
		t.size = batchSize
	}
	return t
}

// of is the part of a request.
func (t *batchMeans) of(index int) *Figures {
	if index < t.warmup || index >= t.until {
		return &t.none
	}
	for (index-t.warmup)/t.size >= maxParts {
		t.parts, t.size = halved(t.parts, (*Figures).merge), 2*t.size
	}
	i := (index - t.warmup) / t.size
	for len(t.parts) <= i {
		t.parts = append(t.parts, &Figures{})
	}
	return t.parts[i]
}

// halved adds each second one of some sums to the one before it.
func halved[T any](all []*T, add func(to, from *T)) []*T {
	half := all[:0]
	for pair := range slices.Chunk(all, 2) {
		if len(pair) == 2 {
			add(pair[0], pair[1])
		}
		half = append(half, pair[0])
	}
	return half
}

// arrive enters the arrival of a request.
func (t *batchMeans) arrive(index int, at unit.Seconds) {
	if p := t.of(index); index >= t.warmup && (index-t.warmup)%t.size == 0 {
		p.begin = at
	}
}

// all is the figures of all parts.
func (t *batchMeans) all() Figures {
	t.from, t.to = 0, len(t.parts)
	return sum(t.parts)
}

func sum(parts []*Figures) (f Figures) {
	for _, p := range parts {
		f.merge(p)
	}
	return f
}

// steady is the figures of the requests in the steady state, and which they are: whole parts. A load of too few
// requests is not examined.
func (t *batchMeans) steady(under *filling, last unit.Seconds) (Figures, *Transient) {
	all := t.all()
	if under.n < fewest || all.E2E.N == 0 {
		return all, nil
	}
	x := &Transient{Span: last - all.first, Answer: unit.Seconds(all.E2E.Quantile(0.5))}
	begin, steady := under.length()
	from, to := (begin+t.size-1)/t.size, 0
	for to < len(t.parts)-1 && t.parts[to].last <= last-x.Answer {
		to++
	}
	x.setCounted(under, from*t.size, min(to*t.size, under.n), steady)
	if !x.Steady {
		return all, x
	}
	// As many requests are answered as come, but the time up to the last answer is longer by what an answer takes.
	f := sum(t.parts[from:to])
	f.Duration = t.parts[to].begin - t.parts[from].begin
	t.from, t.to = from, to
	return f, x
}

// UnmarshalJSON reads a distribution, and refuses one that is none.
func (s *Sketch) UnmarshalJSON(text []byte) error {
	type plain Sketch
	if err := json.Unmarshal(text, (*plain)(s)); err != nil {
		return err
	}
	n := 0
	for _, count := range s.Counts {
		if count < 0 {
			return fmt.Errorf("a distribution has a bin of %d values", count)
		}
		n += count
	}
	if n != s.N {
		return fmt.Errorf("a distribution of %d values has %d in its bins", s.N, n)
	}
	return nil
}
