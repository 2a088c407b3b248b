package engine

import (
	"slices"

	"llmprof/analytic"
	"llmprof/analytic/operator"
	"llmprof/hardware"
	"llmprof/models"
	"llmprof/roofline"
	"llmprof/unit"
)

// graphed is an engine whose decode steps are CUDA graphs, captured for a list of batch
// sizes. Method lower says where its kernels differ from those of fused.
type graphed struct {
	profile analytic.Profile
	rows    captured // CUDA graphs of decode steps, by batch
	// Piecewise CUDA graphs of prompts, without attention, by number of tokens; nil without such graphs.
	pieces   captured
	sampling float64 // small kernels between the logits and the inputs of the next step
	static   bool    // weights in FP8 have a static scale for their inputs
	// Attention writes the cache, and rotates queries and keys that have no norms.
	rotates bool
	gathers bool // ranks of EP all-gather the tokens, and reduce-scatter the results
	// Replicas exchange tokens of prompts by all-reduces, for each has another number of them.
	sumsPrompts bool
	tiles       func(g *hardware.GPU, k *roofline.Kernel) roofline.Tile // tile of a GEMM; nil where a library chooses
	// Rows of a tile of a grouped GEMM; 0 where it is not known, nil where it never is.
	grouped func(g *hardware.GPU, k *roofline.Kernel) float64
	grain   func(g *hardware.GPU, s roofline.Scheme) operator.Grain // multiples to which experts are padded; nil where they never are
	// A grouped GEMM in 16 bits has tiles that nobody tuned for its shape; nil where all are tuned, or it is not known.
	untuned func(g *hardware.GPU, k *roofline.Kernel) bool
	foreign func(g *hardware.GPU, s roofline.Scheme) bool // a rank of EP multiplies the pairs of all ranks; nil where it never does
	// Experts in MXFP4 run by OpenAI's Triton kernels on Hopper; a rank of EP tells its own from others by kernels of PyTorch before.
	triton     bool
	contiguous bool                            // experts in FP8 by blocks run by DeepGEMM in its contiguous layout
	overlaps   float64                         // most tokens of a decode step whose shared experts run in a stream beside the routed ones
	joined     func(l *analytic.Lowering) bool // the grouped GEMM of a layer has the shared expert among its experts; nil where it never does
	// Times of products in FP8 by blocks on Blackwell's GPUs of data centres have the kernel in them that quantizes their inputs.
	quantizes bool
	oneCall   bool // one C++ operator runs all experts of a layer: Python dispatches neither their GEMMs nor the sort of tokens by expert
}

// captured gives the rows of the smallest CUDA graph for a step of so many tokens; not ok if there
// is none.
type captured func(l *analytic.Lowering, tokens float64) (rows float64, ok bool)

// Profile is what the engine adds to its kernels.
func (e *graphed) Profile() *analytic.Profile { return &e.profile }

// Lower makes the kernels of a part of a step, and marks those that CUDA graphs launch.
func (e *graphed) Lower(l *analytic.Lowering) {
	for i := range l.Ops {
		e.lower(l, i)
	}
	graphs := e.pieces
	if l.Step.Decode() {
		graphs = e.rows
	}
	rows, ok := 0.0, false
	if graphs != nil {
		rows, ok = graphs(l, l.Step.Tokens())
	}
	switch {
	case !ok:
		e.dispatched(l)
	case l.Step.Decode():
		for i := range l.Kernels {
			l.Kernels[i].Graphed = true
		}
		padAll(l, rows)
	default:
		piecewise(l)
		padAll(l, rows)
	}
	e.align(l)
	exchanges(l)
	e.tile(l)
	if ok && l.Step.Decode() && l.Step.Tokens() <= e.overlaps && groupedKernel(l) != nil {
		overlapShared(l)
	}
}

// overlapShared marks the kernels of shared experts, which run in a stream beside those that the router chose within the CUDA graph of a
// decode step: maybe_execute_in_parallel of TensorRT-LLM, forward_normal_dual_stream of SGLang, MULTI_STREAM_OVERLAPPED of vLLM.
func overlapShared(l *analytic.Lowering) {
	for i := range l.Kernels {
		l.Kernels[i].Overlapped = l.Ops[l.Kernels[i].Main].Shared
	}
}

// lower appends the kernels of operator i.
func (e *graphed) lower(l *analytic.Lowering, i int) {
	o := &l.Ops[i]
	if o.Shared && e.joined != nil && e.joined(l) {
		join(l, i)
		return
	}
	switch o.Type {
	case operator.Rotary:
		e.rotary(l, i)
	case operator.CacheWrite:
		if !e.rotates { // else the attention after it does
			l.Launch(i, roofline.Elementwise, 1)
		}
	case operator.Attend:
		e.attention(l, i)
	case operator.Product:
		e.product(l, i)
	case operator.TopK:
		e.routing(l, i)
	case operator.ExpertProduct:
		e.experts(l, i)
	case operator.ExpertNonLinear:
		if k := groupedKernel(l); k != nil {
			l.Fuse(k, i)
			return
		}
		lowerFused(l, i)
	case operator.Sampling:
		k := l.Launch(i, roofline.SmallElementwise, e.sampling)
		k.Work.Acts = k.Work.Acts.Times(samplingMoves)
		k.Graphed = true // HostAsync includes these launches
	case operator.Shuffle, operator.Exchange:
		e.exchange(l, i)
	default:
		lowerFused(l, i)
	}
}

// exchange makes the kernel of an exchange of tokens between replicas that share experts.
func (e *graphed) exchange(l *analytic.Lowering, i int) {
	k := lowerFused(l, i)
	if e.gathers && l.Ops[i].Type == operator.Shuffle {
		gather(k, l.Step)
	}
	if e.sumsPrompts && !l.Step.Decode() {
		k.Work.Wire, k.Work.NodeWire = k.Work.Wire.Times(2), k.Work.NodeWire.Times(2) // an all-reduce passes the ring twice
	}
}

// rotary makes the kernels of rotary embedding, of which norms of queries and keys take one more.
func (e *graphed) rotary(l *analytic.Lowering, i int) {
	switch normed := headNorms(&l.Ops[i]); {
	case normed && !e.rotates:
		l.Launch(i, roofline.Elementwise, 2)
	case normed || !e.rotates:
		l.Launch(i, roofline.Elementwise, 1)
	}
}

// headNorms reports whether rotary embedding has norms of queries and keys ahead of it.
func headNorms(o *operator.Op) bool {
	return slices.ContainsFunc(o.Norms, func(n models.Norm) bool { return n.PerHead })
}

// attention makes the kernel of attention. TensorRT-LLM's attention rotates and writes to the cache, which its times in operator tables
// include (collect_attn.py of aiconfigurator). Those of vLLM's include the write too, but in vLLM's own traces attention takes as long
// without it, for CUDA graphs hold the most parts of the keys (experiments/h200-vllm/traces).
func (e *graphed) attention(l *analytic.Lowering, i int) {
	k := lowerFused(l, i)
	if !e.rotates {
		return
	}
	for j := i - 1; j >= 0 && l.Ops[j].Type != operator.Attend; j-- {
		switch o := &l.Ops[j]; {
		case o.Type == operator.CacheWrite:
			k.Helpers = 1
			l.Fuse(k, j)
		case o.Type == operator.Rotary && !headNorms(o):
			l.Fuse(k, j)
		}
	}
}

// routing makes the kernels that choose the experts: gating, fill, the sum of the experts'
// results and, for several tokens, two kernels that sort the token-expert pairs. The times of
// grouped GEMMs in operator tables include all of these, for their collectors hand the router's logits
// to the engine's experts (collect_moe.py of aiconfigurator).
func (e *graphed) routing(l *analytic.Lowering, i int) {
	if j := l.Next(i, operator.ExpertProduct); j >= 0 && groupedKnown(l.Constants, l.Ops[j].Scheme) {
		if n := e.mapped(l, &l.Ops[j]); n > 0 {
			l.Launch(i, roofline.Elementwise, n)
		}
		return
	}
	n := 3.0
	if l.Step.Tokens() > 1 {
		n = routingKernels
	}
	l.Launch(i, roofline.Elementwise, n)
}

// samplingMoves is the memory traffic of sampling, in multiples of the logits' bytes in 16
// bits: a copy to float32 is written (2), then read for the noise and for the maximum.
const samplingMoves = 5

// product makes the kernel of a GEMM. A quantized GEMM has a kernel before it that quantizes
// its input. In traces that work is part of the norm or activation kernel before, which
// takes longer by as much, so it has no launch. Where scales are known beforehand, that kernel writes what it computes in 8 bits.
func (e *graphed) product(l *analytic.Lowering, i int) {
	o := &l.Ops[i]
	if o.Name == "kv_a_proj" && joins(l, i) {
		return
	}
	if stream := l.Step.Scheme.Stream(); o.Format != stream && o.Format != unit.NoFormat && (!e.static || !scaled(l, i)) {
		if e.quantizes && o.Scheme == roofline.FP8Block && dataCentreBlackwell(l.GPU) {
			l.Launch(i, roofline.GEMM, 1).Quantized = o.Shape.M
			return
		}
		k := l.Launch(i, roofline.Elementwise, 1)
		values := o.Shape.M * o.Shape.K
		k.Work = roofline.Work{Acts: stream.Bytes(values) + o.Format.Bytes(values)}
		k.Graphed = true // no launch
	}
	l.Launch(i, roofline.GEMM, 1)
}

// joins adds the projection of latent attention's keys and values to the GEMM of its queries, which has the same inputs, and reports
// whether there is one. All three engines load both as one matrix (fused_qkv_a_proj of vLLM, fused_qkv_a_proj_with_mqa of SGLang,
// kv_a_proj_with_mqa of TensorRT-LLM).
func joins(l *analytic.Lowering, i int) bool {
	o := &l.Ops[i]
	for j := range l.Kernels {
		k := &l.Kernels[j]
		if q := &l.Ops[k.Main]; k.Class != roofline.GEMM || q.Name != "q_a_proj" || q.Format != o.Format {
			continue
		}
		l.Beside(k, i)
		k.Work.Acts -= o.Format.Bytes(o.Shape.M * o.Shape.K)
		k.Shape.N += o.Shape.N
		return l.Part != operator.PartLast
	}
	return false
}

// scaled reports whether the kernel ahead of a product in FP8 with a static scale quantizes its inputs: attention and the activation do,
// and in Llama the all-reduce with its norm (modules/attention.py, modules/gated_mlp.py and models/modeling_llama.py of TensorRT-LLM).
func scaled(l *analytic.Lowering, i int) bool {
	if l.Ops[i].Scheme != roofline.FP8 || i == 0 {
		return false
	}
	switch l.Ops[i-1].Type {
	case operator.Attend, operator.NonLinear:
		return l.Part != operator.PartLast
	case operator.Norm:
		return l.Step.Model.Family == "llama" && l.Step.Par.TP > 1
	}
	return false
}

// experts makes the grouped GEMM of a layer's experts.
func (e *graphed) experts(l *analytic.Lowering, i int) {
	o := &l.Ops[i]
	if k := groupedKernel(l); k != nil {
		l.Beside(k, i)
		return
	}
	if groupedKnown(l.Constants, o.Scheme) {
		k := l.Launch(i, roofline.GroupedGEMM, 2)
		k.Shape.Ranks = float64(l.Step.Par.EP)
		pairs := o.Shape.Tokens * o.Shape.TopK // where a rank has all tokens, kernels move those of other ranks' experts too
		if p := l.Step.Par; p.ExpertReplicas() > 1 && !p.GathersTokens() && !e.gathers {
			pairs = o.Shape.Pairs // it was sent those of its own experts alone
		}
		k.Permuted = l.Step.Bytes(pairs * o.Shape.K)
		k.Helpers = e.expertHelpers(l, o)
		if j := l.Next(0, operator.TopK); j >= 0 && e.mapped(l, o) == 0 {
			l.Fuse(k, j)
		}
		return
	}
	k := l.Launch(i, roofline.MoEPrefill, 1)
	if l.Next(i+1, operator.ExpertProduct) < 0 { // last grouped GEMM of the layer
		k.Unpermuted = l.Step.Bytes(o.Shape.Pairs * o.Shape.N)
	}
}

// groupedKernel is the kernel of both grouped GEMMs of a layer's experts; nil if it is not made yet.
func groupedKernel(l *analytic.Lowering) *analytic.Kernel {
	for i := range l.Kernels {
		if k := &l.Kernels[i]; k.Class == roofline.GroupedGEMM {
			return k
		}
	}
	return nil
}

// piecewise marks the kernels that piecewise CUDA graphs launch. One graph spans what lies
// between the attention of two layers.
func piecewise(l *analytic.Lowering) {
	called := false // Python dispatches prefill and decode attention in one call
	for i := range l.Kernels {
		k := &l.Kernels[i]
		switch t := l.Ops[k.Main].Type; {
		case t.Kind() == operator.Attention && !called:
			k.Pieces, k.Dispatches, called = 1, 1, true
		case padded(l, k.Main):
			k.Graphed = true
		}
	}
}

// dispatched counts the Python calls of a step without CUDA graphs: attention, the compiled
// piece after it if the model is compiled in pieces, and those of the experts. All-reduces over peer memory take one more launch.
func (e *graphed) dispatched(l *analytic.Lowering) {
	called := false
	for i := range l.Kernels {
		k := &l.Kernels[i]
		switch t := l.Ops[k.Main].Type; {
		case t.Kind() == operator.Attention && !called:
			if k.Dispatches, called = 1, true; e.pieces != nil {
				k.Dispatches = 2
			}
		case t == operator.Reduce && k.Class == roofline.OneShotAllReduce:
			k.Launches++ // its input is copied to memory that the other ranks read (experiments/vllm-host/h100)
		case t == operator.Reduce && k.Class == roofline.AllReduce:
			k.Helpers++ // The enqueueing of a call of NCCL takes the host no less than that copy; no trace has it alone.
		case t == operator.TopK || t == operator.ExpertProduct:
			k.Dispatches = e.expertCalls(l, t, k.Launches)
			if j := l.Next(0, operator.TopK); j >= 0 && t == operator.ExpertProduct && k.Ops>>j&1 == 1 {
				k.Dispatches += e.expertCalls(l, operator.TopK, 0)
			}
		}
	}
}

// padded reports whether operator i of a part also computes the padding rows of a CUDA graph. Attention
// skips them, and the LM head and the all-gather of its scores run outside of the graph.
func padded(l *analytic.Lowering, i int) bool {
	switch t := l.Ops[i].Type; t {
	case operator.CacheWrite, operator.Head, operator.Sampling:
		return false
	case operator.Gather:
		return l.Part != operator.PartLast
	default:
		return t.Kind() != operator.Attention
	}
}

// padAll lets the kernels of a CUDA graph run on all of its rows.
func padAll(l *analytic.Lowering, rows float64) {
	tokens := l.Step.Tokens()
	if rows == tokens {
		return
	}
	for i := range l.Kernels {
		k := &l.Kernels[i]
		if l.Ops[k.Main].Type == operator.Expand && !l.Step.Decode() {
			continue // Most of its rows are cached tokens, of which none is padding.
		}
		if padded(l, k.Main) {
			pad(k, l.Step, rows, tokens)
			if l.Ops[k.Main].Type == operator.Embedding { // it reads the rows of its tokens
				k.Work.Weights = k.Work.Weights.Times(rows / tokens)
			}
		}
	}
}

// pad gives a kernel the rows of a CUDA graph in place of the step's tokens. Padding rows are routed to experts too. Rows are
// multiplied before they are divided, which leaves them whole: tiles are counted of them.
func pad(k *analytic.Kernel, step *operator.Step, rows, tokens float64) {
	more := rows / tokens
	k.Shape.M = k.Shape.M * rows / tokens
	w, s := &k.Work, &k.Shape
	w.FLOPs, w.Vector, w.Acts = w.FLOPs.Times(more), w.Vector.Times(more), w.Acts.Times(more)
	w.Wire, w.NodeWire = w.Wire.Times(more), w.NodeWire.Times(more)
	if s.Hit > 0 {
		s.Tokens = s.Tokens * rows / tokens
		hit, pairs := step.Chosen(s, s.Tokens)
		w.Weights = w.Weights.Times(hit / s.Hit)
		w.FLOPs = w.FLOPs.Times(pairs / s.Pairs / more)
		s.Hit, s.Pairs = hit, pairs
	}
	k.Permuted, k.Unpermuted = k.Permuted.Times(more), k.Unpermuted.Times(more)
}
