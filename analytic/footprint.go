package analytic

import (
	"cmp"
	"math"
	"slices"

	"llmprof/models"
	"llmprof/unit"
)

// A footprint is what the memory of a rank is made of, the longest stage's share
// of the layers taken, before a workload is known.
type footprint struct {
	fixed   unit.Bytes // weights
	reserve unit.Bytes
	state   unit.Bytes // of one sequence
	caches  []cache    // of one sequence, the shortest window first
	widest  float64    // values of a token that a block has alive
}

// A cache is what the layers of one window keep of one sequence: each bytes of
// every token of the context, at most window of them.
type cache struct {
	window float64 // +Inf for the whole context
	each   unit.Bytes
}

// memoryOf works out the footprint.
func (p *Predictor) memoryOf() (f footprint) {
	st := p.template()
	share := p.par.stageShare(p.model.NumLayers())
	layers, embedding, head := st.weights(p.model)
	f.fixed = layers.Times(share) + embedding + head
	if p.par.PP > 1 {
		if p.model.TiedHead {
			head = embedding // the last stage has a copy of its own
		}
		f.fixed = layers.Times(share) + max(embedding, head)
	}
	if p.machine != nil {
		f.reserve = p.reserve()
	}
	f.widest = st.widest(p.model)
	f.state = st.state(p.model).Times(share)
	f.caches = st.caches(p.model, share)
	return f
}

// reserve is what CUDA, the system, NCCL and the engine keep for themselves.
func (p *Predictor) reserve() unit.Bytes {
	r := contextBytes + p.machine.Engine.Profile().Reserve
	if p.machine.GPU.Integrated {
		r += sharedBytes
	}
	if max(p.par.TP*p.par.PP, p.par.EP) > 1 {
		r += ncclBytes
	}
	return r
}

// cached is what a sequence of context tokens takes of the cache.
func (f *footprint) cached(context float64) (b unit.Bytes) {
	for _, c := range f.caches {
		b += c.each.Times(min(context, c.window))
	}
	return b
}

// longest is the longest context whose cache fits into left. It grows by what all
// caches take of a token until the shortest window is full, then by what the
// others take.
func (f *footprint) longest(left unit.Bytes) int {
	var slope unit.Bytes
	for _, c := range f.caches {
		slope += c.each
	}
	context := 0.0
	for _, c := range f.caches {
		if left < slope.Times(c.window-context) {
			break
		}
		left -= slope.Times(c.window - context)
		context = c.window
		slope -= c.each
	}
	return int(context) + howMany(left, slope, 0, 0)
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
	embedding = s.Bytes((float64(m.Vocab)*float64(e.Width)+float64(e.Extra))/tp + float64(e.Positions)*float64(m.Hidden))
	embedding += s.matrices(s.Plain, e.Project, 1) + s.normWeights(e.Norms)
	if !m.TiedHead {
		head = s.Bytes(float64(m.Head.In) * float64(m.Head.Out) / tp)
	}
	if m.Head.Bias {
		head += s.Bytes(float64(m.Head.Out) / tp)
	}
	return layers, embedding, head + s.normWeights(m.FinalNorms)
}

// blockWeights is what a rank holds of a block.
func (s *Step) blockWeights(b *models.Block) unit.Bytes {
	if b.Reused {
		return 0
	}
	sum := s.matrices(s.Dense, b.In, s.Par.TP) + s.matrices(s.Dense, b.Out, s.Par.TP) + s.normWeights(b.Norms) + s.Bytes(float64(b.Extra))
	if a := b.Attention; a != nil && a.Latent != nil {
		l := &a.Latent.Expand
		cut := float64(max(l.Parts(s.Par.TP), 1))
		sum += s.Dense.WeightBytes(float64(l.In)*float64(l.Out)/cut, float64(l.Out)/cut)
	}
	e := b.Experts
	if e == nil {
		return sum
	}
	each := s.matrices(s.Scheme, e.In, s.Par.expertTP()) + s.matrices(s.Scheme, e.Out, s.Par.expertTP())
	sum += each.Times(float64(e.Count)/float64(s.Par.EP)) + s.matrices(s.Plain, e.Router, s.Par.TP)
	if e.Shared != nil {
		sum += s.matrices(s.Scheme, e.Shared.In, s.Par.TP) + s.matrices(s.Scheme, e.Shared.Out, s.Par.TP)
	}
	return sum
}

// matrices is the memory of matrices on a rank of tp.
func (s *Step) matrices(f *models.Scheme, ls []models.Linear, tp int) unit.Bytes {
	var sum unit.Bytes
	for i := range ls {
		sum += s.weightsOf(f, &ls[i], tp)
	}
	return sum
}

func (s *Step) normWeights(norms []models.Norm) unit.Bytes {
	var n int64
	for i := range norms {
		n += norms[i].Params
	}
	return s.Bytes(float64(n))
}

// caches is what a rank keeps of one sequence in share of the layers, by window.
func (s *Step) caches(m *models.Model, share float64) (all []cache) {
	for i := range m.Layers {
		l := &m.Layers[i]
		for j := range l.Blocks {
			a := l.Blocks[j].Attention
			if a == nil || a.Shared {
				continue
			}
			window := math.Inf(1)
			if a.Window > 0 {
				window = float64(a.Window)
			}
			each := s.Scheme.KV.Bytes(s.cachedValues(a)).Times(float64(l.Count) * share)
			k := slices.IndexFunc(all, func(c cache) bool { return c.window == window })
			if k < 0 {
				k = len(all)
				all = append(all, cache{window: window})
			}
			all[k].each += each
		}
	}
	slices.SortFunc(all, func(a, b cache) int { return cmp.Compare(a.window, b.window) })
	return all
}

// state is what a rank keeps of one sequence that does not grow.
func (s *Step) state(m *models.Model) (b unit.Bytes) {
	for i := range m.Layers {
		l := &m.Layers[i]
		for j := range l.Blocks {
			if c := l.Blocks[j].Scan; c != nil {
				b += s.scanState(c).Times(float64(l.Count))
			}
		}
	}
	return b
}

// scanState is what a rank keeps of one sequence for a scan and its convolution.
func (s *Step) scanState(c *models.Scan) unit.Bytes {
	tp := float64(s.Par.TP)
	return s.stateFormat(c).Bytes(float64(c.StateElements())/tp) + s.Bytes(float64(c.ConvElements())/tp)
}

// cachedValues is how many values of a token a rank keeps for one attention.
func (s *Step) cachedValues(a *models.Attention) float64 {
	n := s.LocalKV(a) * float64(a.KeyDim+a.ValueDim)
	if a.Latent != nil {
		n = float64(a.Latent.Rank + a.Latent.RopeDim)
	}
	if a.Indexer != nil {
		n += float64(a.Indexer.Dim)
	}
	return n
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
		w += float64(b.In[i].Out) / float64(max(b.In[i].Parts(s.Par.TP), 1))
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

// weightsOf is the memory of a matrix on a rank of tp, its bias and scales included.
func (s *Step) weightsOf(f *models.Scheme, l *models.Linear, tp int) unit.Bytes {
	ls := [1]models.Linear{*l}
	o := s.gemm(Product, f, ls[:], 0, tp)
	return o.Work.Weights
}
