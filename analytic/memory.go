package analytic

import (
	"math"

	"llmprof/unit"
)

// Memory is what one GPU has to hold, the fullest one of the pipeline.
type Memory struct {
	Weights     unit.Bytes
	KV          unit.Bytes // of the whole batch at its longest
	State       unit.Bytes // of scans and convolutions
	Activations unit.Bytes // at the peak of the prefill
	Reserve     unit.Bytes // CUDA context, communication buffers, the engine's own
	Total       unit.Bytes
	Capacity    unit.Bytes

	MaxBatch        int  // sequences of one replica that fit, prompt and answer
	MaxPrefillBatch int  // that fit while the prompt runs
	MaxDecodeBatch  int  // that fit while they decode
	MaxTokens       int  // tokens of context that the batch can have in all
	Unbounded       bool // there is no cache that grows: MaxTokens has no meaning
}

// Fits reports whether all of it fits.
func (m *Memory) Fits() bool { return m.Total <= m.Capacity }

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
	f := &p.footprint
	batch, fresh, logits := float64(w.Batch), float64(w.chunk()), 1.0
	if w.AllLogits {
		logits = fresh
	}
	kv, act := f.cached(float64(w.Context())), p.alive(fresh, logits)
	m.Weights, m.Reserve = f.fixed, f.reserve
	m.KV, m.State, m.Activations = kv.Times(batch), f.state.Times(batch), act.Times(batch)
	m.Total = m.Weights + m.KV + m.State + m.Activations + m.Reserve
	if p.machine == nil {
		return m
	}
	m.Capacity = p.machine.GPU.Memory

	left := m.Capacity - m.Weights - m.Reserve
	m.MaxBatch = howMany(left, kv+f.state+act)
	m.MaxPrefillBatch = howMany(left, f.cached(float64(w.Prompt))+f.state+act)
	m.MaxDecodeBatch = howMany(left, kv+f.state+p.alive(1, 1))
	m.Unbounded = f.cached(2*maxTokens) == f.cached(maxTokens)
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

// howMany of each fit into left, at most what an int32 counts.
func howMany(left, each unit.Bytes) int {
	if left <= 0 || each <= 0 {
		return 0
	}
	return int(min(math.Floor(float64(left)/float64(each)), math.MaxInt32))
}
