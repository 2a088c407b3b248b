package operator

import (
	"cmp"
	"fmt"
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
	Host   bool  // its matrices, or its cache, lie in the memory of the host
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
	Encode   // encoder of vision or audio
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
	case Product, Expand, Router, ExpertProduct, Head, Encode:
		return GEMM
	case Attend, Index, ChunkedScan:
		return Attention
	case Reduce, Gather, Shuffle, Exchange, Send:
		return Collective
	}
	return Element
}

// A Sum is what operators come to on one rank of each stage.
type Sum struct {
	Work  roofline.Work // work of the rank
	Model unit.FLOPs    // FLOPs of matrix products that the model needs, over all ranks
}

// Add adds n times u.
func (t *Sum) Add(u *Sum, n float64) {
	t.Work.Add(&u.Work, n)
	t.Model += u.Model.Times(n)
}

// AddOp adds an operator.
func (t *Sum) AddOp(o *Op) {
	t.Work.Add(&o.Work, o.Count)
	t.Model += o.Model.Times(o.Count)
}

// Counts is the work and the memory of a workload, whatever the hardware and the engine.
type Counts struct {
	Prefill Sum    // work of the prompts of one replica
	Decode  Sum    // work of all tokens after the first
	Memory  Memory // memory of one GPU, without the reserves of CUDA, engine and system
}

// Count counts a workload of a model with a split p and a quantization s.
func Count(m *models.Model, p Parallelism, s models.Scheme, w *Workload) (n Counts, err error) {
	if err := Check(m, p, s, nil); err != nil {
		return n, err
	}
	r := NewRank(m, p, s, nil)
	if err := w.Check(r.Par.MicroBatches); err != nil {
		return n, err
	}
	micro := float64(r.Par.MicroBatches)
	for _, run := range r.Prefill(w, 0) {
		if run.Steps > 0 {
			n.Prefill.addRun(&run, micro*run.Times)
		}
	}
	if w.GenLen > 1 {
		n.Decode.addRun(&Run{First: r.FirstDecode(w), Steps: w.GenLen - 1}, micro)
	}
	f := NewFootprint(&r, 0)
	n.Memory = f.Memory(w, 0)
	return n, nil
}

// Check returns why a model cannot have a split, a quantization or a popularity of its experts.
func Check(m *models.Model, p Parallelism, s models.Scheme, e *Popularity) error {
	if m == nil {
		return fmt.Errorf("no model is given")
	}
	if err := cmp.Or(s.Check(), p.Check(), e.Check(m)); err != nil {
		return err
	}
	whole := p.Whole()
	return whole.CheckModel(m)
}

// addRun adds the steps of a run, so many times. Between two bends all of its figures are linear in the context, so that those of its steps
// are their number times the mean of the first and the last.
func (t *Sum) addRun(r *Run, times float64) {
	for _, segment := range r.Segments(r.First.Bends(r)) {
		for _, n := range [...]int{0, segment.Steps - 1} {
			var one Sum
			step := segment.At(float64(n))
			for _, o := range step.AppendOps(nil) {
				one.AddOp(&o)
			}
			t.Add(&one, times*float64(segment.Steps)/2)
		}
	}
}
