package analytic

import "fmt"

// A Workload is what is asked of the engine: Batch equal sequences in each
// data-parallel replica, started together.
type Workload struct {
	Batch        int  // sequences of one replica
	Prompt       int  // tokens of each prompt
	Gen          int  // tokens generated for each, the first by the prefill
	Chunk        int  // most prompt tokens of one prefill step; 0 for all of them
	CachedPrefix int  // leading prompt tokens whose KV is in the cache already
	AllLogits    bool // the LM head runs on every prompt position, not on the last alone
}

// maxTokens bounds lengths and batches: beyond any use, and far from where
// float64 stops counting by ones.
const maxTokens = 1 << 30

func (w *Workload) check(microBatches int) error {
	switch {
	case w.Batch < 1 || w.Batch > maxTokens:
		return fmt.Errorf("batch is %d: it must be from 1 to %d", w.Batch, maxTokens)
	case w.Prompt < 1 || w.Prompt > maxTokens:
		return fmt.Errorf("prompt length is %d: it must be from 1 to %d", w.Prompt, maxTokens)
	case w.Gen < 1 || w.Gen > maxTokens:
		return fmt.Errorf("generated length is %d: it must be from 1 to %d (the prefill yields the first token)", w.Gen, maxTokens)
	case w.Chunk < 0:
		return fmt.Errorf("chunk is %d: it must be positive, or 0 for a prefill in one step", w.Chunk)
	case w.CachedPrefix < 0 || w.CachedPrefix >= w.Prompt:
		return fmt.Errorf("cached prefix is %d of a prompt of %d: it must be from 0 to %d (the last token has to run to predict the next)",
			w.CachedPrefix, w.Prompt, w.Prompt-1)
	case w.Batch%microBatches != 0:
		return fmt.Errorf("%d micro-batches do not divide a batch of %d", microBatches, w.Batch)
	}
	return nil
}

// chunk is the most tokens of a sequence that one prefill step takes.
func (w *Workload) chunk() int {
	fresh := w.Prompt - w.CachedPrefix
	if w.Chunk == 0 || w.Chunk > fresh {
		return fresh
	}
	return w.Chunk
}

// Context is the longest context of a sequence, prompt and answer.
func (w *Workload) Context() int { return w.Prompt + w.Gen }
