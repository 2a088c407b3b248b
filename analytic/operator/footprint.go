package operator

import (
	"cmp"
	"math"
	"slices"

	"llmprof/models"
	"llmprof/unit"
)

// A Footprint is the memory of a rank, as far as it is known without a workload. The rank is of the
// pipeline stage with the most layers.
type Footprint struct {
	rank    Rank
	weights unit.Bytes
	layers  unit.Bytes // weights of the layers
	reserve unit.Bytes
	state   unit.Bytes // state of one sequence
	caches  []Pages    // KV caches of one sequence, the shortest window first
	widest  float64    // most values of a token that a block has alive
	alloc   Allocation // how the engine shares out the memory
}

// NewFootprint is the footprint of a rank on a GPU with a reserve of memory.
func NewFootprint(r *Rank, reserve unit.Bytes) Footprint {
	share := r.Par.StageShare(r.Model.NumLayers())
	layers, embedding, head := r.weights()
	ends := embedding + head
	if r.Par.PP > 1 {
		if r.Model.TiedHead {
			head = embedding // the last stage has a copy of the tied embedding
		}
		ends = max(embedding, head)
	}
	f := Footprint{rank: *r, weights: layers.Times(share) + ends, layers: layers.Times(share), reserve: reserve, state: r.state().Times(share),
		caches: r.caches(share)}
	for _, b := range r.Model.Blocks() {
		f.widest = max(f.widest, r.blockWidth(b))
	}
	return f
}

// Allocate makes the footprint that of an engine with an allocation of its own. Budget is the most tokens of its steps.
func (f *Footprint) Allocate(a *Allocation, budget float64) {
	f.alloc = *a
	f.weights += a.Loaded
	if a.Outside > 0 {
		f.reserve = a.Outside
	}
	if a.States != nil {
		f.state = 0
	}
	if a.Caches == nil {
		return
	}
	f.caches, f.state = nil, 0
	for _, c := range a.Caches(budget) {
		if c.State {
			f.state += c.of(0)
			continue
		}
		f.caches = append(f.caches, c)
	}
}

// Weights is the memory of all weights, and of those of the layers.
func (f *Footprint) Weights() (all, layers unit.Bytes) { return f.weights, f.layers }

// Sequence is the memory of a sequence of context tokens: its KV cache and its state. A cache with pages of one kind is counted without
// rounding, since a scheduler rounds to its own blocks.
func (f *Footprint) Sequence(context float64) unit.Bytes {
	if len(f.caches) == 1 && math.IsInf(f.caches[0].Limit, 1) && f.state == 0 {
		return f.caches[0].Each.Times(context / f.caches[0].Tokens)
	}
	return f.Cached(context) + f.state
}

// Cached is the KV cache of a sequence of context tokens.
func (f *Footprint) Cached(context float64) (b unit.Bytes) {
	for i := range f.caches {
		b += f.caches[i].of(context)
	}
	return b
}

// caches are the KV caches of one sequence in a share of the layers, by window.
func (r *Rank) caches(share float64) (all []Pages) {
	add := func(window float64, each unit.Bytes) {
		i := slices.IndexFunc(all, func(p Pages) bool { return p.Limit == window })
		if i < 0 {
			i, all = len(all), append(all, Pages{Limit: window, Tokens: 1})
		}
		all[i].Each += each
	}
	for l, b := range r.Model.Blocks() {
		a := b.Attention
		if a == nil || a.Shared {
			continue
		}
		window, layers := math.Inf(1), float64(l.Count)*share
		if a.Window > 0 {
			window = float64(a.Window)
		}
		each, far := a.CachedBytes(r.Scheme.KV, r.LocalKV(a))
		if far > 0 {
			add(math.Inf(1), far.Times(layers))
		}
		add(window, each.Times(layers))
	}
	slices.SortFunc(all, func(a, b Pages) int { return cmp.Compare(a.Limit, b.Limit) })
	return all
}

// State is the memory of one sequence that does not grow with its context, in the layers of the fullest stage.
func (r *Rank) State() unit.Bytes { return r.state().Times(r.Par.StageShare(r.Model.NumLayers())) }

// state is the memory of one sequence on a rank that does not grow with its context.
func (r *Rank) state() (b unit.Bytes) {
	for l, block := range r.Model.Blocks() {
		if c := block.Scan; c != nil {
			b += r.ScanState(c).Times(float64(l.Count))
		}
	}
	return b
}

// blockWidth is the number of values of a token that a block has alive: the outputs of the GEMMs
// into the block, and the input of the GEMM out of it.
func (r *Rank) blockWidth(b *models.Block) float64 {
	tp := float64(r.Par.TP)
	var w float64
	for i := range b.In {
		w += float64(b.In[i].Out) / float64(max(b.In[i].Parts(r.Par.TP), 1))
	}
	switch {
	case b.Attention != nil:
		w += float64(b.Attention.Heads*b.Attention.ValueDim) / tp
	case b.Scan != nil:
		w += float64(b.Scan.Heads*b.Scan.HeadDim) / tp
	}
	w += float64(b.Activation.Width) / tp
	if e := b.Experts; e != nil {
		taken := float64(e.TopK) * float64(r.Par.ExpertReplicas()) / float64(r.Par.EP) / float64(r.Par.ExpertTP())
		in := 1.0
		if e.Activation.Gated {
			in = 2
		}
		w += taken * ((in + 1) * float64(e.Activation.Width))
		if r.Par.GathersTokens() { // the tokens of all replicas, and the experts' results for them
			w += 2 * float64(r.Par.ExpertReplicas()) * float64(r.Model.Hidden)
		}
	}
	return w
}
