package deployment

import (
	"context"
	"slices"

	"llmprof/analytic/breakdown"
	"llmprof/analytic/engine"
	"llmprof/unit"
)

// An Answer is the estimate of a deployment.
type Answer struct {
	*Deployment
	breakdown.Report
	Links *unit.Warning // how its GPUs are taken to be linked, nil where nothing would say otherwise
	Load  *Load         // nil unless the steady state under one was asked for
}

// Answer reads what a request names and answers it, with the steady state under its load if it has one.
func (l *Library) Answer(ctx context.Context, q *Request) (*Answer, error) {
	d, err := l.Resolve(ctx, q)
	if err != nil {
		return nil, err
	}
	ans, err := d.Explain()
	if err != nil {
		return nil, err
	}
	return ans, ans.loaded(ctx)
}

// Explain answers the case operator by operator, with what a reader has to know.
func (d *Deployment) Explain() (*Answer, error) {
	ans, err := &Answer{Deployment: d}, d.unused()
	if err != nil {
		return nil, err
	}
	if ans.Report, err = breakdown.Explain(&d.Case); err != nil {
		return nil, unit.Wrong(err)
	}
	if err := d.CountsPrefixes(); err != nil {
		return nil, err
	}
	ans.besides()
	first := 0
	if !ans.Memory.Fits() {
		first = 1 // after the warning that it does not
	}
	ans.Warnings = slices.Insert(ans.Warnings, first, d.known...)
	if ans.Links, err = d.linked(true); err != nil {
		return nil, unit.Wrong(err)
	}
	ans.idle()
	ans.warn(d.node)
	ans.Warnings = append(engine.Starts(&d.Case, &ans.Memory), ans.Warnings...) // A server that does not start comes before all else.
	ans.warn(ans.Links)
	if hint := ans.whatFits(); hint != nil {
		ans.Warnings = slices.Insert(ans.Warnings, 1, *hint) // after the warning that it does not
	}
	return ans, nil
}

func (ans *Answer) warn(w *unit.Warning) {
	if w != nil {
		ans.Warnings = append(ans.Warnings, *w)
	}
}
