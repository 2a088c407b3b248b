package operator

import (
	"cmp"
	"fmt"
	"math"
)

// A Workload is equal sequences that are started together: Batch of them in each
// data-parallel replica. Settings, results and estimates embed it. The fields without a
// key are the theory's alone: a document that has one of them declares its key itself,
// so that an experiment file cannot ask for what no engine is told.
type Workload struct {
	Batch     int `json:"batch"`
	PromptLen int `json:"prompt_len"` // tokens of each prompt
	GenLen    int `json:"gen_len"`    // tokens generated for each, the first by the prefill

	Chunk        int  `json:"-"` // most prompt tokens of one prefill step; 0 for all of them
	Budget       int  `json:"-"` // most tokens of one step of all sequences together; 0 for the engine's default
	CachedPrefix int  `json:"-"` // leading prompt tokens whose KV is in the cache already
	AllLogits    bool `json:"-"` // the LM head runs on every prompt position, not on the last alone
	Longest      int  `json:"-"` // longest request that the server takes (--max-model-len); 0 for prompt and answer
}

// longest is the longest request that the server takes.
func (w *Workload) longest() int { return cmp.Or(w.Longest, w.Context()) }

// budget is the most tokens of a step, of an engine with a default.
func (w *Workload) budget(engines int) int { return cmp.Or(w.Budget, engines) }

// MaxTokens bounds lengths and batches: beyond any use, and far from where
// float64 stops counting by ones.
const MaxTokens = 1 << 30

// Check returns what is wrong with the workload in so many micro-batches, if anything is.
func (w *Workload) Check(microBatches int) error {
	switch {
	case w.Batch < 1 || w.Batch > MaxTokens:
		return fmt.Errorf("batch is %d: it must be from 1 to %d", w.Batch, MaxTokens)
	case w.PromptLen < 1 || w.PromptLen > MaxTokens:
		return fmt.Errorf("prompt length is %d: it must be from 1 to %d", w.PromptLen, MaxTokens)
	case w.GenLen < 1 || w.GenLen > MaxTokens:
		return fmt.Errorf("generated length is %d: it must be from 1 to %d (the prefill yields the first token)", w.GenLen, MaxTokens)
	case w.Chunk < 0:
		return fmt.Errorf("chunk is %d: it must be at least 1; without it the prefill takes one step", w.Chunk)
	case w.Budget < 0:
		return fmt.Errorf("budget of a step is %d tokens: it must be at least 1; without it the engine's default holds", w.Budget)
	case w.Budget > 0 && w.GenLen > 1 && w.Budget < w.Batch/max(microBatches, 1):
		return fmt.Errorf("budget of a step is %d tokens: it must be at least the %d sequences that decode together, of a token each", w.Budget,
			w.Batch/max(microBatches, 1))
	case w.CachedPrefix < 0 || w.CachedPrefix >= w.PromptLen:
		return fmt.Errorf("cached prefix is %d of a prompt of %d: it must be from 0 to %d (the last token has to run to predict the next)",
			w.CachedPrefix, w.PromptLen, w.PromptLen-1)
	case w.Batch%microBatches != 0:
		return fmt.Errorf("%d micro-batches do not divide a batch of %d", microBatches, w.Batch)
	}
	return nil
}

// Step is how many sequences a prefill step takes at most, where it has at most budget
// tokens, and how many tokens of each; a budget of 0 is no limit.
func (w *Workload) Step(budget int) (sequences, tokens float64) {
	fresh := w.PromptLen - w.CachedPrefix
	if w.Chunk > 0 {
		fresh = min(fresh, w.Chunk)
	}
	if budget = w.budget(budget); budget == 0 {
		return math.Inf(1), float64(fresh)
	}
	fresh = min(fresh, budget)
	return float64(budget) / float64(fresh), float64(fresh)
}

// Context is the longest context of a sequence, prompt and answer.
func (w *Workload) Context() int { return w.PromptLen + w.GenLen }
