package operator

import (
	"slices"

	"llmprof/models"
	"llmprof/unit"
)

// A Residence is which matrices of a layer lie in the memory of the host.
type Residence uint8

// The parts of a layer that may lie there.
const (
	ExpertsIn   Residence = 1 << iota // gate and up of the experts that a router chooses
	ExpertsOut                        // down of them
	FeedForward                       // a dense feed-forward
	Rest                              // attention, norms, routers and shared experts, with the KV cache

	Experts    = ExpertsIn | ExpertsOut
	WholeLayer = Experts | FeedForward | Rest
)

// An Offload is what of a model lies in the memory of the host.
type Offload struct {
	Kinds           []Residence // Kinds say what stays of the layers of each kind.
	Head            bool        // The LM head does.
	Cache           bool        // The KV cache of all layers does.
	Pageable        bool        // The weights are in memory that is not pinned, as the pages of a file are.
	Stays           bool        // No weights are copied to the GPU for steps of many tokens.
	PopularityKnown bool        // The case says how experts are chosen.
	Read            bool        // The GPU reads matrices where they lie, for every step, and has the work and the caches of their layers.
}

// Place divides the kinds of a model's layers by where their matrices lie, which of tells of each layer from the first to the last.
func Place(m *models.Model, of func(layer int) Residence) (*models.Model, *Offload) {
	type key struct {
		kind int
		at   Residence
	}
	placed, off := *m, &Offload{}
	placed.Layers, placed.Order = nil, make([]int, len(m.Order))
	known := map[key]int{}
	for i, kind := range m.Order {
		k := key{kind, of(i)}
		if _, ok := known[k]; !ok {
			known[k] = len(placed.Layers)
			l := m.Layers[kind]
			l.Count = 0
			placed.Layers, off.Kinds = append(placed.Layers, l), append(off.Kinds, k.at)
		}
		placed.Order[i] = known[k]
		placed.Layers[known[k]].Count++
	}
	for i := range placed.Layers {
		name, alone := residences[off.Kinds[i]]
		if !alone {
			name = "in part on the host"
		}
		if name != "" {
			placed.Layers[i].Name += ", " + name
		}
	}
	return &placed, off
}

// residences say where the matrices of a layer lie.
var residences = map[Residence]string{
	0: "", WholeLayer: "on the host", Experts: "experts on the host", ExpertsIn: "gate and up of experts on the host",
	ExpertsOut: "down of experts on the host",
}

// residence is where the matrices of the layers of a kind lie.
func (r *Rank) residence(l *models.Layer) Residence {
	if r.Offload == nil {
		return 0
	}
	i := slices.IndexFunc(r.Model.Layers, func(k models.Layer) bool { return k.Name == l.Name && &k.Blocks[0] == &l.Blocks[0] })
	if i < 0 {
		return 0
	}
	return r.Offload.Kinds[i]
}

// HostLayers is the number of layers that lie whole in the memory of the host.
func (r *Rank) HostLayers() (n int) {
	for i := range r.Model.Layers {
		if l := &r.Model.Layers[i]; r.residence(l) == WholeLayer {
			n += l.Count
		}
	}
	return n
}

// hosted reports whether an operator has its matrices, or its cache, in the memory of the host. A layer's first product of experts is
// that of gate and up.
func (s *Step) hosted(o *Op, at Residence, first bool) bool {
	switch {
	case s.Offload != nil && s.Offload.Read:
		return at == WholeLayer && o.Type.Kind() == GEMM
	case at == WholeLayer, s.Offload != nil && s.Offload.Cache && (o.Type == Attend || o.Type == CacheWrite):
		return true
	case o.Type == ExpertProduct && first:
		return at&ExpertsIn != 0
	case o.Type == ExpertProduct:
		return at&ExpertsOut != 0
	case o.Type == ExpertNonLinear:
		return at&Experts == Experts
	case o.Block.Attention == nil && o.Block.Scan == nil && o.Block.Experts == nil && o.Type != Norm:
		return at&FeedForward != 0
	}
	return false
}

// setHosted marks the operators of a layer that lie in the memory of the host.
func (s *Step) setHosted(ops []Op, l *models.Layer) {
	if s.Offload == nil {
		return
	}
	at, first := s.residence(l), true
	for i := range ops {
		o := &ops[i]
		o.Host = s.hosted(o, at, first)
		first = first && o.Type != ExpertProduct
	}
}

// A lot is matrices of a block that lie together in one memory.
type lot struct {
	part   Residence // where they lie on the host
	scheme *models.Scheme
	list   []models.Linear
	tp     int
	count  float64 // how many times the rank has them
}

// lots are the matrices of a block that may lie in the memory of the host without all others of their layer: experts, else all of it.
func (r *Rank) lots(b *models.Block) [2]lot {
	if e := b.Experts; e != nil {
		n, tp := float64(e.Count)/float64(r.Par.EP), r.Par.ExpertTP()
		return [2]lot{{ExpertsIn, r.Scheme, e.In, tp, n}, {ExpertsOut, r.Scheme, e.Out, tp, n}}
	}
	part := FeedForward
	if b.Attention != nil || b.Scan != nil {
		part = WholeLayer
	}
	return [2]lot{{part, r.Dense, b.In, r.Par.TP, 1}, {part, r.Dense, b.Out, r.Par.TP, 1}}
}

// hostWeights is the memory of a block's matrices that lie on the host.
func (r *Rank) hostWeights(b *models.Block, at Residence) (sum unit.Bytes) {
	if at == WholeLayer {
		return r.blockWeights(b)
	}
	for _, l := range r.lots(b) {
		if at&l.part == l.part {
			sum += r.matrices(l.scheme, l.list, l.tp).Times(l.count)
		}
	}
	return sum
}

// LargestOnHost is the largest matrix in host memory that is copied to the GPU for steps of many tokens; the experts of a layer have one.
func (r *Rank) LargestOnHost() (most unit.Bytes) {
	if r.Offload == nil || r.Offload.Stays || r.Offload.Read {
		return 0
	}
	for layer, b := range r.Model.Blocks() {
		at := r.residence(layer)
		for _, l := range r.lots(b) {
			for i := range l.list {
				if at&l.part == l.part {
					most = max(most, l.scheme.ShareBytes(r.Model, &l.list[i], l.tp).Times(l.count))
				}
			}
		}
	}
	return most
}

// CachedOnHost reports whether the KV cache and the states of the layers of a kind lie on the host.
func (r *Rank) CachedOnHost(l *models.Layer) bool {
	return r.Offload != nil && (r.Offload.Cache || r.residence(l) == WholeLayer && !r.Offload.Read)
}

// onHost is what of the weights, and of a sequence of context tokens, lies in the memory of the host, which the ranks of TP share.
func (r *Rank) onHost(context float64) (weights, cache unit.Bytes) {
	if r.HostEmbedding {
		_, weights, _ = r.weights()
	}
	if r.Offload == nil {
		return weights, 0
	}
	for l, b := range r.Model.Blocks() {
		n := float64(l.Count)
		if weights += r.hostWeights(b, r.residence(l)).Times(n); !r.CachedOnHost(l) {
			continue
		}
		if a := b.Attention; a != nil && !a.Shared {
			kept := context
			if a.Window > 0 {
				kept = min(kept, float64(a.Window))
			}
			each, far := a.CachedBytes(r.Scheme.KV, r.LocalKV(a))
			cache += (each.Times(kept) + far.Times(context)).Times(n)
		}
		if b.Scan != nil {
			cache += r.ScanState(b.Scan).Times(n)
		}
	}
	if r.Offload.Head {
		_, embedding, head := r.weights()
		if r.Model.TiedHead {
			head = embedding
		}
		weights += head
	}
	return weights.Times(float64(r.Par.TP)), cache.Times(float64(r.Par.TP))
}
