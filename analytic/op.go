package analytic

import "llmprof/unit"

// An Op is the work of one operator on one rank of the tensor-parallel group,
// free of any hardware. Its figures are of one occurrence; a step has Layers of
// them.
type Op struct {
	Name   string
	Layer  string      // the kind of layer it belongs to, "" for what the model has once
	Layers float64     // occurrences in a step
	Kind   Kind        // which class of kernel does it
	Format unit.Format // of the matrix products

	FLOPs  unit.FLOPs // of matrix products; a multiply-add is two
	Vector unit.FLOPs // of everything else, on the FP32 units
	Model  unit.FLOPs // of matrix products before any split: what the model needs, not what ranks repeat

	Weights unit.Bytes // read
	KV      unit.Bytes // of the cache, read and written
	State   unit.Bytes // of scans and convolutions, read and written
	Acts    unit.Bytes // activations in and out
	Unfused unit.Bytes // in place of Acts, where every one of Eager launches reads and writes its own tensors

	Repeated unit.Bytes // in place of KV, where an engine repeats it for every query head
	Joined   unit.Bytes // besides KV, where an engine joins cache and new token to a new cache

	Wire     unit.Bytes // sent by one GPU to others of its node
	NodeWire unit.Bytes // sent by one GPU to other nodes
	Ranks    float64    // that take part in a collective

	Kernels float64    // launches in an engine that fuses
	Eager   float64    // launches in one that does not
	PerKey  unit.FLOPs // one more key for every query of a prefill: attention's ramp is counted in keys
	Variant uint32     // which of several formulas held: another one ends a linear run
	Ride    ride       // within whose kernel an engine may do it, or whether by its own
	Rows    float64    // of a product
	Mixture bool       // router, choice or products of a mixture's experts, which an engine may do by kernels of its own
	Up      bool       // the first product of experts, of gate and up
	Experts float64    // to choose among
	Pairs   float64    // of a token and an expert, of a choice and of products of experts
	Hit     float64    // experts that are expected to be chosen, of products of them
	Busy    float64    // of the experts, those that a token takes
	Tokens  float64    // that take them, of all ranks that share the experts
	Ordered unit.Bytes // of the pairs' inputs or results, that are gathered ahead of a product of experts or summed behind it
	Within  bool       // that one kernel of an engine does with others of a layer
}

// Kind is a class of kernels that share their efficiencies.
type Kind uint8

// The classes.
const (
	GEMM       Kind = iota // a product with weights
	Attention              // between the projections of an attention
	Element                // element-wise, norms, gathers, scans
	Collective             // all-reduce and its kin
)

// apart is the activations that move where nothing is fused. Where nobody has
// counted them, each launch beyond the second reads and writes half of Acts again.
func (o *Op) apart() unit.Bytes {
	if o.Unfused > 0 {
		return o.Unfused
	}
	if o.Kind == Element {
		return o.Acts.Times(max(1, o.Eager/2))
	}
	return o.Acts
}

// Traffic is all that moves between memory and the chip.
func (o *Op) Traffic() unit.Bytes { return o.Weights + o.KV + o.State + o.Acts }

// Intensity is the matrix FLOPs for each byte of memory traffic.
func (o *Op) Intensity() float64 { return o.FLOPs.Per(o.Traffic()) }

// A Step is one forward pass of one replica: each of Batch sequences gains New
// tokens after the Past ones it has. Nothing else tells prefill from decode.
type Step struct {
	Par    *Parallelism // whole
	Scheme *Scheme      // of the experts' matrices
	Dense  *Scheme      // of the other matrices of the blocks
	Plain  *Scheme      // of what is never quantized: routers
	Batch  float64
	New    float64
	Past   float64
	Logits float64 // positions of a sequence that the LM head runs on
	Cache  float64 // positions of a cache of fixed length; 0 for one that grows
	Wide   bool    // the model and the GPU are such that an engine may have wide products (Carries)
}

// tokens is how many rows every projection has.
func (s *Step) tokens() float64 { return s.Batch * s.New }

// acts is the memory of n activations of the stream.
func (s *Step) acts(n float64) unit.Bytes { return s.Scheme.stream().Bytes(n) }
