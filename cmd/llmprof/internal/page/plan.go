package page

import (
	"bytes"
	"context"

	"github.com/spf13/pflag"

	"llmprof/cmd/llmprof/internal/count"
	"llmprof/cmd/llmprof/internal/settings"
	"llmprof/cmd/llmprof/internal/view"
	"llmprof/plan"
	"llmprof/plots/render"
)

// plan is "llmprof plan --format json", without how far predictions of each engine are from what was
// observed: the page has the observations.
func (p *Page) plan(ctx context.Context, r *Request) (*Answer, error) {
	o := &plan.Asked{}
	f := pflag.NewFlagSet("plan", pflag.ContinueOnError)
	settings.Planned(f, o, nil)
	f.VisitAll(count.Lenient)
	if err := set(f, r.Flags); err != nil {
		return nil, err
	}
	q, err := o.Request(ctx, p.known)
	if err != nil {
		return nil, err
	}
	q.Progress, q.Trusting = p.Progress, true // since the page does not know what was observed
	found, err := plan.Search(ctx, q)
	if err != nil {
		return nil, err
	}
	v := &view.Plan{Request: q, Result: found, Shown: plan.Shown(found.Rows, q.Top, q.PerGPU)}
	for i := range v.Shown {
		v.Accuracy = append(v.Accuracy, view.Accuracy{Measured: v.Shown[i].Card.Machine.Cal.Measured})
	}
	var b bytes.Buffer
	err = render.JSON(&b, v.Document())
	return &Answer{Text: b.String(), Data: v.Words()}, err
}
