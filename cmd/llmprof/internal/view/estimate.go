package view

import (
	"llmprof/analytic"
	"llmprof/analytic/breakdown"
)

// An Estimate is an estimate with what its page says about where it comes from.
type Estimate struct {
	analytic.Case
	breakdown.Report
	ModelName    string // model as the user gave it
	GPUName      string // GPU as the user gave it
	SchemeReason string // why these formats were taken
	EngineReason string // why this engine was taken, empty where it was asked for
	PriceSource  string // empty where no price is known
	Load         *Load  // nil unless the steady state under one was asked for
	Top          int    // only so many operators of each phase are shown, the longest; 0 for all
	Binary       bool   // the short answer has memory in GiB
}
