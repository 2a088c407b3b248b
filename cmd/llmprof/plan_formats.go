package main

import (
	"cmp"
	"context"
	"math"

	"llmprof/cmd/llmprof/internal/view"
	"llmprof/plan"
)

// formats compares the formats of weights that were tried on the card of a row, with its split and as many sequences as it runs: its own
// comes first. One that is refused or does not fit there is left out.
func (a *app) formats(ctx context.Context, r *plan.Row, q *plan.Request) *view.Comparison {
	c := &view.Comparison{}
	sequences := r.Batch
	if r.Running > 0 {
		sequences = max(int(math.Round(r.Running/float64(r.DP))), 1)
	}
	prompt, gen := int(math.Round(q.Prompt.MeanLength())), int(math.Round(q.Gen.MeanLength()))
	for _, f := range append([]plan.Formats{r.Formats}, r.Card.Formats...) {
		if len(c.Sides) > 0 && f == r.Formats || f.KV != r.Formats.KV {
			continue
		}
		d := r.Request(q)
		d.Weights, d.Batch, d.PromptLen, d.GenLen = f.Weights, &sequences, &prompt, &gen
		d.Prompts, d.Answers, d.HitRate, d.Budget, d.MaxSeqs, d.Prefillers, d.Drafts, d.Acceptance = nil, nil, nil, nil, nil, nil, nil, nil
		ans, err := a.library().Answer(ctx, &d)
		if err == nil && ans.Memory.Fits() {
			c.Sides = append(c.Sides, view.PredictedSide(cmp.Or(f.Weights, ans.Scheme.Name), &answer{Answer: ans}))
		}
	}
	return c
}
