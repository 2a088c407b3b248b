package operator

import (
	"math"

	"llmprof/unit"
)

// Memory is what is stored on one GPU, the fullest one of the pipeline.
type Memory struct {
	Weights     unit.Bytes
	KV          unit.Bytes // KV cache of the whole batch at its longest
	State       unit.Bytes // state of scans and convolutions
	Activations unit.Bytes // activations at the peak of the prefill
	Reserve     unit.Bytes // CUDA context, communication buffers, buffers of the engine
	Total       unit.Bytes
	Capacity    unit.Bytes // memory of the GPU
	Usable      unit.Bytes // part of the capacity that the engine takes, with activations that lie beside it
	Share       float64    // share of the capacity that the engine takes, without activations beside it

	MaxBatch        int  // sequences of one replica that fit, prompt and answer
	MaxPrefillBatch int  // sequences that fit while prompts run
	MaxDecodeBatch  int  // sequences that fit while they decode
	MaxTokens       int  // tokens of context that the batch can have in all
	Unbounded       bool // there is no cache that grows: MaxTokens has no meaning
	Logged          Log  // capacity as the engine's log states it; 0 where that is not known
	Running         int  // most sequences that a pool of states has slots for; 0 where states have no pool

	batch int
}

// Fits reports whether the memory of the GPU suffices.
func (m *Memory) Fits() bool { return m.Total <= m.Usable && (m.Running == 0 || m.batch <= m.Running) }

// Room is the memory of a GPU, and the share of it that the engine takes.
type Room struct {
	Capacity unit.Bytes
	Share    float64
	Static   bool // The share is of weights and caches alone, and activations lie beside it.
	OfFree   bool // The share is of what weights, reserve and activations leave.
}

// usable is the part of the memory that the engine takes.
func (r Room) usable() unit.Bytes { return r.Capacity.Times(r.Share) }

// beside is what lies beside the part of the memory that the engine takes: activations, as far as there is room, and the share of the
// reserve, since the engine takes its part of the memory that is free before it loads weights.
func (r Room) beside(reserve, activations unit.Bytes) unit.Bytes {
	if !r.Static {
		return 0
	}
	rest := r.Capacity - r.usable()
	return reserve.Times(float64(rest/r.Capacity)) + min(activations, rest)
}

// Memory is the memory of a workload whose steps have at most budget tokens (0 for no
// limit), and how much more fits into the room. Without a room it says nothing of what fits.
func (f *Footprint) Memory(w *Workload, budget int, room Room) (m Memory) {
	batch, context, steps := float64(w.Batch), f.Cached(float64(w.Context())), f.stepsOf(w, budget)
	m.Weights, m.Reserve, m.batch = f.weights, f.reserve, w.Batch
	m.KV, m.State, m.Activations = context.Times(batch), f.state.Times(batch), steps.activations(batch)
	m.Total = f.total(batch, context, m.Activations)
	if room.Capacity == 0 {
		return m
	}
	m.Capacity, m.Usable, m.Share = room.Capacity, f.with(room, m.Activations), room.Share
	pool := f.alloc.States
	left := f.with(room, m.Activations) - f.total(0, 0, m.Activations)
	apart := left - pool.cache(left)
	spare := func(batch float64, cached, activations unit.Bytes) unit.Bytes {
		return f.with(room, activations) - f.total(batch, cached, activations) - apart
	}
	if pool != nil {
		m.Running, m.State = pool.Running(left), pool.Slot.Times(batch)
		m.Total += m.State
		m.Usable -= apart - m.State // The slots that the batch leaves serve no other purpose.
	}
	prompt := f.Cached(float64(w.PromptLen))
	m.MaxBatch = m.running(most(func(n float64) unit.Bytes { return spare(n, context, steps.activations(n)) }))
	m.MaxPrefillBatch = m.running(most(func(n float64) unit.Bytes { return spare(n, prompt, steps.prefilling(n)) }))
	m.MaxDecodeBatch = m.running(most(func(n float64) unit.Bytes { return spare(n, context, steps.decoding(n)) }))
	m.Unbounded = f.Cached(2*MaxTokens) == f.Cached(MaxTokens)
	if !m.Unbounded {
		m.MaxTokens = w.Batch * most(func(n float64) unit.Bytes { return spare(batch, f.Cached(n), m.Activations) })
	}
	if log := f.alloc.Log; log != nil {
		m.Logged = log(max(left-apart, 0), float64(w.longest()), float64(w.budget(budget)))
	}
	return m
}

// running is a number of sequences that fit, of which no more run than states have slots.
func (m *Memory) running(n int) int {
	if m.Running > 0 {
		return min(n, m.Running)
	}
	return n
}

// total is the memory of a batch of sequences, each with so much of the KV cache, beside activations.
func (f *Footprint) total(batch float64, cached, activations unit.Bytes) unit.Bytes {
	return f.weights + f.reserve + cached.Times(batch) + f.state.Times(batch) + activations
}

// with is the part of the memory that the engine takes, with what lies beside it.
func (f *Footprint) with(r Room, activations unit.Bytes) unit.Bytes {
	if r.OfFree {
		fixed := f.weights + f.reserve + activations
		return fixed + (r.Capacity - fixed).Times(r.Share)
	}
	return r.usable() + r.beside(f.reserve, activations)
}

// A steps is the prefill steps of a workload.
type steps struct {
	*Footprint
	sequences float64    // most sequences of a step
	fresh     float64    // tokens of each
	all       bool       // each token has scores
	profiled  unit.Bytes // activations of the step that the engine profiles; 0 where it profiles none
}

func (f *Footprint) stepsOf(w *Workload, budget int) steps {
	s := steps{Footprint: f, all: w.AllLogits}
	s.sequences, s.fresh = w.Step(budget)
	if peak := f.alloc.Peak; peak != nil {
		budget := w.budget(budget)
		s.profiled = peak(float64(budget), float64(min(f.alloc.Sequences, budget)))
	}
	return s
}

// prefilling is the activations of a batch at the peak of its prefill. A step is filled with pieces of prompts, and
// any of its sequences may end its prompt in it, with the scores of the last position.
func (s *steps) prefilling(batch float64) unit.Bytes {
	if s.profiled > 0 {
		return s.profiled
	}
	tokens := s.fresh * min(batch, s.sequences)
	if s.all {
		return s.Activations(tokens, tokens)
	}
	return s.Activations(tokens, min(batch, tokens))
}

// decoding is the activations of a batch that decodes.
func (s *steps) decoding(batch float64) unit.Bytes {
	if s.profiled > 0 {
		return s.profiled
	}
	return s.Activations(batch, batch)
}

// activations is those of a batch at the peak of its prefill, or in a decode step.
func (s *steps) activations(batch float64) unit.Bytes {
	return max(s.prefilling(batch), s.decoding(batch))
}

// most is the largest number that leaves no less than nothing spare, at most what an int32 counts. A larger number leaves no more than a
// smaller one, and what is left falls almost in proportion, so that few are tried.
func most(spare func(float64) unit.Bytes) int {
	low, high := 0.0, float64(math.MaxInt32)
	some, none := spare(low), spare(high)
	switch {
	case some < 0:
		return 0
	case none >= 0:
		return math.MaxInt32
	}
	for try := 1; high-low > 1; try++ {
		n := math.Floor(low + (high-low)*float64(some/(some-none)))
		if try%4 == 0 {
			n = math.Floor((low + high) / 2)
		}
		n = min(max(n, low+1), high-1)
		if left := spare(n); left >= 0 {
			low, some = n, left
		} else {
			high, none = n, left
		}
	}
	return int(low)
}

// ForCache is the part of the room that remains for the KV cache and the state of sequences, where
// a step has up to the given number of tokens and of sequences.
func (f *Footprint) ForCache(room Room, tokens, sequences int) unit.Bytes {
	activations := f.Activations(float64(tokens), float64(sequences))
	if peak := f.alloc.Peak; peak != nil { // by the default of sequences, so that more of them never leave less
		activations = peak(float64(tokens), float64(min(f.alloc.Sequences, tokens)))
	}
	return f.alloc.States.cache(f.with(room, activations) - f.weights - f.reserve - activations)
}

// Start is the capacity of the cache as an engine's log states it at start-up, where a step has up to the given number of tokens and of
// sequences and no request is longer than longest, and whether it is known.
func (f *Footprint) Start(room Room, tokens, sequences, longest int) (l Log, known bool) {
	if f.alloc.Log == nil {
		return l, false
	}
	return f.alloc.Log(max(f.ForCache(room, tokens, sequences), 0), float64(longest), float64(tokens)), true
}

// MostSequences is the most sequences that a pool of states has slots for, where a step has up to the given number of tokens; 0 where
// states have no pool.
func (f *Footprint) MostSequences(room Room, tokens int) int {
	if f.alloc.States == nil {
		return 0
	}
	activations := f.Activations(float64(tokens), float64(tokens))
	return f.alloc.States.Running(f.with(room, activations) - f.weights - f.reserve - activations)
}

// Activations is the most that a step of fresh tokens, with the scores of logits positions, has alive at
// once: the residual stream and its normed copy, and either the widest block's
// intermediate values or the logits, which sampling wants in FP32.
func (f *Footprint) Activations(fresh, logits float64) unit.Bytes {
	r := &f.rank
	values := r.Bytes(fresh * f.widest)
	scores := unit.FP32.Bytes(logits * float64(r.Model.Head.Out) / float64(r.Par.TP))
	return r.Bytes(2*fresh*float64(r.Model.Hidden)) + max(values, scores)
}

// contextBytes is the memory of the CUDA context once a program has loaded its kernels; 0.3
// to 0.5 GB is usual.
const contextBytes = unit.Bytes(0.5e9)

// NCCL is the memory of NCCL's buffers on each GPU of a group; aiconfigurator's
// system tables (Apache-2.0) have 342 to 392 MB.
const NCCL = unit.Bytes(0.39e9)

// Reserve is the memory that CUDA, NCCL, the system and the engine reserve on a GPU.
func Reserve(p *Parallelism, system, engine unit.Bytes) unit.Bytes {
	r := contextBytes + engine + system
	if max(p.TP*p.PP, p.ExpertRanks()) > 1 {
		r += NCCL
	}
	return r
}
