package operator

import (
	"fmt"
	"math"
	"sort"

	"llmprof/unit"
)

// Memory is what is stored on one GPU, the fullest one of the pipeline.
type Memory struct {
	Weights     unit.Bytes
	KV          unit.Bytes // KV cache of the whole batch at its longest
	State       unit.Bytes // state of scans and convolutions
	Activations unit.Bytes // activations at the peak of the prefill
	Reserve     unit.Bytes // CUDA context, communication buffers, buffers of the engine
	HostWeights unit.Bytes // weights in the memory of the host
	HostKV      unit.Bytes // KV cache and states there
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
	Limit           int  // most sequences that the engine and its settings run at once, whatever the memory; 0 for no limit

	slots unit.Bytes // memory that lacks for a pool of states with slots for the batch
	batch int
}

// Fits reports whether the memory of the GPU suffices, and the engine runs so many sequences at once.
func (m *Memory) Fits() bool { return m.Short() <= 0 && (m.Limit == 0 || m.batch <= m.Limit) }

// Refusal says why the workload does not fit; "" where it does.
func (m *Memory) Refusal() string {
	switch short := m.Short(); {
	case m.Fits():
		return ""
	case short <= 0:
		return fmt.Sprintf("does not run: %d of the %d sequences run at once", m.Limit, m.batch)
	case m.Total <= m.Usable:
		return fmt.Sprintf("does not fit: %v short on each GPU, whose pool of states has slots for %d of %d sequences", short, m.Running, m.batch)
	default:
		return fmt.Sprintf("does not fit: %v short on each GPU, which needs %v and may take %v", short, m.Total, m.Usable)
	}
}

// Short is the memory that lacks where the workload does not fit: for all that it stores, or for a pool with slots for its states.
func (m *Memory) Short() unit.Bytes { return max(m.Total-m.Usable, m.slots) }

// A DeviceMemory is the memory of a GPU, and the share of it that the engine takes.
type DeviceMemory struct {
	Capacity unit.Bytes
	Share    float64
	Static   bool // The share is of weights and caches alone, and activations lie beside it.
	OfFree   bool // The share is of what weights, reserve and activations leave.
}

// usable is the part of the memory that the engine takes, with what lies beside it: activations, as far as they fit, and the share of
// the reserve, since the engine takes its part of the memory that is free before it loads weights.
func (f *Footprint) usable(activations unit.Bytes) unit.Bytes {
	fixed, part := f.total(0, 0, activations), f.Device.Capacity.Times(f.Device.Share)
	switch rest := f.Device.Capacity - part; {
	case f.Device.OfFree:
		return fixed + (f.Device.Capacity - fixed).Times(f.Device.Share)
	case f.Device.Static:
		return part + (f.reserve.Times(float64(rest/f.Device.Capacity)) + min(activations, rest))
	}
	return part
}

// left is the free memory, which caches and states may take.
func (f *Footprint) left(activations unit.Bytes) unit.Bytes {
	return f.usable(activations) - f.total(0, 0, activations)
}

// total is the memory of a batch of sequences, each with so much of the KV cache, beside activations.
func (f *Footprint) total(batch float64, cached, activations unit.Bytes) unit.Bytes {
	return f.weights + f.reserve + cached.Times(batch) + f.state.Times(batch) + activations
}

// Memory is the memory of a workload whose steps have at most budget tokens (0 for no
// limit), and how much more fits. Without a capacity it says nothing of what fits.
func (f *Footprint) Memory(w *Workload, budget int) (m Memory) {
	batch, context := float64(w.Batch), f.Cached(float64(w.Context()))
	prefilling, decoding := f.peaks(w, budget)
	both := func(batch float64) unit.Bytes { return max(prefilling(batch), decoding(batch)) }
	m.Weights, m.Reserve = f.weights, f.reserve
	m.KV, m.State, m.Activations = context.Times(batch), f.state.Times(batch), both(batch)
	m.HostWeights, m.HostKV = f.onHost(float64(w.Context()))
	m.HostKV = m.HostKV.Times(batch)
	m.Total = f.total(batch, context, m.Activations)
	if f.Device.Capacity == 0 {
		return m
	}
	m.Limit, m.batch = f.limit(), w.Batch
	m.Capacity, m.Usable, m.Share = f.Device.Capacity, f.usable(m.Activations), f.Device.Share
	pool, left := f.alloc.States, f.left(m.Activations)
	if f.Device.Static { // Its pools have their size before a step runs, whatever the step needs.
		left = f.left(0)
	}
	apart := left - pool.cache(left)
	if pool != nil {
		m.Running, m.slots, m.State = pool.Running(left), pool.lacks(left, w.Batch), pool.Slot.Times(batch)
		m.Total += m.State
		m.Usable -= apart - m.State // The slots that the batch leaves serve no other purpose.
	}
	spare := func(batch float64, cached, activations unit.Bytes) unit.Bytes {
		return f.usable(activations) - f.total(batch, cached, activations) - apart
	}
	// fit is how many sequences fit, of which no more run than states have slots.
	fit := func(cached unit.Bytes, activations func(batch float64) unit.Bytes) int {
		n := most(func(n float64) unit.Bytes { return spare(n, cached, activations(n)) })
		if pool != nil {
			n = min(n, m.Running)
		}
		if m.Limit > 0 {
			n = min(n, m.Limit)
		}
		return n
	}
	m.MaxBatch, m.MaxDecodeBatch = fit(context, both), fit(context, decoding)
	m.MaxPrefillBatch = fit(f.Cached(float64(w.PromptLen)), prefilling)
	m.Unbounded = f.Cached(2*MaxTokens) == f.Cached(MaxTokens)
	if !m.Unbounded {
		m.MaxTokens = w.Batch * most(func(n float64) unit.Bytes { return spare(batch, f.Cached(n), m.Activations) })
	}
	if log := f.alloc.Log; log != nil {
		m.Logged = log(max(left-apart, 0), float64(w.longest()), float64(w.budget(budget)))
		if pool != nil {
			m.Logged.Requests = min(m.Logged.Requests, float64(m.Running))
		}
	}
	return m
}

// limit is the most sequences that run at once by the engine's own limit and by its settings; 0 where there is none.
func (f *Footprint) limit() int {
	own, set := f.alloc.Slots, f.Settings.Sequences
	if own == 0 || set == 0 {
		return max(own, set)
	}
	return min(own, set)
}

// peaks are the activations of a batch at the peak of its prefill, and in a decode step, or of the step that the engine profiles. A step of
// a prefill is filled with pieces of prompts, and any of its sequences may end its prompt in it, with the scores of the last position.
func (f *Footprint) peaks(w *Workload, budget int) (prefilling, decoding func(batch float64) unit.Bytes) {
	if peak := f.alloc.Peak; peak != nil {
		if budget = w.budget(budget); f.alloc.Whole > 0 {
			budget = max(w.Budget, f.alloc.Whole)
		}
		profiled := peak(float64(budget), float64(min(f.alloc.Sequences, budget)))
		always := func(float64) unit.Bytes { return profiled }
		return always, always
	}
	sequences, fresh := w.Step(budget)
	prefilling = func(batch float64) unit.Bytes {
		tokens := fresh * min(batch, sequences)
		if w.AllLogits {
			return f.Activations(tokens, tokens)
		}
		return f.Activations(tokens, min(batch, tokens))
	}
	return prefilling, func(batch float64) unit.Bytes { return f.Activations(batch, batch) }
}

// most is the largest number that leaves no less than nothing spare, at most what an int32 counts. A larger number leaves no more than a
// smaller one.
func most(spare func(float64) unit.Bytes) int {
	return sort.Search(math.MaxInt32, func(n int) bool { return spare(float64(n+1)) < 0 })
}

// CacheMemory is the free memory for the KV cache and the state of sequences, where
// a step has up to the given number of tokens and of sequences.
func (f *Footprint) CacheMemory(tokens, sequences int) unit.Bytes {
	activations := f.Activations(float64(tokens), float64(sequences))
	if peak := f.alloc.Peak; peak != nil { // The default number of sequences counts, so that more of them never leave less.
		tokens = max(tokens, f.alloc.Whole)
		activations = peak(float64(tokens), float64(min(f.alloc.Sequences, tokens)))
	}
	return f.alloc.States.cache(f.left(activations))
}

// Start is the capacity of the cache as an engine's log states it at start-up, where a step has up to the given number of tokens and of
// sequences and no request is longer than longest, and whether it is known.
func (f *Footprint) Start(tokens, sequences, longest int) (l Log, known bool) {
	if f.alloc.Log == nil {
		return l, false
	}
	return f.alloc.Log(max(f.CacheMemory(tokens, sequences), 0), float64(longest), float64(tokens)), true
}

// Whole is the tokens that a step has room for at least, of an engine that does not cut prompts; 0 where it cuts them.
func (f *Footprint) Whole() int { return f.alloc.Whole }

// MostSequences is the most sequences that a pool of states has slots for, where a step has up to the given number of tokens, and whether
// states have a pool.
func (f *Footprint) MostSequences(tokens int) (most int, pooled bool) {
	if f.alloc.States == nil {
		return 0, false
	}
	return f.alloc.States.Running(f.left(f.Activations(float64(tokens), float64(tokens)))), true
}

// Activations is the most that a step of fresh tokens, with the scores of logits positions, has alive at
// once: the residual stream and its normed copy, and either the widest block's
// intermediate values or the logits, which sampling wants in FP32.
func (f *Footprint) Activations(fresh, logits float64) unit.Bytes {
	values := f.Bytes(fresh * f.widest)
	scores := unit.FP32.Bytes(logits * float64(f.Model.Head.Out) / float64(f.Par.TP))
	return f.Bytes(2*fresh*float64(f.Model.Hidden)) + max(values, scores) + f.alloc.Copied
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
