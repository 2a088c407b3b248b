package analytic

import (
	"math"

	"llmprof/unit"
	"llmprof/workload"
)

// Memory is what one GPU has to hold, the fullest one of the pipeline.
type Memory struct {
	Weights     unit.Bytes
	KV          unit.Bytes // of the whole batch at its longest
	State       unit.Bytes // of scans and convolutions
	Activations unit.Bytes // at the peak of the prefill
	Reserve     unit.Bytes // CUDA context, communication buffers, the engine's own
	Total       unit.Bytes
	Capacity    unit.Bytes // of the GPU
	Usable      unit.Bytes // of it, what the engine takes

	MaxBatch        int  // sequences of one replica that fit, prompt and answer
	MaxPrefillBatch int  // that fit while the prompt runs
	MaxDecodeBatch  int  // that fit while they decode
	MaxTokens       int  // tokens of context that the batch can have in all
	Unbounded       bool // there is no cache that grows: MaxTokens has no meaning
}

// Fits reports whether all of it fits.
func (m *Memory) Fits() bool { return m.Total <= m.Usable }

// contextBytes is what CUDA keeps for itself on a GPU once a program has loaded
// its kernels; 0.3 to 0.5 GB is usual.
const contextBytes = unit.Bytes(0.5e9)

// sharedBytes is what the system and its desktop keep of a memory that the CPU
// shares: NVIDIA gives 5.2 of the 8 GB of an Orin Nano as usable for models.
const sharedBytes = unit.Bytes(2.3e9)

// ncclBytes is what NCCL's buffers take on each GPU of a group; aiconfigurator's
// system tables (Apache-2.0) have 342 to 392 MB.
const ncclBytes = unit.Bytes(0.39e9)

// memory sums what a workload needs on one GPU.
func (p *Predictor) memory(w *Workload) (m Memory) {
	f, batch, logits := &p.footprint, float64(w.Batch), 1.0
	most, tokens := w.Step(p.budget())
	if w.AllLogits {
		logits = tokens
	}
	kv, act := f.cached(float64(w.Context())), p.alive(tokens, logits)
	m.Weights, m.Reserve = f.fixed, f.reserve
	m.KV, m.State, m.Activations = kv.Times(batch), f.state.Times(batch), max(act.Times(min(batch, most)), p.alive(1, 1).Times(batch))
	m.Total = m.Weights + m.KV + m.State + m.Activations + m.Reserve
	if p.machine == nil {
		return m
	}
	m.Capacity = p.machine.GPU.Capacity()
	m.Usable = m.Capacity.Times(p.machine.Utilization)

	left := m.Usable - m.Weights - m.Reserve
	m.MaxPrefillBatch = howMany(left, f.cached(float64(w.Prompt))+f.state, act, most)
	m.MaxDecodeBatch = howMany(left, kv+f.state+p.alive(1, 1), 0, 0)
	m.MaxBatch = min(howMany(left, kv+f.state, act, most), m.MaxDecodeBatch)
	m.Unbounded = f.cached(2*workload.MaxTokens) == f.cached(workload.MaxTokens)
	if !m.Unbounded {
		m.MaxTokens = w.Batch * f.longest((left - m.State - m.Activations).Times(1/batch))
	}
	return m
}

// alive is the most that one sequence of a step of fresh tokens has alive at
// once: the residual stream and its normed copy, and either the widest block's
// intermediate values or the logits, which sampling wants in FP32.
func (p *Predictor) alive(fresh, logits float64) unit.Bytes {
	st := p.template()
	values := st.Bytes(fresh * p.footprint.widest)
	scores := unit.FP32.Bytes(logits * float64(p.model.Head.Out) / float64(p.par.TP))
	return st.Bytes(2*fresh*float64(p.model.Hidden)) + max(values, scores)
}

// howMany sequences fit into left, at most what an int32 counts: each takes some bytes,
// and those of them that a step takes together, at most so many, further bytes.
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
