package page

import (
	"context"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"llmprof/cmd/llmprof/internal/settings"
	"llmprof/cmd/llmprof/internal/view"
	"llmprof/deployment"
	"llmprof/plots"
)

// requestOf reads the flags of "llmprof estimate".
func requestOf(flags map[string]string) (*deployment.Request, error) {
	q := &deployment.Request{}
	f := settings.Flags(q)
	settings.LengthDistributions(f, q, nil)
	if err := set(f, flags); err != nil {
		return nil, err
	}
	return q, q.Check()
}

// set gives flags their values, in the order of their names so that the first error is
// always the same one.
func set(f *pflag.FlagSet, flags map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(flags)) {
		if f.Lookup(name) == nil {
			return settings.Usage("--%.40s is no flag of llmprof %s", name, f.Name())
		}
		if err := f.Set(name, flags[name]); err != nil {
			if invalid, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
				err = invalid.Unwrap()
			}
			return settings.Usage("--%s %.60q: %w", name, flags[name], err)
		}
	}
	return nil
}

// estimated is the answer to the flags of a request.
func (p *Page) estimated(ctx context.Context, r *Request) (*view.Estimate, error) {
	q, err := requestOf(r.Flags)
	if err != nil {
		return nil, err
	}
	ans, err := p.known.Answer(ctx, q)
	return &view.Estimate{Answer: ans}, err
}

// An Estimate is what the views of one state show.
type Estimate struct {
	Figures *view.EstimateDocument `json:"figures"`
	Words   *view.Words            `json:"words"`
	Graph   *plots.GraphDocument   `json:"graph"` // the graph that "llmprof graph" draws
}

// estimate is what "llmprof estimate" computes, as the views show it.
func (p *Page) estimate(ctx context.Context, r *Request) (*Answer, error) {
	q, err := requestOf(r.Flags)
	if err != nil {
		return nil, err
	}
	d, err := p.known.Resolve(ctx, q)
	if err != nil {
		return nil, err
	}
	ans := &view.Estimate{}
	if ans.Answer, err = d.Explain(); err != nil {
		return nil, err
	}
	graph, err := plots.DocumentGraph(&ans.Case, &ans.Report)
	return &Answer{Data: &Estimate{ans.Figures(), ans.Words(), graph}}, err
}

// text is "llmprof estimate" in a form that write writes.
func (p *Page) text(ctx context.Context, r *Request, write func(io.Writer, *view.Estimate) error) (*Answer, error) {
	ans, err := p.estimated(ctx, r)
	if err != nil {
		return nil, err
	}
	var b strings.Builder
	err = write(&b, ans)
	return &Answer{Text: b.String()}, err
}
