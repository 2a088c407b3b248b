package page

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"llmprof/cmd/llmprof/internal/ask"
	"llmprof/sweep"
)

// mostPoints bounds a sweep of the page.
const mostPoints = 5000

// sweep is "llmprof sweep --format jsonl --keep".
func (p *Page) sweep(ctx context.Context, r *Request) (*Answer, error) {
	g, err := ask.NewGrid(
		func(flag string) bool { _, ok := r.Flags[flag]; return ok },
		func(flag string) string { return r.Flags[flag] }, strconv.Atoi)
	if err != nil {
		return nil, err
	}
	if n, _, err := g.Points(); err != nil || n > mostPoints {
		return nil, fmt.Errorf("%d points: the page takes %d at most, llmprof sweep takes any number", n, mostPoints)
	}
	var b bytes.Buffer
	_, err = sweep.Run(ctx, g, sweep.Options{
		Format: sweep.JSONL, Keep: true, Workers: 1, Out: &b,
		Source: func() (sweep.Source, error) { return ask.NewGridSource(ctx, p.known, g), nil },
	})
	return &Answer{Text: b.String()}, err
}

// A loadPoint is the steady state at a rate, or why there is none.
type loadPoint struct {
	Rate  float64 `json:"rate"`
	Load  any     `json:"load,omitempty"`
	Error string  `json:"error,omitempty"`
}

// load is "llmprof estimate --rate" at several rates. Those that were not given are
// shares of the highest rate that the server sustains.
func (p *Page) load(ctx context.Context, r *Request) (*Answer, error) {
	flags := maps.Clone(r.Flags)
	for _, name := range []string{"rate", "concurrency", "batch", "chunk"} {
		delete(flags, name)
	}
	q, _, err := question(flags)
	if err != nil {
		return nil, err
	}
	ans, err := q.Answer(ctx, p)
	if err != nil {
		return nil, err
	}
	var all []loadPoint
	for _, rate := range r.Rates {
		all = append(all, p.at(ctx, ans, flags, rate))
	}
	if len(r.Rates) > 0 {
		return &Answer{Data: all}, nil
	}
	const slow = 1e-3 // requests a second, of any server
	first := p.at(ctx, ans, flags, slow)
	if first.Error != "" {
		return &Answer{Data: []loadPoint{first}}, nil
	}
	most := ans.Load.Steady.Capacity.Rate
	for i := 1; i <= 12; i++ {
		rate, _ := strconv.ParseFloat(strconv.FormatFloat(most*float64(i)/12.5, 'g', 3, 64), 64)
		all = append(all, p.at(ctx, ans, flags, rate))
	}
	return &Answer{Data: all}, nil
}

// at is the steady state at a rate.
func (p *Page) at(ctx context.Context, ans *ask.Answer, flags map[string]string, rate float64) loadPoint {
	point := loadPoint{Rate: rate}
	own := maps.Clone(flags)
	own["rate"] = strconv.FormatFloat(rate, 'g', -1, 64)
	q, l, err := question(own)
	if err == nil {
		ans.Q = q
		err = l.Answer(ctx, p, ans)
	}
	if err != nil {
		point.Error = err.Error()
		return point
	}
	point.Load = ans.Load.Document()
	return point
}

// options tries values in place of those given, one flag at a time, and says why those
// that cannot be cannot.
func (p *Page) options(ctx context.Context, r *Request) *Answer {
	refused := map[string]map[string]string{}
	for _, flag := range slices.Sorted(maps.Keys(r.Try)) {
		refused[flag] = map[string]string{}
		for _, value := range r.Try[flag] {
			flags := maps.Clone(r.Flags)
			if flags[flag] = value; value == "" {
				delete(flags, flag)
			}
			if err := p.can(ctx, flags); err != nil {
				refused[flag][value] = err.Error()
			}
		}
	}
	return &Answer{Data: refused}
}

// can is why an estimate cannot be made; nil if it can.
func (p *Page) can(ctx context.Context, flags map[string]string) error {
	q, _, err := question(flags)
	if err != nil {
		return err
	}
	_, err = p.known.Prepare(ctx, q)
	return err
}
