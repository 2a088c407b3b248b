package page

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"llmprof/cmd/llmprof/internal/settings"
	"llmprof/plan/sweep"
	"llmprof/unit"
)

// mostPoints bounds a sweep of the page.
const mostPoints = 5000

// A Sweep is the points of a sweep that can be.
type Sweep struct {
	Of     uint64  `json:"of"` // points in all
	Points []point `json:"points"`
}

// A point is a row of "llmprof sweep" as far as charts show it.
type point struct {
	GPU       string  `json:"gpu"`
	GPUs      int     `json:"gpus"`
	TP        int     `json:"tp"`
	Batch     int     `json:"batch"`
	TTFT      float64 `json:"ttft_s"`
	TTFTFloor float64 `json:"ttft_floor_s"`
	TTFTLow   float64 `json:"ttft_low_s,omitempty"`
	TTFTHigh  float64 `json:"ttft_high_s,omitempty"`
	TPOT      float64 `json:"tpot_s,omitempty"`
	TPOTFloor float64 `json:"tpot_floor_s,omitempty"`
	TPOTLow   float64 `json:"tpot_low_s,omitempty"`
	TPOTHigh  float64 `json:"tpot_high_s,omitempty"`
	PerGPU    float64 `json:"tok_s_gpu"`
	USD       float64 `json:"usd_mtok,omitempty"`
}

// newPoint is a row as a point, with its intervals where those were asked for.
func newPoint(r *sweep.Row, expected bool) point {
	p := point{
		GPU: r.GPU, GPUs: r.GPUs, TP: r.TP, Batch: r.Batch, TTFT: r.TTFT, TTFTFloor: r.TTFTFloor, TPOT: r.TPOT, TPOTFloor: r.TPOTFloor,
		PerGPU: r.PerGPU, USD: r.PerMillion,
	}
	if !expected {
		p.TTFTLow, p.TTFTHigh, p.TPOTLow, p.TPOTHigh = r.TTFTLow, r.TTFTHigh, r.TPOTLow, r.TPOTHigh
	}
	return p
}

// sweep is "llmprof sweep".
func (p *Page) sweep(ctx context.Context, r *Request) (*Answer, error) {
	g, err := settings.NewGrid(func(flag string) (string, bool) {
		text, given := r.Flags[flag]
		return text, given
	})
	if err != nil {
		return nil, err
	}
	if n, _, err := g.Points(); err != nil || n > mostPoints {
		return nil, fmt.Errorf("%d points: the page takes %d at most, llmprof sweep takes any number", n, mostPoints)
	}
	all := &Sweep{Points: []point{}}
	sum, err := sweep.Run(ctx, g, sweep.Options{
		Workers: 1,
		See: func(rows []sweep.Row) {
			for i := range rows {
				all.Points = append(all.Points, newPoint(&rows[i], r.Expected))
			}
		},
		Source: func() (sweep.Source, error) { return sweep.NewSource(ctx, p.known, g), nil },
	})
	all.Of = sum.Points
	return &Answer{Data: all}, err
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
				refused[flag][value] = unit.Text(err, settings.Flag)
			}
		}
	}
	return &Answer{Data: refused}
}

// can is why an estimate cannot be made; nil if it can.
func (p *Page) can(ctx context.Context, flags map[string]string) error {
	q, err := requestOf(flags)
	if err != nil {
		return err
	}
	d, err := p.known.Resolve(ctx, q)
	if err == nil {
		_, err = d.Predictor()
	}
	return err
}
