package operator

import (
	"slices"

	"llmprof/models"
	"llmprof/roofline"
	"llmprof/unit"
)

// An Op is the work of one operator on one rank of the tensor-parallel group, free
// of any hardware and of any engine. Its figures are of one occurrence; a step has
// Count of them.
type Op struct {
	Name   string
	Layer  string // the kind of layer it belongs to, "" for what the model has once
	Type   Type
	Count  float64
	Format unit.Format     // of the matrix products
	Scheme roofline.Scheme // of their operands; of attention, of the cache
	Shape  roofline.Shape
	Work   roofline.Work
	Model  unit.FLOPs // of matrix products before any split: what the model needs, not what ranks repeat

	Decode  bool   // attention of few queries, whose keys are split over the GPU
	Variant uint32 // which of several formulas held: another one ends a linear run

	Block      *models.Block      // nil for what the model has once
	Norms      []models.Norm      // of the stream, or of queries and keys
	Activation *models.Activation // nil but for a non-linearity
}

// add appends an operator, which the caller fills in where it lies: a copy of one that has just been
// written costs more than what is written.
func add(dst []Op, name string, t Type) ([]Op, *Op) {
	n := len(dst)
	dst = slices.Grow(dst, 1)[:n+1]
	o := &dst[n]
	*o = Op{}
	o.Name, o.Type = name, t
	return dst, o
}

// Type is what an operator does.
type Type uint8

// The types.
const (
	Embedding Type = iota
	Norm
	Product // with the weights of a block, or of the embedding's projection
	Rotary  // rotary embedding, norms of queries and keys
	CacheWrite
	Attend // attention between its projections
	Expand // keys and values of latent attention from the cached vectors, or the absorbed product
	Index  // the scores that choose which keys sparse attention reads
	Conv   // causal, ahead of a scan
	Scan   // one token after the other
	ChunkedScan
	NonLinear // the activation of a feed-forward
	Router
	TopK
	ExpertProduct // a grouped product of the experts
	ExpertNonLinear
	Head
	Sampling
	Reduce  // all-reduce
	Gather  // all-gather
	Shuffle // all-to-all
	Send    // from stage to stage of the pipeline
)

// Kind is a coarse class of operators.
type Kind uint8

// The kinds.
const (
	GEMM       Kind = iota // a product with weights
	Attention              // between the projections of an attention
	Element                // element-wise, norms, gathers, scans
	Collective             // all-reduce and its kin
)

// Kind is the coarse class of the type.
func (t Type) Kind() Kind {
	switch t {
	case Product, Expand, Router, ExpertProduct, Head:
		return GEMM
	case Attend, Index, ChunkedScan:
		return Attention
	case Reduce, Gather, Shuffle, Send:
		return Collective
	}
	return Element
}
