package engine

import (
	"slices"

	"llmprof/analytic"
	"llmprof/models"
	"llmprof/operator"
	"llmprof/roofline"
	"llmprof/unit"
)

// graphed is a server whose decode steps are CUDA graphs of some batch sizes, with the
// kernels of fused but for those of its own below.
type graphed struct {
	profile  analytic.Profile
	rows     func(batch float64) (rows float64, ok bool) // of the graph that a decode step runs in, if one holds it
	pieces   float64                                     // most tokens of a step whose kernels but attention are graphs; 0 if the model is not compiled in pieces
	sampling float64                                     // small kernels from the logits to the next step's inputs
	fusedKV  bool                                        // rotary embedding and cache write are one kernel
	oneCall  bool                                        // the experts of a layer are one operator in C++, so that Python calls neither their products nor what sorts tokens by expert
}

// Profile is what the engine adds to its kernels.
func (e *graphed) Profile() *analytic.Profile { return &e.profile }

// Lower makes the kernels of a part of a step, and says which of them graphs launch.
func (e *graphed) Lower(l *analytic.Lowering) {
	for i := range l.Ops {
		e.lower(l, i)
	}
	s := l.Step
	rows, ok := e.rows(s.Batch)
	switch {
	case s.Decode() && ok:
		for i := range l.Kernels {
			k := &l.Kernels[i]
			k.Graphed = true
			if padded(l.Ops[k.Main].Type) {
				pad(k, s, rows)
				if l.Part == operator.PartFirst { // a gather of rows
					k.Work.Weights = k.Work.Weights.Times(rows / s.Batch)
				}
			}
		}
	case !s.Decode() && s.Tokens() <= e.pieces:
		e.piecewise(l)
	default:
		e.dispatched(l)
	}
	exchanges(l)
}

// lower appends the kernels of operator i.
func (e *graphed) lower(l *analytic.Lowering, i int) {
	o := &l.Ops[i]
	switch o.Type {
	case operator.Rotary, operator.CacheWrite:
		e.rotary(l, i)
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
		k.Graphed = true // the host's time of a step has these launches
	default:
		lowerFused(l, i)
	}
}

// rotary makes the kernels of rotary embedding and cache write. Norms of queries and keys
// are a kernel of their own.
func (e *graphed) rotary(l *analytic.Lowering, i int) {
	o := &l.Ops[i]
	if o.Type == operator.CacheWrite {
		if e.fusedKV {
			lowerFused(l, i)
			return
		}
		l.Launch(i, roofline.Elementwise, 1)
		return
	}
	n := 1.0
	if !e.fusedKV && slices.ContainsFunc(o.Norms, func(n models.Norm) bool { return n.PerHead }) {
		n++
	}
	l.Launch(i, roofline.Elementwise, n)
}

// routing makes the kernels of the choice of experts: gating, filling and the sum of the
// experts' results, and of several tokens two that sort the pairs by expert. The times of
// grouped products in tables have all of them but the gating.
func (e *graphed) routing(l *analytic.Lowering, i int) {
	n := 3.0
	if l.Step.Tokens() > 1 {
		n = 5
	}
	if j := l.Next(i, operator.ExpertProduct); j >= 0 && groupedKnown(l.Constants, l.Ops[j].Scheme) {
		n = 1
	}
	l.Launch(i, roofline.Elementwise, n)
}

// samplingMoves is how often logits of 16 bits are moved: they are copied to float32,
// and the copy is read for the scores' noise and for their maximum.
const samplingMoves = 5

// product makes the kernel of a dense product, after one that quantizes its input where
// the product is of quantized activations. The traces have that in norms and
// activations, which take as much longer.
func (e *graphed) product(l *analytic.Lowering, i int) {
	o := &l.Ops[i]
	if stream := l.Step.Scheme.Stream(); o.Format != stream && o.Format != unit.NoFormat {
		k := l.Launch(i, roofline.Elementwise, 1)
		values := o.Shape.M * o.Shape.K
		k.Work = roofline.Work{Acts: stream.Bytes(values) + o.Format.Bytes(values)}
		k.Graphed = true // no launch of its own
	}
	l.Launch(i, roofline.GEMM, 1)
}

// experts makes the grouped product of a layer's experts. In tiles of few pairs it
// streams the weights, in those of a prompt arithmetic and memory hide each other in part.
func (e *graphed) experts(l *analytic.Lowering, i int) {
	o := &l.Ops[i]
	if k := groupedKernel(l); k != nil {
		l.Beside(k, i)
		return
	}
	if groupedKnown(l.Constants, o.Scheme) {
		k := l.Launch(i, roofline.GroupedGEMM, 2)
		k.Permuted = l.Step.Bytes(o.Shape.Tokens * o.Shape.TopK * o.Shape.K)
		return
	}
	k := l.Launch(i, roofline.MoEPrefill, 1)
	if l.Next(i+1, operator.ExpertProduct) < 0 { // the last of them
		k.Unpermuted = l.Step.Bytes(o.Shape.Pairs * o.Shape.N)
	}
}

// groupedKernel is the kernel of all products of a layer's experts, nil ahead of it.
func groupedKernel(l *analytic.Lowering) *analytic.Kernel {
	for i := range l.Kernels {
		if k := &l.Kernels[i]; k.Class == roofline.GroupedGEMM {
			return k
		}
	}
	return nil
}

// piecewise marks the kernels that graphs of the layers' pieces launch, one graph
// between two attentions.
func (e *graphed) piecewise(l *analytic.Lowering) {
	called := false // one call does the attention of prompts and of sequences that decode
	for i := range l.Kernels {
		k := &l.Kernels[i]
		switch t := l.Ops[k.Main].Type; {
		case t.Kind() == operator.Attention && !called:
			k.Pieces, k.Dispatches, called = 1, 1, true
		case padded(t):
			k.Graphed = true
		}
	}
}

// dispatched counts what Python calls in a step that no graph holds: attention, the piece of
// the model behind it where the engine compiles those, the choice of experts and each of
// their products.
func (e *graphed) dispatched(l *analytic.Lowering) {
	called := false
	for i := range l.Kernels {
		k := &l.Kernels[i]
		switch t := l.Ops[k.Main].Type; {
		case t.Kind() == operator.Attention && !called:
			if k.Dispatches, called = 1, true; e.pieces > 0 {
				k.Dispatches = 2
			}
		case (t == operator.TopK || t == operator.ExpertProduct) && !e.oneCall:
			k.Dispatches = 1
		}
	}
}

// padded reports whether an operator runs on the rows that fill a graph up: attention
// has no work for them, and the LM head runs outside of the graph.
func padded(t operator.Type) bool {
	return t.Kind() != operator.Attention && t != operator.CacheWrite && t != operator.Head && t != operator.Sampling
}

// pad lets a kernel run on the rows of a graph. The rows that fill it up choose experts
// too.
func pad(k *analytic.Kernel, step *operator.Step, rows float64) {
	more := rows / step.Batch
	k.Shape.M *= more
	w, s := &k.Work, &k.Shape
	w.FLOPs, w.Vector, w.Acts = w.FLOPs.Times(more), w.Vector.Times(more), w.Acts.Times(more)
	w.Wire, w.NodeWire = w.Wire.Times(more), w.NodeWire.Times(more)
	if s.Hit > 0 {
		s.Tokens *= more
		hit, pairs := step.Chosen(s, s.Tokens)
		w.Weights = w.Weights.Times(hit / s.Hit)
		w.FLOPs = w.FLOPs.Times(pairs / s.Pairs / more)
		s.Hit, s.Pairs = hit, pairs
	}
	k.Permuted, k.Unpermuted = k.Permuted.Times(more), k.Unpermuted.Times(more)
}
