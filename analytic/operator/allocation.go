package operator

import (
	"math"

	"llmprof/unit"
)

// An Allocation is how an engine shares out the memory of a GPU, as far as the matrices of the model do not say. The zero value stands for
// an engine whose cache is a number of bytes a token, and whose activations are those of the workload.
type Allocation struct {
	Loaded    unit.Bytes // weights beside the matrices: towers, tables of rotary positions, second copies
	Outside   unit.Bytes // memory outside of the framework's allocator, and CUDA graphs; 0 for the reserve that the footprint has
	Sequences int        // most sequences that the engine profiles a step for; 0 where it profiles none

	// Peak is the peak of the activations of the step that the engine profiles before it makes its cache, whatever the workload; nil
	// where the engine profiles none.
	Peak func(tokens, sequences float64) unit.Bytes

	// Caches are the groups of layers that have a block table each, for steps of so many tokens; nil for caches of bytes a token.
	Caches func(budget float64) []Pages

	States *StatePool // nil where states lie in the cache

	// Log is what the engine writes at start-up of a cache of so many bytes, where no request is longer than longest; nil where it is
	// not known.
	Log func(cache unit.Bytes, longest, budget float64) Log
}

// A Log is the capacity of the cache as an engine's log states it.
type Log struct {
	Blocks   float64 // blocks of the cache, in an engine with blocks
	Tokens   float64
	Requests float64 // requests of the longest length that fit at once, or as many as the engine runs
}

// Pages are the cache of a group of layers that share a block table. A sequence holds whole pages.
type Pages struct {
	Each   unit.Bytes // page: a block of tokens in all layers of the group
	Tokens float64    // tokens of a block
	Limit  float64    // tokens that are kept of a sequence; +Inf for all of them
	Fixed  float64    // further pages that every sequence holds
	State  bool       // The pages hold recurrent states, which do not grow with the context.
}

// Count is the number of pages of a sequence of context tokens.
func (p *Pages) Count(context float64) float64 {
	if p.State {
		return p.Fixed
	}
	return p.Fixed + math.Ceil(min(context, p.Limit)/p.Tokens)
}

// of is the memory of a sequence of context tokens.
func (p *Pages) of(context float64) unit.Bytes { return p.Each.Times(p.Count(context)) }

// A StatePool is a pool of recurrent states apart from the KV cache. It takes its share of what is left after the weights.
type StatePool struct {
	Share      float64    // share of what is left
	Slot       unit.Bytes // all states of one sequence on the rank
	PerRequest float64    // slots that a running request takes, with those of its prefixes
}

// slots is the number of slots in a pool beside a cache. One more of them is for padding.
func (s *StatePool) slots(left unit.Bytes) float64 {
	return max(math.Floor(float64(left.Times(s.Share)/s.Slot))-1, 0)
}

// Running is the most requests that run at once, by the states that fit.
func (s *StatePool) Running(left unit.Bytes) int {
	return int(min(math.Floor(s.slots(left)/s.PerRequest), math.MaxInt32))
}

// cache is what remains for the KV cache beside the pool.
func (s *StatePool) cache(left unit.Bytes) unit.Bytes {
	if s == nil {
		return left
	}
	return left - s.Slot.Times(s.slots(left)+1)
}
