package operator

import (
	"slices"

	"llmprof/models"
	"llmprof/roofline"
	"llmprof/unit"
)

// An Op is the work of one operator on one rank of the tensor-parallel group, whatever the
// hardware and the engine. Its figures are for one occurrence; a step has Count of them.
type Op struct {
	Name   string
	Layer  string // kind of layer that it belongs to; "" outside of the layers
	Type   Type
	Count  float64
	Format unit.Format     // number format of the matrix products
	Scheme roofline.Scheme // how their operands are quantized; for attention, the KV cache
	Shape  roofline.Shape
	Work   roofline.Work
	Model  unit.FLOPs // FLOPs of matrix products over all ranks, without those that several ranks repeat

	HalfSums bool // the engine sums the products in FP16, at twice the rate of sums in FP32, of which the GPU's peak is

	Decode bool  // attention of few queries, which splits the keys over the GPU
	Shared bool  // part of experts that every token takes
	At     uint8 // number of its block in the layer

	Block      *models.Block      // nil outside of the layers
	Norms      []models.Norm      // norms of the residual stream, or of queries and keys
	Activation *models.Activation // activation function of a feed-forward; else nil
}

// AddFloor adds the floor of count times the operator.
func (o *Op) AddFloor(f *roofline.Floor, p *roofline.Peaks, count float64) {
	w := &o.Work
	if o.HalfSums {
		half := o.Work
		half.FLOPs /= 2
		w = &half
	}
	f.AddWork(p, w, o.Format, o.Shape.Ranks, count)
}

// add appends an operator, which the caller fills in in place: copying an operator takes longer than
// setting its fields.
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
	Product // GEMM with weights of a block, or of the embedding's projection
	Rotary  // rotary embedding, norms of queries and keys
	CacheWrite
	Attend      // attention between its projections
	Expand      // expansion of the cached vectors of latent attention to keys and values, or the absorbed GEMM
	Index       // scores that choose the keys of sparse attention
	Conv        // causal convolution ahead of a scan
	Scan        // recurrence, one token after the other
	ChunkedScan // recurrence in chunks, on matrix units
	NonLinear   // activation function of a feed-forward
	Router
	TopK
	ExpertProduct // grouped GEMM of the experts
	ExpertNonLinear
	Head
	Sampling
	Reduce   // all-reduce
	Gather   // all-gather
	Shuffle  // all-to-all
	Exchange // all-gather of tokens among replicas that share experts, or reduce-scatter of the results
	Send     // activations from stage to stage of the pipeline
)

// Kind is a coarse class of operators.
type Kind uint8

// The kinds.
const (
	GEMM       Kind = iota // product with weights
	Attention              // attention or a chunked scan, between its projections
	Element                // element-wise, norms, gathers, scans
	Collective             // all-reduce, all-gather, reduce-scatter, all-to-all, send
)

// Kind is the coarse class of the type.
func (t Type) Kind() Kind {
	switch t {
	case Product, Expand, Router, ExpertProduct, Head:
		return GEMM
	case Attend, Index, ChunkedScan:
		return Attention
	case Reduce, Gather, Shuffle, Exchange, Send:
		return Collective
	}
	return Element
}
