package operator

import (
	"math"

	"llmprof/models"
)

// A Shard is the part of a model that one rank of a tensor-parallel group has, and how the routers
// of its mixtures choose experts. Steps are built from it.
type Shard struct {
	Rank
	routings Routings // nil where experts are chosen evenly
}

// NewShard is a rank of a model with a split p, a quantization s and a popularity e of its
// experts; nil if all experts are chosen equally often.
func NewShard(m *models.Model, p Parallelism, s models.Scheme, e *Popularity) Shard {
	r := NewRank(m, p, s)
	return Shard{Rank: r, routings: e.Routings(m, r.Par.EP)}
}

// Evenly reports whether all experts are chosen equally often.
func (s *Shard) Evenly() bool { return s.routings == nil }

// Step is a step in which each of batch sequences gains fresh tokens after past ones,
// with the scores of logits positions of each.
func (s *Shard) Step(batch, fresh, past, logits float64) Step {
	return Step{Shard: *s, Batch: batch, New: fresh, Past: past, Logits: logits}
}

// at is a step of a micro-batch of a workload after past tokens, with one new token.
func (s *Shard) at(w *Workload, past int) Step {
	st := s.Step(float64(w.Batch)/float64(s.Par.MicroBatches), 1, float64(past), 1)
	st.Cache = float64(w.Context())
	return st
}

// FirstDecode is the first decode step of a workload, of one micro-batch. Each step after it
// has one more token of context.
func (s *Shard) FirstDecode(w *Workload) Step { return s.at(w, w.PromptLen) }

// Prefill is the steps of a prefill of one micro-batch, chunk by chunk: the steps before the
// last, if there are any, and the last. The LM head runs in the last step, unless it runs on
// every position. A batch with more tokens than the budget of a step (0 for no limit) prefills
// in equal groups of sequences; an engine fills its steps and splits prompts between them,
// with equal work in as many steps.
func (s *Shard) Prefill(w *Workload, budget int) (runs [2]Run) {
	full := s.at(w, w.CachedPrefix)
	most, chunk := w.Step(budget)
	groups := max(math.Ceil(full.Batch/most), 1)
	fresh := w.PromptLen - w.CachedPrefix
	n := (fresh - 1) / int(chunk)
	last := s.at(w, w.CachedPrefix+n*int(chunk))
	full.Batch /= groups
	last.Batch = full.Batch
	full.New, full.Logits, last.New = chunk, 0, float64(fresh-n*int(chunk))
	if w.AllLogits {
		full.Logits, last.Logits = full.New, last.New
	}
	return [2]Run{{full, n, groups}, {last, 1, groups}}
}
