// Package workload has what requests, settings, results and predictions say of the
// sequences that an engine is given, and what an estimate is asked.
package workload

import (
	"fmt"
	"math"
)

// Sequences are equal sequences that are started together.
type Sequences struct {
	Batch     int `json:"batch"`
	PromptLen int `json:"prompt_len"` // tokens of each prompt
	GenLen    int `json:"gen_len"`    // tokens generated for each, the first by the prefill
}

// A Workload is what is asked of the engine: Batch equal sequences in each
// data-parallel replica, started together.
type Workload struct {
	Batch        int  // sequences of one replica
	Prompt       int  // tokens of each prompt
	Gen          int  // tokens generated for each, the first by the prefill
	Chunk        int  // most prompt tokens of one prefill step; 0 for all of them
	Budget       int  // most tokens of one step of all sequences together; 0 for the engine's default
	CachedPrefix int  // leading prompt tokens whose KV is in the cache already
	AllLogits    bool // the LM head runs on every prompt position, not on the last alone
}

// MaxTokens bounds lengths and batches: beyond any use, and far from where
// float64 stops counting by ones.
const MaxTokens = 1 << 30

// Check tells what is wrong with the workload in so many micro-batches, if anything is.
func (w *Workload) Check(microBatches int) error {
	switch {
	case w.Batch < 1 || w.Batch > MaxTokens:
		return fmt.Errorf("batch is %d: it must be from 1 to %d", w.Batch, MaxTokens)
	case w.Prompt < 1 || w.Prompt > MaxTokens:
		return fmt.Errorf("prompt length is %d: it must be from 1 to %d", w.Prompt, MaxTokens)
	case w.Gen < 1 || w.Gen > MaxTokens:
		return fmt.Errorf("generated length is %d: it must be from 1 to %d (the prefill yields the first token)", w.Gen, MaxTokens)
	case w.Chunk < 0:
		return fmt.Errorf("chunk is %d: it must be positive, or 0 for a prefill in one step", w.Chunk)
	case w.Budget < 0:
		return fmt.Errorf("budget of a step is %d tokens: it must be positive, or 0 for the engine's default", w.Budget)
	case w.CachedPrefix < 0 || w.CachedPrefix >= w.Prompt:
		return fmt.Errorf("cached prefix is %d of a prompt of %d: it must be from 0 to %d (the last token has to run to predict the next)",
			w.CachedPrefix, w.Prompt, w.Prompt-1)
	case w.Batch%microBatches != 0:
		return fmt.Errorf("%d micro-batches do not divide a batch of %d", microBatches, w.Batch)
	}
	return nil
}

// Step is how many sequences a prefill step takes at most, where it has at most budget
// tokens, and how many tokens of each; a budget of 0 is no limit.
func (w *Workload) Step(budget int) (sequences, tokens float64) {
	fresh := w.Prompt - w.CachedPrefix
	if w.Chunk > 0 {
		fresh = min(fresh, w.Chunk)
	}
	if w.Budget > 0 {
		budget = w.Budget
	}
	if budget == 0 {
		return math.Inf(1), float64(fresh)
	}
	fresh = min(fresh, budget)
	return float64(budget) / float64(fresh), float64(fresh)
}

// Context is the longest context of a sequence, prompt and answer.
func (w *Workload) Context() int { return w.Prompt + w.Gen }
