package main

import (
	"fmt"

	"llmprof/cmd/llmprof/internal/view"
)

// checkAblate refuses what an ablation has no use for.
func (v *comparison) checkAblate() error {
	for _, flag := range []string{"by", "worst", "fail-over", "chart"} {
		if v.given(flag) {
			return usage("--%s: --ablate prints errors by metric and constant alone; leave one of the two out", flag)
		}
	}
	if v.output.picture() != "" {
		return usage("-o %.40q: --ablate draws no chart; give a name that ends otherwise", v.output.file)
	}
	return nil
}

// writeAblation puts one constant after the other to its ideal and writes what
// that does to the errors.
func (a *app) writeAblation(v *comparison) error {
	if len(v.Score.Rows) == 0 {
		return fmt.Errorf("none of %d observations could be compared", v.Observations)
	}
	part, end := a.follow().counted("predicting without each constant")
	v.Scorer.Progress = part
	each, all, err := v.Scorer.Ablate(v.Score.Rows)
	end()
	if err != nil {
		return err
	}
	b := &view.Ablation{Score: v.Score, Each: each, All: all}
	return v.output.write(a, forms{page: b.Page, table: b.Table, data: b.JSON})
}
