package view

import (
	"llmprof/analytic"
	"llmprof/analytic/breakdown"
)

// An Estimate is an estimate with what its page says about where it comes from.
type Estimate struct {
	analytic.Case
	breakdown.Report
	ModelName    string // as the user gave it
	GPUName      string // as the user gave it
	SchemeReason string // why these formats were taken
	PriceSource  string // empty where no price is known
	Top          int    // only so many operators of each phase are shown, the longest; 0 for all
}
