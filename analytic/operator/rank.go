package operator

import (
	"cmp"
	"math"
	"slices"

	"llmprof/models"
	"llmprof/unit"
)

// A Rank is one GPU of a tensor-parallel group: its part of a model, the number formats of the part, and how the routers of its
// mixtures choose experts. Steps are built from it.
type Rank struct {
	Model    *models.Model
	Par      *Parallelism   // split, every degree at least 1
	Scheme   *models.Scheme // formats of the experts' matrices
	Dense    *models.Scheme // formats of the other matrices of the blocks
	Plain    *models.Scheme // formats of matrices that are never quantized, as routers
	Padding  Padding
	Settings Settings
	routings []Routing // nil where all experts are chosen equally often

	Offload       *Offload // what lies in the memory of the host; nil for nothing
	HostEmbedding bool     // The table of the input embedding does too.

	Encoders []Encoder // encoders that run for each request; nil where requests are text

	Early int // prompts of a batch that the engine begins with before the others arrive; 0 where it waits for all
}

// Settings are what a server is started with besides its split and its formats, as far as its memory depends on it.
type Settings struct {
	Sequences     int  // most sequences that run at once; 0 for the engine's default
	NoPrefixCache bool // prefix caching is off
	PrefixCache   bool // prefix caching is on where the engine leaves it off by default
	Drafts        int  // tokens that are drafted and verified with each token
	OwnDrafts     bool // The model's own draft (MTP) layers draft them, so that they are loaded.
	Longest       int  // longest request that it takes; 0 for the model's longest
}

// A Padding is the multiples to which an engine pads the hidden size and the width of experts; 0 where it pads nothing.
type Padding struct{ Hidden, Width float64 }

// Pads is by how much the matrices of an expert grow.
func (g *Padding) Pads(hidden, width float64) float64 {
	return rounded(hidden, g.Hidden) * rounded(width, g.Width)
}

// rounded is by how much a size grows that is rounded up to a multiple.
func rounded(size, multiple float64) float64 {
	if size == 0 || multiple == 0 {
		return 1
	}
	return math.Ceil(size/multiple) * multiple / size
}

// NewRank is a rank of a model with a split p, a quantization s and a popularity e of its experts; nil if all experts are chosen
// equally often. A KV cache without a format has the format of the residual stream.
func NewRank(m *models.Model, p Parallelism, s models.Scheme, e *Popularity) Rank {
	all := &struct {
		par                  Parallelism
		scheme, dense, plain models.Scheme
	}{par: p.Whole(), scheme: s}
	all.scheme.KV = cmp.Or(s.KV, s.Stream())
	all.dense, all.plain = all.scheme.Parts()
	return Rank{Model: m, Par: &all.par, Scheme: &all.scheme, Dense: &all.dense, Plain: &all.plain, routings: e.routings(m, all.par.EP)}
}

// Uniform reports whether all experts are chosen equally often.
func (r *Rank) Uniform() bool { return r.routings == nil }

// Step is a step in which each of batch sequences gains fresh tokens after past ones,
// with the scores of logits positions of each.
func (r *Rank) Step(batch, fresh, past, logits float64) Step {
	return Step{Rank: *r, Batch: batch, New: fresh, Past: past, Logits: logits}
}

// Bytes is the memory of n activations of the residual stream.
func (r *Rank) Bytes(n float64) unit.Bytes { return r.Scheme.Stream().Bytes(n) }

// LocalKV is the number of KV heads of the rank. With more ranks than heads, several ranks
// have the same head.
func (r *Rank) LocalKV(a *models.Attention) float64 {
	return max(float64(a.KVHeads)/float64(r.Par.TP), 1)
}

// StateFormat is the number format of a scan's recurrent state.
func (r *Rank) StateFormat(c *models.Scan) unit.Format {
	return cmp.Or(c.StateFormat, r.Scheme.State, r.Scheme.Stream())
}

// CachedBytes is the memory of a token in the KV cache of one attention on a rank, in format f.
func (r *Rank) CachedBytes(a *models.Attention, f unit.Format) unit.Bytes {
	each, far := a.CachedBytes(f, r.LocalKV(a))
	return each + far
}

// ScanState is the state of one sequence on a rank for a scan and its convolution.
func (r *Rank) ScanState(c *models.Scan) unit.Bytes {
	return r.StateFormat(c).Bytes(float64(c.StateElements())/float64(r.Par.TP)) + r.Remembered(c)
}

// Remembered is the memory of the inputs that the convolution of one sequence keeps on a rank.
func (r *Rank) Remembered(c *models.Scan) unit.Bytes {
	return r.inputs(c.ConvElements(r.Scheme.Newest))
}

// Drafted is the memory of the inputs of so many drafted tokens, where the convolution keeps those too.
func (r *Rank) Drafted(c *models.Scan, tokens int) unit.Bytes {
	return r.inputs(int64(c.Conv) * int64(tokens))
}

// inputs is the memory of n inputs of a convolution, which the ranks share.
func (r *Rank) inputs(n int64) unit.Bytes {
	return cmp.Or(r.Scheme.Conv, r.Scheme.Stream()).Bytes(float64(n) / float64(r.Par.TP))
}

// Windows are the sliding windows of the model's layers. A step of sequences with contexts on both
// sides of a window is not a step of sequences with their mean context.
func (r *Rank) Windows() (all []float64) {
	for _, b := range r.Model.Blocks() {
		a := b.Attention
		switch {
		case a == nil:
		case a.Indexer != nil:
			all = append(all, float64(a.Indexer.TopK))
		case a.Window > 0:
			all = append(all, float64(a.Window))
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// weights is the memory of the layers, the embedding and the head on a rank, without the layers' matrices that lie on the host.
// Engines pad the vocabulary, so that any degree divides it.
func (r *Rank) weights() (layers, embedding, head unit.Bytes) {
	m, tp := r.Model, float64(r.Par.TP)
	for i := range m.Layers {
		l := &m.Layers[i]
		var one unit.Bytes
		for j := range l.Blocks {
			one += r.blockWeights(&l.Blocks[j])
			if r.Offload != nil {
				one -= r.hostWeights(&l.Blocks[j], r.Offload.Kinds[i])
			}
		}
		layers += one.Times(float64(l.Count))
	}
	e := &m.Embedding
	table := m.Table()
	embedding = r.Plain.MatrixBytes(&table, float64(m.Vocab)*float64(e.Width)/tp, float64(m.Vocab)/tp)
	embedding += r.Bytes(float64(e.Extra-e.Hashed)/tp+float64(e.Positions)*float64(m.Hidden)) + e.HashedBytes().Times(1/tp)
	embedding += r.matrices(r.Plain, e.Project, 1) + r.normWeights(e.Norms)
	if !m.TiedHead {
		head = r.Plain.MatrixBytes(&m.Head, float64(m.Head.In)*float64(m.Head.Out)/tp, float64(m.Head.Out)/tp)
	}
	if m.Head.Bias {
		head += r.Scheme.VectorBytes(m, float64(m.Head.Out)/tp)
	}
	return layers, embedding, head + r.normWeights(m.FinalNorms)
}

func (r *Rank) blockWeights(b *models.Block) unit.Bytes {
	if b.Reused {
		return 0
	}
	tp := r.Par.TP
	sum := r.matrices(r.Dense, b.In, tp) + r.matrices(r.Dense, b.Out, tp) + r.normWeights(b.Norms) + r.Scheme.VectorBytes(r.Model,
		float64(b.Extra))
	if a := b.Attention; a != nil && a.Latent != nil {
		sum += r.Dense.ShareBytes(r.Model, &a.Latent.Expand, tp)
	}
	e := b.Experts
	if e == nil {
		return sum
	}
	each := r.matrices(r.Scheme, e.In, r.Par.ExpertTP()) + r.matrices(r.Scheme, e.Out, r.Par.ExpertTP())
	if len(e.Out) > 0 {
		each = each.Times(r.Padding.Pads(float64(e.Out[0].Out), float64(e.Out[0].In)/float64(r.Par.ExpertTP())))
	}
	sum += each.Times(float64(e.Count)/float64(r.Par.EP)) + r.matrices(r.Plain, e.Router, tp)
	if e.Shared != nil {
		sum += r.matrices(r.Scheme, e.Shared.In, tp) + r.matrices(r.Scheme, e.Shared.Out, tp)
	}
	return sum
}

// matrices is the memory of a rank's shares of matrices.
func (r *Rank) matrices(f *models.Scheme, ls []models.Linear, tp int) (sum unit.Bytes) {
	for i := range ls {
		sum += f.ShareBytes(r.Model, &ls[i], tp)
	}
	return sum
}

// normWeights is the memory of the weights of norms, all of which every rank has.
func (r *Rank) normWeights(norms []models.Norm) unit.Bytes {
	var n int64
	for i := range norms {
		n += norms[i].Params
	}
	return r.Scheme.VectorBytes(r.Model, float64(n))
}
