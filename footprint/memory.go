package footprint

import (
	"math"

	"llmprof/parallel"
	"llmprof/unit"
	"llmprof/workload"
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
}

// Fits reports whether the memory of the GPU suffices.
func (m *Memory) Fits() bool { return m.Total <= m.Usable }

// Room is the memory of a GPU, and the share of it that the engine takes.
type Room struct {
	Capacity unit.Bytes
	Share    float64
	Static   bool // The share is of weights and caches alone, and activations lie beside it.
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
func (f *Footprint) Memory(w *workload.Workload, budget int, room Room) (m Memory) {
	batch, logits := float64(w.Batch), 1.0
	most, tokens := w.Step(budget)
	if w.AllLogits {
		logits = tokens
	}
	kv, act := f.Cached(float64(w.Context())), f.Activations(tokens, logits)
	m.Weights, m.Reserve = f.weights, f.reserve
	m.KV, m.State, m.Activations = kv.Times(batch), f.state.Times(batch), max(act.Times(min(batch, most)), f.Activations(1, 1).Times(batch))
	m.Total = m.Weights + m.KV + m.State + m.Activations + m.Reserve
	if room.Capacity == 0 {
		return m
	}
	beside := room.beside(m.Reserve, m.Activations)
	m.Capacity, m.Usable, m.Share = room.Capacity, room.usable()+beside, room.Share
	left, held, stepped, decoded := m.Usable-m.Weights-m.Reserve, m.Activations, act, f.Activations(1, 1)
	if room.Static { // activations take nothing of what a larger batch would have for its caches
		left, held, stepped, decoded = left-held, 0, 0, 0
	}
	m.MaxPrefillBatch = howMany(left, f.Cached(float64(w.PromptLen))+f.state, stepped, most)
	m.MaxDecodeBatch = howMany(left, kv+f.state+decoded, 0, 0)
	m.MaxBatch = min(howMany(left, kv+f.state, stepped, most), m.MaxDecodeBatch)
	m.Unbounded = f.Cached(2*workload.MaxTokens) == f.Cached(workload.MaxTokens)
	if !m.Unbounded {
		m.MaxTokens = w.Batch * f.Longest((left - m.State - held).Times(1/batch))
	}
	return m
}

// ForCache is the part of the room that remains for the KV cache and the state of sequences, where
// a step has up to the given number of tokens and of sequences.
func (f *Footprint) ForCache(room Room, tokens, sequences int) unit.Bytes {
	activations := f.Activations(float64(tokens), float64(sequences))
	return room.usable() + room.beside(f.reserve, activations) - f.weights - f.reserve - activations
}

// Activations is the most that one sequence of a step of fresh tokens has alive at
// once: the residual stream and its normed copy, and either the widest block's
// intermediate values or the logits, which sampling wants in FP32.
func (f *Footprint) Activations(fresh, logits float64) unit.Bytes {
	r := &f.rank
	values := r.Bytes(fresh * f.widest)
	scores := unit.FP32.Bytes(logits * float64(r.Model.Head.Out) / float64(r.Par.TP))
	return r.Bytes(2*fresh*float64(r.Model.Hidden)) + max(values, scores)
}

// howMany is the number of sequences that fit into left, at most what an int32 counts. Each takes
// some bytes, and each of those that a step takes together takes further bytes.
func howMany(left, each, stepped unit.Bytes, most float64) int {
	if left <= 0 || each+stepped <= 0 {
		return 0
	}
	n := math.Floor(float64(left) / float64(each+stepped))
	if n > most && stepped > 0 {
		n = max(most, math.Floor(float64(left-stepped.Times(most))/float64(each)))
	}
	return int(min(n, math.MaxInt32))
}

// contextBytes is the memory of the CUDA context once a program has loaded its kernels; 0.3
// to 0.5 GB is usual.
const contextBytes = unit.Bytes(0.5e9)

// ncclBytes is the memory of NCCL's buffers on each GPU of a group; aiconfigurator's
// system tables (Apache-2.0) have 342 to 392 MB.
const ncclBytes = unit.Bytes(0.39e9)

// Reserve is the memory that CUDA, NCCL, the system and the engine reserve on a GPU.
func Reserve(p *parallel.Parallelism, system, engine unit.Bytes) unit.Bytes {
	r := contextBytes + engine + system
	if max(p.TP*p.PP, p.ExpertRanks()) > 1 {
		r += ncclBytes
	}
	return r
}
