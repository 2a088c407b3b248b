package footprint

import (
	"slices"

	"llmprof/models"
	"llmprof/parallel"
	"llmprof/unit"
)

// A Rank is one GPU of a tensor-parallel group: which part of a model it has, and in
// which formats.
type Rank struct {
	Model  *models.Model
	Par    *parallel.Parallelism // whole
	Scheme *models.Scheme        // of the experts' matrices
	Dense  *models.Scheme        // of the other matrices of the blocks
	Plain  *models.Scheme        // of what is never quantized: routers
}

// NewRank is a rank of a model that p splits and s quantizes. A KV cache without a format
// has that of the residual stream.
func NewRank(m *models.Model, p parallel.Parallelism, s models.Scheme) Rank {
	all := &struct {
		par                  parallel.Parallelism
		scheme, dense, plain models.Scheme
	}{par: p.Whole(), scheme: s}
	if s.KV == unit.NoFormat {
		all.scheme.KV = s.Stream()
	}
	all.dense, all.plain = all.scheme.Parts()
	return Rank{m, &all.par, &all.scheme, &all.dense, &all.plain}
}

// Bytes is the memory of n activations of the residual stream.
func (r *Rank) Bytes(n float64) unit.Bytes { return r.Scheme.Stream().Bytes(n) }

// LocalKV is the KV heads that the rank has: with more ranks than heads, several ranks
// have the same head.
func (r *Rank) LocalKV(a *models.Attention) float64 {
	return max(float64(a.KVHeads)/float64(r.Par.TP), 1)
}

// StateFormat is the number format of a scan's recurrent state.
func (r *Rank) StateFormat(c *models.Scan) unit.Format {
	if c.StateFormat != unit.NoFormat {
		return c.StateFormat
	}
	return r.Scheme.Stream()
}

// CachedValues is how many values of a token a rank keeps for one attention.
func (r *Rank) CachedValues(a *models.Attention) float64 {
	n := r.LocalKV(a) * float64(a.EntryDim())
	if a.Compress > 0 {
		return n + r.compressedValues(a)
	}
	if a.Latent != nil {
		n = float64(a.Latent.Rank + a.Latent.RopeDim)
	}
	if a.Indexer != nil {
		n += float64(a.Indexer.Dim)
	}
	return n
}

// compressedValues is a token's share of the entry that stands for several.
func (r *Rank) compressedValues(a *models.Attention) float64 {
	if a.Compress == 0 {
		return 0
	}
	n := r.LocalKV(a) * float64(a.EntryDim())
	if a.Indexer != nil {
		n += float64(a.Indexer.Dim)
	}
	return n / float64(a.Compress)
}

// scanState is what a rank keeps of one sequence for a scan and its convolution.
func (r *Rank) scanState(c *models.Scan) unit.Bytes {
	tp := float64(r.Par.TP)
	return r.StateFormat(c).Bytes(float64(c.StateElements())/tp) + r.Bytes(float64(c.ConvElements())/tp)
}

// Windows are the sliding windows of the model's layers: a step of sequences on both
// sides of one is not the step of their mean.
func (r *Rank) Windows() (all []float64) {
	for i := range r.Model.Layers {
		for j := range r.Model.Layers[i].Blocks {
			a := r.Model.Layers[i].Blocks[j].Attention
			switch {
			case a == nil:
			case a.Indexer != nil:
				all = append(all, float64(a.Indexer.TopK))
			case a.Window > 0:
				all = append(all, float64(a.Window))
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}
