package page

import (
	"bytes"
	"context"

	"github.com/spf13/pflag"

	"llmprof/cmd/llmprof/internal/settings"
	"llmprof/cmd/llmprof/internal/view"
	"llmprof/plan"
	"llmprof/plots/render"
)

// plan is "llmprof plan --format json".
func (p *Page) plan(ctx context.Context, r *Request) (*Answer, error) {
	o := &plan.Options{}
	f := pflag.NewFlagSet("plan", pflag.ContinueOnError)
	settings.Planned(f, o, nil)
	f.VisitAll(settings.Lenient)
	if err := set(f, r.Flags); err != nil {
		return nil, err
	}
	q, err := o.Request(ctx, p.known)
	if err != nil {
		return nil, err
	}
	view.Weigh(q)
	q.Progress = p.Progress
	found, err := plan.Search(ctx, q)
	if err != nil {
		return nil, err
	}
	v := &view.Plan{Request: q, Result: found, Shown: plan.Shown(found.Rows, q.Top, q.PerGPU)}
	var b bytes.Buffer
	err = render.JSON(&b, v.Document())
	return &Answer{Text: b.String(), Data: v.Words()}, err
}
