package engine

import (
	"math"

	"llmprof/analytic"
	"llmprof/analytic/operator"
	"llmprof/models"
	"llmprof/roofline"
	"llmprof/unit"
)

// offloadRows is the fewest rows of a product whose weights lie on the host that llama.cpp copies them to the GPU for
// (GGML_OP_OFFLOAD_MIN_BATCH in ggml/src/ggml-cuda/ggml-cuda.cu): rows of a matrix, and tokens of a product of experts.
const offloadRows = 32

// hostCycles are the cycles of a weight in ggml's dot products on a core of Zen 5 with AVX-512 and VNNI, of 256 rows of 2048 weights in
// its cache, by type (vec_dot of ggml_get_type_traits_cpu of llama.cpp 0c1e570).
var hostCycles = map[string]float64{
	"F32": 0.16, "F16": 0.082, "BF16": 0.051, "Q8_0": 0.079, "Q6_K": 0.063, "Q5_K": 0.088, "Q4_K": 0.061, "Q3_K": 0.089, "Q2_K": 0.054,
	"Q4_0": 0.105, "Q4_1": 0.105, "Q5_0": 0.104, "Q5_1": 0.104, "MXFP4": 0.098, "IQ4_NL": 0.098, "IQ4_XS": 0.095, "IQ3_S": 0.588,
	"IQ3_XXS": 0.333, "IQ2_XXS": 0.160, "IQ2_XS": 0.266, "IQ2_S": 0.266, "IQ1_S": 0.453, "IQ1_M": 0.453,
}

// againRow is what a further row of a product takes, as a share of the first, for which a thread waits for weights: a core of Zen 5 reads
// 23 GB/s of Q4_K from memory and 46 from its cache.
const againRow = 0.5

// tiledRow is the same where a matrix, or an expert, has at least tiledHostRows of them, for which ggml unpacks tiles of weights once
// (ggml/src/ggml-cpu/tiled): twelve threads took 2.17 s for 512 tokens of qwen3-30b-a3b on the host, and 0.56 s for 128
// (experiments/h200-llamacpp-host).
const tiledRow, tiledHostRows = 0.3, 8

// otherCycles is the cycles of a weight in a type whose dot product was not timed.
const otherCycles = 0.1

// lowerPlaced lowers operators whose matrices lie on the host as ggml's scheduler places them. For few rows the host computes them, and
// each run of them is a part of the graph of its own: the step passes to the host and back. For many rows each matrix is copied to the
// GPU, which waits before each copy, since copies run on the stream that computes (ggml_backend_sched_compute_splits).
func lowerPlaced(e *Engine, l *analytic.Lowering) {
	before := hostsFirst(l)
	for i := range l.Ops {
		o := &l.Ops[i]
		here := o.Host && !copiesFor(l)
		if here != before {
			cross(l, i, 1)
		}
		before = here
		switch {
		case here:
			computeOnHost(l, i)
		case o.Host:
			copyWeights(l, i)
			e.lowerOne(l, i)
		default:
			e.lowerOne(l, i)
		}
	}
	if before && !hostsFirst(l) {
		cross(l, len(l.Ops)-1, 1)
	}
}

// hostsFirst reports whether the step is on the host when a part begins. A layer that lies there whole follows another one there.
func hostsFirst(l *analytic.Lowering) bool {
	switch {
	case l.Step.Offload == nil || copiesFor(l):
		return false
	case l.Part == operator.PartLast:
		return l.Step.HostLayers() > 0
	}
	return l.Part == operator.PartLayers && len(l.Ops) > 0 && l.Ops[0].Host
}

// copiesFor reports whether weights on the host are copied to the GPU for a step.
func copiesFor(l *analytic.Lowering) bool {
	off := l.Step.Offload
	return off != nil && !off.Stays && l.Step.Tokens() >= offloadRows
}

// cross makes the passages of the step between GPU and host ahead of operator i.
func cross(l *analytic.Lowering, i int, times float64) {
	k := l.Launch(i, roofline.HostCrossing, times)
	k.Work, k.Format, k.Graphed = roofline.Work{}, unit.NoFormat, true
}

// readWeights makes the reads of matrices in pinned host memory by the kernels of the GPU, which wait for them.
func readWeights(l *analytic.Lowering) {
	for i := range l.Ops {
		if o := &l.Ops[i]; o.Host {
			k := l.Launch(i, roofline.WeightCopy, 1)
			k.Work, k.Format, k.Graphed = roofline.Work{Weights: o.Work.Weights}, unit.NoFormat, true
		}
	}
}

// copyWeights makes the copies of an operator's matrices, or of its cache. Experts that no token is sent to are left out, so that the
// host reads the choice of experts back first.
func copyWeights(l *analytic.Lowering, i int) {
	o, class := &l.Ops[i], roofline.WeightCopy
	bytes := o.Work.KV + o.Work.State
	if o.Type.Kind() == operator.GEMM {
		bytes += o.Work.Weights.Times(chosenInPrompt(l.Step, o))
		if l.Step.Offload.Pageable {
			class = roofline.PageableCopy
		}
	}
	if bytes == 0 {
		return
	}
	n := max(o.Shape.Matrices, 1)
	if o.Type == operator.ExpertProduct {
		n++
	}
	cross(l, i, n)
	k := l.Launch(i, class, n)
	k.Work, k.Format, k.Graphed = roofline.Work{Weights: bytes}, unit.NoFormat, true
}

// promptDecay is how steeply the popularity of the experts of one prompt falls: of the 128 experts of gpt-oss-120b, of which a token takes
// 4, 72 to 95 had tokens among 512 (ggml-org/llama.cpp#15346).
const promptDecay, promptGroups = 8.0, 32

// chosenInPrompt is the experts to which the tokens of one prompt are sent, as a share of those where all are chosen equally often. It is 1
// where the case says how experts are chosen.
func chosenInPrompt(s *operator.Step, o *operator.Op) float64 {
	if o.Type != operator.ExpertProduct || o.Shape.Experts == 0 || s.Offload.PopularityKnown || s.Batch > 1 {
		return 1
	}
	chosen := 0.0
	for i := range promptGroups {
		falls := 1 + math.Expm1(-promptDecay*(float64(i)+0.5)/promptGroups) // math.Exp has other last digits in a browser
		load := promptDecay * falls / -math.Expm1(-promptDecay)
		chosen -= math.Expm1(-load*o.Shape.Pairs/o.Shape.Experts) / promptGroups
	}
	return min(1, chosen*o.Shape.Experts/o.Shape.Hit)
}

// computeOnHost makes the operator on the host's threads.
func computeOnHost(l *analytic.Lowering, i int) {
	o := &l.Ops[i]
	k := l.Launch(i, roofline.HostProduct, max(o.Shape.Matrices, 1))
	k.Graphed = true
	k.Work = roofline.Work{Weights: o.Work.Weights, KV: o.Work.KV, State: o.Work.State}
	if o.Type.Kind() == operator.Element {
		k.Work.Acts, k.Work.Weights = unit.FP32.Bytes(float64(o.Work.Acts)/2), 0
	}
	products := float64(o.Work.FLOPs) / 2
	if read := 8 * float64(o.Work.Weights) / weightBits(o); o.Type.Kind() == operator.GEMM && read < products {
		again := againRow
		if products >= tiledHostRows*read {
			again = tiledRow
		}
		products = read + (products-read)*again
	}
	k.Work.Vector = unit.FLOPs(products * cyclesOf(o) / hostCycles["Q4_K"]) // the unit is a weight in Q4_K
	k.Work = k.Work.Scale(float64(l.Step.Par.TP))                           // one host serves all ranks
}

// cyclesOf is the cycles of a weight in a product of the host, or of a value of the cache in attention.
func cyclesOf(o *operator.Op) float64 {
	if o.Type.Kind() != operator.GEMM || o.Block == nil {
		return hostCycles["F16"]
	}
	bits, name := weightBits(o), ""
	b, off := o.Block, math.Inf(1)
	lists := [][]models.Linear{b.In, b.Out}
	if e := b.Experts; e != nil {
		lists = append(lists, e.In, e.Out, e.Router)
	}
	for _, list := range lists {
		for i := range list {
			if s := list[i].Stored; s != nil && math.Abs(s.Bits-bits) < off {
				off, name = math.Abs(s.Bits-bits), s.Name
			}
		}
	}
	if c := hostCycles[name]; c > 0 {
		return c
	}
	return otherCycles
}
