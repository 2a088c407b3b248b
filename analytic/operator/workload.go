package operator

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// A Run is a number of steps, each after the tokens of the one before it. The run is repeated
// Times times, for groups of sequences.
type Run struct {
	First Step
	Steps int
	Times float64
}

// At is step n of the run, counted from 0; a fraction of n is a step between two.
func (r *Run) At(n float64) Step {
	s := r.First
	s.Past += s.New * n
	return s
}

// Split is the first n steps of the run, and the others.
func (r *Run) Split(n int) (left, right Run) {
	return Run{r.First, n, r.Times}, Run{r.At(float64(n)), r.Steps - n, r.Times}
}

// Segments are the run cut before each of the steps at, which rise.
func (r *Run) Segments(at []int) (all []Run) {
	rest, done := *r, 0
	for _, n := range at {
		var segment Run
		segment, rest = rest.Split(n - done)
		all, done = append(all, segment), n
	}
	return append(all, rest)
}

// mostBends bounds the cuts of a run. Chunks of a few tokens under answers of millions have more, behind which the run is taken as
// linear.
const mostBends = 4096

// Bends are the steps of a run before which the formula of a layer changes: all figures of an operator are linear in the context between
// them. A window changes it where it is full, and begins to be full within one step.
func (r *Rank) Bends(run *Run) (at []int) {
	past, fresh := run.First.Past, run.First.New
	for _, b := range r.Model.Blocks() {
		if b.Attention == nil {
			continue
		}
		m := maskOf(b.Attention)
		for _, context := range m.bends(fresh, past+fresh*float64(run.Steps)) {
			filling := (context - past) / fresh // steps before the window is full
			for _, n := range []float64{math.Floor(filling), math.Ceil(filling)} {
				if n >= 1 && n < float64(run.Steps) {
					at = append(at, int(n))
				}
			}
		}
	}
	slices.Sort(at)
	return slices.Compact(at)
}

// at is a step of a micro-batch of a workload after past tokens, with one new token.
func (r *Rank) at(w *Workload, past int) Step {
	st := r.Step(float64(w.Batch)/float64(r.Par.MicroBatches), 1, float64(past), 1)
	st.Cache = float64(w.Context())
	return st
}

// FirstDecode is the first decode step of a workload, of one micro-batch. Each step after it
// has one more token of context.
func (r *Rank) FirstDecode(w *Workload) Step { return r.at(w, w.PromptLen) }

// Prefill is the steps of a prefill of one micro-batch, chunk by chunk: the steps before the
// last, if there are any, and the last. The LM head runs in the last step, unless it runs on
// every position. A batch with more tokens than the budget of a step (0 for no limit) prefills
// in equal groups of sequences; an engine fills its steps and splits prompts between them,
// with equal work in as many steps. Prompts that an engine begins with before the others arrive (Rank.Early) have steps of their own.
func (r *Rank) Prefill(w *Workload, budget int) (runs [4]Run) {
	batch := r.at(w, w.CachedPrefix).Batch
	if early := float64(r.Early); early > 0 && early < batch && r.Par.MicroBatches == 1 {
		runs[0], runs[1] = r.prefill(w, budget, early)
		batch -= early
	}
	runs[2], runs[3] = r.prefill(w, budget, batch)
	return runs
}

// prefill is the steps of a prefill of batch sequences of a workload: those before the last chunk, and that.
func (r *Rank) prefill(w *Workload, budget int, batch float64) (before, end Run) {
	full := r.at(w, w.CachedPrefix)
	most, chunk := w.Step(budget)
	groups := max(math.Ceil(batch/most), 1)
	fresh := w.PromptLen - w.CachedPrefix
	n := (fresh - 1) / int(chunk)
	last := r.at(w, w.CachedPrefix+n*int(chunk))
	full.Batch = batch / groups
	last.Batch = full.Batch
	full.Prompt, last.Prompt = true, true
	full.New, full.Logits, last.New = chunk, 0, float64(fresh-n*int(chunk))
	full.Encoded, last.Encoded = full.Batch*full.New/float64(fresh), last.Batch*last.New/float64(fresh)
	if w.AllLogits {
		full.Logits, last.Logits = full.New, last.New
	}
	return Run{full, n, groups}, Run{last, 1, groups}
}

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
