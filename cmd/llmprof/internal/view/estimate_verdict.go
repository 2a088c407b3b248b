package view

import (
	"fmt"

	"llmprof/unit"
)

// A Verdict says whether the workload can run at all.
type Verdict struct {
	Possible bool        `json:"possible"`
	Short    *unit.Bytes `json:"memory_short_bytes"`  // shortfall of one GPU; null where the memory suffices
	Over     *int        `json:"context_over_tokens"` // null where the model's context suffices
	Text     string      `json:"text"`
}

// Verdict says whether the workload can run at all, and what is missing.
func (e *Estimate) Verdict() Verdict {
	m := &e.Memory
	v := Verdict{Possible: true, Text: "fits"}
	if !m.Fits() {
		short := m.Total - m.Usable
		v.Possible, v.Short = false, &short
		v.Text = fmt.Sprintf("does not fit: %v short on each GPU, which needs %v and may take %v", short, m.Total, m.Usable)
	}
	if limit, need := e.Model.MaxContext, e.Workload.PromptLen+e.Workload.GenLen; limit > 0 && need > limit {
		over := need - limit
		text := e.overText(over)
		if v.Possible {
			v.Text = text
		} else {
			v.Text += "; " + text
		}
		v.Possible, v.Over = false, &over
	}
	return v
}

// overText says by how much the context is too long.
func (e *Estimate) overText(over int) string {
	tokens := "tokens"
	if over == 1 {
		tokens = "token"
	}
	return fmt.Sprintf("context too long by %d %s: prompt and answer are %d, %s takes %d",
		over, tokens, e.Workload.PromptLen+e.Workload.GenLen, e.Model.Name, e.Model.MaxContext)
}
