package analytic

import (
	"math"

	"llmprof/models"
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

// A footprint is what the memory of a rank is made of, the longest stage's share
// of the layers taken, before a workload is known.
type footprint struct {
	fixed   unit.Bytes // weights
	reserve unit.Bytes
	state   unit.Bytes // of one sequence
	token   unit.Bytes // of cache that a token adds, where every layer's grows alike
	uniform bool       // every layer's does
	grows   bool       // any layer's does
	share   float64    // of the layers
	widest  float64    // values of a token that a block has alive
}

// hold works out the footprint.
func (p *Predictor) hold() (f footprint) {
	st := p.template()
	f.share = p.par.stageShare(p.model.NumLayers())
	layers, embedding, head := st.weights(p.model)
	f.fixed = layers.Times(f.share) + embedding + head
	if p.par.PP > 1 {
		if p.model.TiedHead {
			head = embedding // the last stage has a copy of its own
		}
		f.fixed = layers.Times(f.share) + max(embedding, head)
	}
	f.reserve = contextBytes + p.machine.Engine.Reserve
	if p.machine.GPU.Integrated {
		f.reserve += sharedBytes
	}
	if max(p.par.TP*p.par.PP, p.par.EP) > 1 {
		f.reserve += ncclBytes
	}
	f.widest = st.widest(p.model)
	one, state := st.cache(p.model, 1)
	near, _ := st.cache(p.model, maxTokens/2)
	far, _ := st.cache(p.model, maxTokens)
	f.state, f.token = state.Times(f.share), one.Times(f.share)
	f.grows, f.uniform = far > near, far == one.Times(maxTokens)
	return f
}

// cached is what a sequence of context tokens takes of the cache.
func (p *Predictor) cached(st *Step, context float64) unit.Bytes {
	f := &p.footprint
	if f.uniform {
		return f.token.Times(context)
	}
	kv, _ := st.cache(p.model, context)
	return kv.Times(f.share)
}

// memory sums what a workload needs on one GPU.
func (p *Predictor) memory(st *Step, w *Workload) (m Memory) {
	f := &p.footprint
	batch, fresh, logits := float64(w.Batch), float64(w.chunk()), 1.0
	if w.AllLogits {
		logits = fresh
	}
	kv, act := p.cached(st, float64(w.context())), p.alive(st, fresh, logits)
	m.Weights, m.Reserve = f.fixed, f.reserve
	m.KV, m.State, m.Activations = kv.Times(batch), f.state.Times(batch), act.Times(batch)
	m.Total = m.Weights + m.KV + m.State + m.Activations + m.Reserve
	m.Capacity = p.machine.GPU.Memory

	left := m.Capacity - m.Weights - m.Reserve
	m.MaxBatch = howMany(left, kv+f.state+act)
	m.MaxPrefillBatch = howMany(left, p.cached(st, float64(w.Prompt))+f.state+act)
	m.MaxDecodeBatch = howMany(left, kv+f.state+p.alive(st, 1, 1))
	m.Unbounded = !f.grows
	if f.grows {
		m.MaxTokens = w.Batch * p.longest(st, (left-m.State-m.Activations).Times(1/batch))
	}
	return m
}

// alive is the most that one sequence of a step of fresh tokens has alive at
// once: the residual stream and its normed copy, and either the widest block's
// intermediate values or the logits, which sampling wants in FP32.
func (p *Predictor) alive(st *Step, fresh, logits float64) unit.Bytes {
	values := st.acts(fresh * p.footprint.widest)
	scores := unit.FP32.Bytes(logits * float64(p.model.Head.Out) / float64(p.par.TP))
	return st.acts(2*fresh*float64(p.model.Hidden)) + max(values, scores)
}

// howMany of each fit into left, at most what an int32 counts.
func howMany(left, each unit.Bytes) int {
	if left <= 0 || each <= 0 {
		return 0
	}
	return int(min(math.Floor(float64(left)/float64(each)), math.MaxInt32))
}

// longest is the longest context whose cache fits into left: by division where
// every layer's cache grows alike, else by bisection.
func (p *Predictor) longest(st *Step, left unit.Bytes) int {
	if p.footprint.uniform || left <= 0 {
		return howMany(left, p.footprint.token)
	}
	lo, hi := 0, maxTokens
	for hi-lo > 1 {
		mid := lo + (hi-lo)/2
		if p.cached(st, float64(mid)) <= left {
			lo = mid
		} else {
			hi = mid
		}
	}
	return lo
}

// weights is the memory of a rank: of the layers, the embedding and the head.
// Engines pad the vocabulary, so that any degree divides it.
func (s *Step) weights(m *models.Model) (layers, embedding, head unit.Bytes) {
	tp := float64(s.Par.TP)
	for i := range m.Layers {
		l := &m.Layers[i]
		var one unit.Bytes
		for j := range l.Blocks {
			one += s.blockWeights(&l.Blocks[j])
		}
		layers += one.Times(float64(l.Count))
	}
	e := &m.Embedding
	embedding = s.acts((float64(m.Vocab)*float64(e.Width)+float64(e.Extra))/tp + float64(e.Positions)*float64(m.Hidden))
	embedding += s.held(s.Plain, e.Project, 1) + s.normWeights(e.Norms)
	if !m.TiedHead {
		head = s.acts(float64(m.Head.In) * float64(m.Head.Out) / tp)
	}
	if m.Head.Bias {
		head += s.acts(float64(m.Head.Out) / tp)
	}
	return layers, embedding, head + s.normWeights(m.FinalNorms)
}

// blockWeights is what a rank holds of a block.
func (s *Step) blockWeights(b *models.Block) unit.Bytes {
	sum := s.held(s.Dense, b.In, s.Par.TP) + s.held(s.Dense, b.Out, s.Par.TP) + s.normWeights(b.Norms) + s.acts(float64(b.Extra))
	if a := b.Attention; a != nil && a.Latent != nil {
		l := &a.Latent.Expand
		n := float64(l.In) * float64(l.Out) / float64(max(parts(l, s.Par.TP), 1))
		sum += s.Dense.weightBytes(n, float64(l.Out)/float64(max(parts(l, s.Par.TP), 1)))
	}
	e := b.Experts
	if e == nil {
		return sum
	}
	each := s.held(s.Scheme, e.In, s.Par.expertTP()) + s.held(s.Scheme, e.Out, s.Par.expertTP())
	sum += each.Times(float64(e.Count)/float64(s.Par.EP)) + s.held(s.Plain, e.Router, s.Par.TP)
	if e.Shared != nil {
		sum += s.held(s.Scheme, e.Shared.In, s.Par.TP) + s.held(s.Scheme, e.Shared.Out, s.Par.TP)
	}
	return sum
}

// held is what a rank of tp holds of matrices.
func (s *Step) held(f *Scheme, ls []models.Linear, tp int) unit.Bytes {
	var sum unit.Bytes
	for i := range ls {
		sum += s.gemm(f, ls[i:i+1], 0, tp).Weights
	}
	return sum
}

func (s *Step) normWeights(norms []models.Norm) unit.Bytes {
	var n int64
	for i := range norms {
		n += norms[i].Params
	}
	return s.acts(float64(n))
}

// cache is what a rank keeps of one sequence of context tokens: keys and values,
// and the states that do not grow.
func (s *Step) cache(m *models.Model, context float64) (kv, state unit.Bytes) {
	for i := range m.Layers {
		l := &m.Layers[i]
		n := float64(l.Count)
		for j := range l.Blocks {
			if a := l.Blocks[j].Attention; a != nil && !a.Shared {
				kv += s.Scheme.KV.Bytes(s.cachedValues(a, context)).Times(n)
			}
			if c := l.Blocks[j].Scan; c != nil {
				state += s.scanState(c).Times(n)
			}
		}
	}
	return kv, state
}

// scanState is what a rank keeps of one sequence for a scan and its convolution.
func (s *Step) scanState(c *models.Scan) unit.Bytes {
	tp := float64(s.Par.TP)
	return s.stateFormat(c).Bytes(float64(c.StateElements())/tp) + s.acts(float64(c.ConvElements())/tp)
}

// cachedValues is how many values a rank keeps for one layer's attention.
func (s *Step) cachedValues(a *models.Attention, context float64) float64 {
	if a.Window > 0 {
		context = min(context, float64(a.Window))
	}
	perToken := s.localKV(a) * float64(a.KeyDim+a.ValueDim)
	if a.Latent != nil {
		perToken = float64(a.Latent.Rank + a.Latent.RopeDim)
	}
	if a.Indexer != nil {
		perToken += float64(a.Indexer.Dim)
	}
	return context * perToken
}

// widest is the most values of a token that any block has alive.
func (s *Step) widest(m *models.Model) (widest float64) {
	for i := range m.Layers {
		for j := range m.Layers[i].Blocks {
			widest = max(widest, s.blockWidth(&m.Layers[i].Blocks[j]))
		}
	}
	return widest
}

// blockWidth is how many values of a token a block has alive: the outputs of its
// products in, and the result that goes to its product out.
func (s *Step) blockWidth(b *models.Block) float64 {
	tp := float64(s.Par.TP)
	var w float64
	for i := range b.In {
		w += float64(b.In[i].Out) / float64(max(parts(&b.In[i], s.Par.TP), 1))
	}
	switch {
	case b.Attention != nil:
		w += float64(b.Attention.Heads*b.Attention.ValueDim) / tp
	case b.Scan != nil:
		w += float64(b.Scan.Heads*b.Scan.HeadDim) / tp
	}
	w += float64(b.Activation.Width) / tp
	if e := b.Experts; e != nil {
		taken := float64(e.TopK) * float64(s.Par.expertReplicas()) / float64(s.Par.EP) / float64(s.Par.expertTP())
		in := 1.0
		if e.Activation.Gated {
			in = 2
		}
		w += taken * ((in + 1) * float64(e.Activation.Width))
	}
	return w
}
