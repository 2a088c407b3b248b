package page

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"llmprof/cmd/llmprof/internal/settings"
	"llmprof/cmd/llmprof/internal/view"
	"llmprof/deployment"
	"llmprof/unit"
)

// A served is a deployment with the steady states that were asked for last, for most requests differ from one before in the lengths or the
// load alone.
type served struct {
	deployment *deployment.Deployment
	server     string // flags of the server with its requests
	states     *deployment.States
}

// ofRequests are flags of requests and of a server, of which the deployment knows nothing; ofLoad are those of which the server knows
// nothing.
var (
	ofLoad     = []string{"rate", "concurrency"}
	ofRequests = append([]string{"batch", "prompt-len", "gen-len", "cached-prefix", "prefix-hit-rate", "prefill-replicas",
		"speculative-tokens", "acceptance"}, ofLoad...)
)

// others spells flags but for some.
func others(flags map[string]string, but []string) (text string) {
	for _, name := range slices.Sorted(maps.Keys(flags)) {
		if !slices.Contains(but, name) {
			text += name + "\x00" + flags[name] + "\x00"
		}
	}
	return text
}

// mostServed bounds how many deployments are kept.
const mostServed = 8

// serve prepares the deployment of a request, unless it is that of one before.
func (p *Page) serve(ctx context.Context, q *deployment.Request, flags map[string]string) (*served, error) {
	setting := others(flags, ofRequests)
	if s := p.served[setting]; s != nil {
		return s, nil
	}
	d, err := p.known.Resolve(ctx, q)
	if err != nil {
		return nil, err
	}
	if len(p.served) >= mostServed {
		clear(p.served)
	}
	s := &served{deployment: d}
	p.served[setting] = s
	return s, nil
}

// of are the steady states of the server that a request describes.
func (s *served) of(ctx context.Context, q *deployment.Request, flags map[string]string) (*deployment.States, error) {
	server := fmt.Sprint(others(flags, ofLoad), q.Workload().Batch)
	if s.server == server {
		s.states.During(ctx)
		return s.states, nil
	}
	ans, err := s.deployment.Predict(q)
	if err != nil {
		return nil, err
	}
	all, err := ans.States(ctx, &ans.Estimate)
	if err == nil {
		s.server, s.states = server, all
	}
	return all, err
}

// A Load is the steady state under a load, as the verdict shows it.
type Load struct {
	Load    any                   `json:"load"`
	Words   [][2]string           `json:"words"`
	Warning string                `json:"warning"` // "" for none
	Coded   *view.WarningDocument `json:"coded"`   // the warning as data; null for none
}

// under is the steady state of "llmprof estimate --rate" or "--concurrency".
func (p *Page) under(ctx context.Context, r *Request) (*Answer, error) {
	q, err := requestOf(r.Flags)
	if err != nil {
		return nil, err
	}
	if err := q.CheckLoad(); err != nil {
		return nil, err
	}
	s, err := p.serve(ctx, q, r.Flags)
	if err != nil {
		return nil, err
	}
	all, err := s.of(ctx, q, r.Flags)
	if err != nil {
		return nil, err
	}
	load, err := all.Of(q)
	if err != nil {
		return nil, err
	}
	shown := view.Load{Load: load}
	return &Answer{Data: &Load{shown.Document(), shown.Words(), view.Text(load.Warning()), view.Coded(load.Warning())}}, nil
}

// A Rates is the steady states at several rates.
type Rates struct {
	Points []loadPoint `json:"points"`
	Slower float64     `json:"slower,omitempty"` // by how much longer everything takes at the slow end of the interval
	Top    float64     `json:"top,omitempty"`    // the highest rate over the most that the server answers
}

// A loadPoint is the steady state at a rate, or why there is none.
type loadPoint struct {
	Rate  float64      `json:"rate"`
	TTFT  unit.Seconds `json:"ttft_s,omitempty"`
	TPOT  unit.Seconds `json:"tpot_s,omitempty"`
	Error string       `json:"error,omitempty"`
}

// load is "llmprof estimate --rate" at several rates, up to almost the highest that the server sustains, or at a part of them.
func (p *Page) load(ctx context.Context, r *Request) (*Answer, error) {
	q, err := requestOf(r.Flags)
	if err != nil {
		return nil, err
	}
	s, err := p.serve(ctx, q, r.Flags)
	if err != nil {
		return nil, err
	}
	server, err := s.of(ctx, q, r.Flags)
	if err != nil {
		return noState(err), nil
	}
	rates, slower, err := server.Chart(r.Part)
	if err != nil {
		return noState(err), nil
	}
	all := make([]loadPoint, len(rates))
	for i, at := range rates {
		point := &all[i]
		point.Rate = at.Rate
		if at.Err != nil {
			point.Error = unit.Text(at.Err, settings.Flag)
		}
		if at.Steady != nil {
			point.TTFT, point.TPOT = at.Steady.TTFT, at.Steady.TPOT
		}
	}
	return &Answer{Data: &Rates{all, slower, deployment.ChartTop}}, nil
}

// noState is why there is no steady state at any rate.
func noState(err error) *Answer {
	return &Answer{Data: &Rates{Points: []loadPoint{{Error: unit.Text(err, settings.Flag)}}}}
}
