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

// ncclBytes is what NCCL's buffers take on each GPU of a group; aiconfigurator's
// system tables (Apache-2.0) have 342 to 392 MB.
const ncclBytes = unit.Bytes(0.39e9)

// memory sums what the case needs on one GPU.
func (c *Case) memory(st *Step) (m Memory) {
	layers := c.Model.NumLayers()
	share := st.Par.stageShare(layers)
	weights, embedding, head := st.weights(c.Model)
	m.Weights = weights.Times(share) + embedding + head
	if st.Par.PP > 1 {
		if c.Model.TiedHead {
			head = embedding // the last stage has a copy of its own
		}
		m.Weights = weights.Times(share) + max(embedding, head)
	}
	batch := float64(c.Workload.Batch)
	kv, state := st.cache(c.Model, float64(c.Workload.context()))
	kv, state = kv.Times(share), state.Times(share)
	act := c.activations(st)
	m.KV, m.State, m.Activations = kv.Times(batch), state.Times(batch), act.Times(batch)
	m.Reserve = contextBytes + c.Machine.Engine.Reserve
	if st.Par.GPUs() > 1 {
		m.Reserve += ncclBytes
	}
	m.Total = m.Weights + m.KV + m.State + m.Activations + m.Reserve
	m.Capacity = c.Machine.GPU.Memory

	left := m.Capacity - m.Weights - m.Reserve
	m.MaxBatch = howMany(left, kv+state+act)
	prompt, promptState := st.cache(c.Model, float64(c.Workload.Prompt))
	m.MaxPrefillBatch = howMany(left, (prompt+promptState).Times(share)+act)
	one := *st
	one.New = 1
	m.MaxDecodeBatch = howMany(left, kv+state+one.activationPeak(c.Model, 1))
	c.maxTokens(st, &m, (left - m.State - m.Activations).Times(1/batch/share))
	return m
}

// howMany of each fit into left, at most what an int32 counts.
func howMany(left, each unit.Bytes) int {
	if left <= 0 || each <= 0 {
		return 0
	}
	return int(min(math.Floor(float64(left)/float64(each)), math.MaxInt32))
}

// maxTokens finds the longest context whose cache fits into left a sequence:
// by division where every layer's cache grows alike, else by bisection.
func (c *Case) maxTokens(st *Step, m *Memory, left unit.Bytes) {
	one, _ := st.cache(c.Model, 1)
	far, _ := st.cache(c.Model, maxTokens)
	near, _ := st.cache(c.Model, maxTokens/2)
	switch {
	case far == near: // windows alone, or no cache at all
		m.Unbounded = true
		return
	case left <= 0:
		return
	case float64(far) == float64(one)*maxTokens:
		m.MaxTokens = howMany(left, one) * c.Workload.Batch
		return
	}
	lo, hi := 0, maxTokens
	for hi-lo > 1 {
		mid := lo + (hi-lo)/2
		if kv, _ := st.cache(c.Model, float64(mid)); kv <= left {
			lo = mid
		} else {
			hi = mid
		}
	}
	m.MaxTokens = lo * c.Workload.Batch
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

// activations is the peak of one sequence in the prefill.
func (c *Case) activations(st *Step) unit.Bytes {
	step := *st
	step.New = float64(c.Workload.chunk())
	logits := 1.0
	if c.Workload.AllLogits {
		logits = step.New
	}
	return step.activationPeak(c.Model, logits)
}

// activationPeak is the most that one sequence has alive at once: the residual
// stream and its normed copy, and either the widest block's intermediate values
// or the logits, which sampling wants in FP32.
func (s *Step) activationPeak(m *models.Model, logits float64) unit.Bytes {
	var widest float64
	for i := range m.Layers {
		for j := range m.Layers[i].Blocks {
			widest = max(widest, s.blockWidth(&m.Layers[i].Blocks[j]))
		}
	}
	values := s.acts(s.New * widest)
	scores := unit.FP32.Bytes(logits * float64(m.Head.Out) / float64(s.Par.TP))
	return s.acts(2*s.New*float64(m.Hidden)) + max(values, scores)
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
