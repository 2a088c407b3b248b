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
	Rank
	Device DeviceMemory // memory of its GPU; zero where only what is stored is asked for

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
	if r.HostEmbedding && r.Model.TiedHead {
		head += embedding // the GPU has a copy as the LM head
	}
	if r.Offload != nil && r.Offload.Head {
		head = 0
	}
	if r.HostEmbedding {
		embedding = 0
	}
	ends := embedding + head
	if r.Par.PP > 1 {
		if r.Model.TiedHead && !r.HostEmbedding {
			head = embedding // the last stage has a copy of the tied embedding
		}
		ends = max(embedding, head)
	}
	f := Footprint{Rank: *r, weights: layers.Times(share) + ends + r.drafts(), layers: layers.Times(share), reserve: reserve,
		state: r.state().Times(share), caches: r.caches(share)}
	for _, b := range r.Model.Blocks() {
		f.widest = max(f.widest, r.blockWidth(b))
	}
	return f
}

// drafts is the memory of the model's own draft layers where they are loaded: engines leave them out unless they draft, and share the
// embedding and the head with them (load_weights of vLLM's models, set_embed_and_head of SGLang's speculative workers).
func (r *Rank) drafts() unit.Bytes {
	d := r.Draft()
	if d == nil {
		return 0
	}
	layers, _, _ := d.weights()
	return layers.Times(float64(r.Model.Drafts))
}

// Draft is the rank's part of one of the model's own draft layers; nil where they are not loaded.
func (r *Rank) Draft() *Rank {
	if !r.Settings.OwnDrafts {
		return nil
	}
	own := *r
	own.Offload = nil
	if own.Model = r.Model.DraftModule(); own.Model == nil {
		return nil
	}
	return &own
}

// Allocate makes the footprint that of an engine with an allocation of its own. Budget is the most tokens of its steps.
func (f *Footprint) Allocate(a *Allocation, budget float64) {
	f.alloc = *a
	f.weights += a.Loaded
	if a.Outside > 0 {
		f.reserve = a.Outside
	}
	f.reserve += a.Graphs
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

// SequenceBytes is the memory of a sequence of context tokens: its KV cache and its state. A cache with pages of one kind is counted
// without rounding, since a scheduler rounds to its own blocks.
func (f *Footprint) SequenceBytes(context float64) unit.Bytes {
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
		if a == nil || a.Shared || r.CachedOnHost(l) {
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
	if d := r.Draft(); d != nil {
		for _, p := range d.caches(1) {
			add(p.Limit, p.Each.Times(float64(r.Model.Drafts)))
		}
	}
	slices.SortFunc(all, func(a, b Pages) int { return cmp.Compare(a.Limit, b.Limit) })
	return all
}

// State is the memory of one sequence that does not grow with its context, in the layers of the fullest stage.
func (r *Rank) State() unit.Bytes { return r.state().Times(r.Par.StageShare(r.Model.NumLayers())) }

// state is the memory of one sequence on a rank that does not grow with its context.
func (r *Rank) state() (b unit.Bytes) {
	for l, block := range r.Model.Blocks() {
		if c := block.Scan; c != nil && !r.CachedOnHost(l) {
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
		w += taken * ((e.Activation.Inputs() + 1) * float64(e.Activation.Width))
		if r.Par.GathersTokens() { // the tokens of all replicas, and the experts' results for them
			w += 2 * float64(r.Par.ExpertReplicas()) * float64(r.Model.Hidden)
		}
	}
	return w
}

// An Allocation is how an engine shares out the memory of a GPU, as far as the matrices of the model do not say. The zero value stands for
// an engine whose cache is a number of bytes a token, and whose activations are those of the workload.
type Allocation struct {
	Loaded    unit.Bytes // weights beside the matrices: encoders, tables of rotary positions, second copies
	Outside   unit.Bytes // memory outside of the framework's allocator; 0 for the reserve that the footprint has
	Graphs    unit.Bytes // CUDA graphs, where the engine captures them
	Copied    unit.Bytes // a matrix that is copied from host memory, beside activations
	Sequences int        // most sequences that the engine profiles a step for; 0 where it profiles none
	Slots     int        // most sequences that the engine runs at once; 0 for no limit of its own
	Whole     int        // tokens that a step has room for at least, of an engine that does not cut prompts; 0 where it cuts them

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

// lacks is the memory without which the pool has no slots for so many requests at once; 0 where it has them.
func (s *StatePool) lacks(left unit.Bytes, requests int) unit.Bytes {
	if requests <= s.Running(left) {
		return 0
	}
	slots := math.Ceil(float64(requests)*s.PerRequest) + 1
	return s.Slot.Times(slots/s.Share) - left
}

// cache is what remains for the KV cache beside the pool.
func (s *StatePool) cache(left unit.Bytes) unit.Bytes {
	if s == nil {
		return left
	}
	return left - s.Slot.Times(s.slots(left)+1)
}
