//go:build !js

package view

import (
	"llmprof/cmd/llmprof/internal/report"
)

// ReportPage is the page of an estimate. The sections beside it come between those of
// the estimate and the assumptions; with files, its pictures are files beside it.
func (e *Estimate) ReportPage(beside []report.Section, files bool) (*report.Page, error) {
	pictures, err := e.pictures(files)
	if err != nil {
		return nil, err
	}
	operators := []report.Part{{Block: e.prefillTable(), Sortable: true}}
	if e.Tokens > 0 {
		operators = append(operators, report.Part{Block: e.decodeTable(), Sortable: true})
	}
	page := &report.Page{Title: e.title(), Lead: e.lead(), Cards: e.cards(), Warnings: e.Warnings}
	page.Sections = []report.Section{
		{ID: "times", Title: "Times, energy and cost", Parts: []report.Part{{Block: e.times()}, {Block: e.rates()}, pictures["roofline"]}},
		{ID: "operators", Title: "Operators", Parts: append(operators, pictures["breakdown"], pictures["graph"])},
		{ID: "memory", Title: "Memory", Parts: []report.Part{{Block: e.memoryTable()}, {Block: e.limits()}, pictures["memory-batch"], pictures["memory-context"]}},
		{ID: "sweeps", Title: "Batch, context and split", Parts: []report.Part{pictures["sweep-batch"], pictures["sweep-context"], pictures["sweep-tp"]}},
	}
	page.Sections = append(page.Sections, beside...)
	page.Sections = append(page.Sections,
		report.Section{ID: "assumptions", Title: "Assumptions", Parts: []report.Part{{Block: e.setup()}, {Block: e.assumptions()}}},
		report.Section{ID: "sources", Title: "Sources", Parts: []report.Part{{Block: e.sources()}}})
	page.Drop()
	return page, nil
}
