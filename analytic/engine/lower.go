package engine

import (
	"slices"

	"llmprof/analytic"
	"llmprof/analytic/operator"
	"llmprof/models"
	"llmprof/roofline"
	"llmprof/unit"
)

// A lowering appends the kernels of operator i of a part of a step.
type lowering func(l *analytic.Lowering, i int)

// kernels has a lowering for each type of operators; nil for one kernel.
type kernels [operator.Send + 1]lowering

// lowerEach lowers one operator after the other.
func lowerEach(e *Engine, l *analytic.Lowering) {
	for i := range l.Ops {
		e.lowerOne(l, i)
	}
}

// lowerOne makes the kernels of operator i.
func (e *Engine) lowerOne(l *analytic.Lowering, i int) {
	t := l.Ops[i].Type
	switch {
	case t == operator.Encode:
		l.Launch(i, roofline.GEMM, encoderLaunches)
	case e.kernels[t] != nil:
		e.kernels[t](l, i)
	case e.kinds[t.Kind()] != nil:
		e.kinds[t.Kind()](l, i)
	default:
		lowerFused(l, i)
	}
}

// encoderLaunches are the kernels of an encoder for each of its products: a layer of 4 has 12, with norms, rotary positions, attention, the
// activation and sums, which no CUDA graph launches (vllm/model_executor/models/qwen3_vl.py).
const encoderLaunches = 3

// lowerPlain makes one kernel of every operator; the cache write joins rotary embedding. GEMMs fuse nothing.
func lowerPlain(e *Engine, l *analytic.Lowering) {
	lowerEach(e, l)
	exchanges(l)
}

// exchanges sets how many exchanges over peer memory small all-reduces take, if their times are known.
func exchanges(l *analytic.Lowering) {
	if l.Constants[roofline.OneShotSecond] == 0 && l.Constants[roofline.OneShotSlicedShare] == 0 {
		return
	}
	for i := range l.Kernels {
		k := &l.Kernels[i]
		if k.Class == roofline.OneShotAllReduce && l.Ops[k.Main].Type == operator.Reduce && !l.Step.Par.SP {
			k.Exchange(OneShotBytes)
		}
	}
}

func launches(o *operator.Op, s *operator.Step) float64 {
	switch {
	case o.Type == operator.ChunkedScan:
		return 4 // scores, states, their recurrence, outputs
	case o.Type == operator.Index, o.Type == operator.Reduce && s.Par.SP: // reduce-scatter and all-gather
		return 2
	case o.Type == operator.Expand && o.Decode: // one before attention and one after it
		return 2
	}
	return 1
}

// lowerFused makes one kernel of an operator, or adds the cache write to the kernel of rotary embedding.
func lowerFused(l *analytic.Lowering, i int) { fused(l, i) }

func fused(l *analytic.Lowering, i int) *analytic.Kernel {
	o := &l.Ops[i]
	if o.Type == operator.CacheWrite && i > 0 && l.Ops[i-1].Type == operator.Rotary {
		k := &l.Kernels[len(l.Kernels)-1]
		l.FuseInputs(k, i)
		return k
	}
	return l.Launch(i, class(l, o), launches(o, l.Step))
}

func class(l *analytic.Lowering, o *operator.Op) roofline.Class {
	latent := o.Type == operator.Attend && o.Block.Attention.Latent != nil
	switch kind := o.Type.Kind(); {
	case kind == operator.GEMM:
		return roofline.GEMM
	case kind == operator.Collective:
		return collective(l, o)
	case o.Type == operator.Conv, o.Type == operator.Scan, o.Type == operator.ChunkedScan:
		return recurrence(l, o)
	case kind == operator.Element:
		return roofline.Elementwise
	case latent && o.Decode:
		return roofline.LatentDecode
	case latent:
		return roofline.LatentPrefill
	case o.Decode:
		return roofline.AttentionDecode
	}
	return roofline.AttentionPrefill
}

// oneShotBytes is the largest all-reduce that vLLM and TensorRT-LLM do by custom
// kernels over peer memory. NCCL does larger ones.
const oneShotBytes = unit.Bytes(8e6)

// collective is the class of a collective, which follows from its transport.
func collective(l *analytic.Lowering, o *operator.Op) roofline.Class {
	switch {
	case int(o.Shape.Ranks) > l.GPU.Joined():
		return roofline.PCIeCollective
	case o.Work.Wire <= oneShotBytes && o.Work.NodeWire == 0:
		return roofline.OneShotAllReduce
	}
	return roofline.AllReduce
}

// separate makes one element-wise kernel of an operator.
func separate(l *analytic.Lowering, i int) { l.Launch(i, roofline.Elementwise, 1) }

// rotary makes the kernels of rotary embedding, of which norms of queries and keys take one more.
func rotary(l *analytic.Lowering, i int) {
	if separate(l, i); headNorms(&l.Ops[i]) {
		l.Kernels[len(l.Kernels)-1].Launches = 2
	}
}

// headNorms reports whether rotary embedding has norms of queries and keys ahead of it.
func headNorms(o *operator.Op) bool {
	return slices.ContainsFunc(o.Norms, func(n models.Norm) bool { return n.PerHead })
}

// sampling makes so many small kernels between the logits and the inputs of the next step. In multiples of the logits' bytes in 16
// bits they move 5: a copy to float32 is written (2), then read for the noise and for the maximum.
func sampling(launches float64) lowering {
	return func(l *analytic.Lowering, i int) {
		k := l.Launch(i, roofline.SmallElementwise, launches)
		k.Work.Acts = k.Work.Acts.Times(5)
		k.Graphed = true // HostAsync includes these launches
	}
}

// product makes the kernel of a GEMM, after the work of quantizing its input.
func product(l *analytic.Lowering, i int) {
	if !joins(l, i) {
		quantize(l, i)
		l.Launch(i, roofline.GEMM, 1)
	}
}

// quantize makes the work of quantizing the input of a GEMM. In traces that work is part of the norm or activation kernel before, which
// takes longer by as much, so it has no launch.
func quantize(l *analytic.Lowering, i int) {
	o, stream := &l.Ops[i], l.Step.Scheme.Stream()
	if o.Format == stream || o.Format == unit.NoFormat {
		return
	}
	values := o.Shape.M * o.Shape.K
	k := l.Launch(i, roofline.Elementwise, 1)
	k.Work, k.Graphed = roofline.Work{Acts: stream.Bytes(values) + o.Format.Bytes(values)}, true
}

// joins adds a projection to an earlier GEMM of the block with the same inputs, and reports whether there is one. All three engines load
// the projection of latent attention's keys and values as one matrix with that of its queries (fused_qkv_a_proj of vLLM,
// fused_qkv_a_proj_with_mqa of SGLang, kv_a_proj_with_mqa of TensorRT-LLM). Those of sparse attention's indexers and compressors are joined
// too, or run in streams beside it (wk_weights_proj and DeepSeek-V4's alt_streams).
func joins(l *analytic.Lowering, i int) bool {
	o := &l.Ops[i]
	if o.Name != "kv_a_proj" && (o.Block == nil || !sparse(o.Block.Attention) || o.Type != operator.Product) {
		return false
	}
	for j := len(l.Kernels) - 1; j >= 0; j-- {
		k := &l.Kernels[j]
		q := &l.Ops[k.Main]
		if q.Type == operator.Attend || q.At != o.At {
			return false // what follows has other inputs
		}
		if k.Class == roofline.GEMM && q.Type == operator.Product && q.Shape.K == o.Shape.K {
			l.FuseInputs(k, i)
			k.Work.Acts -= o.Format.Bytes(o.Shape.M * o.Shape.K)
			k.Shape.N += o.Shape.N
			return l.Part != operator.PartLast
		}
	}
	return false
}

// gather turns an all-to-all of tokens between the ranks of EP into an all-gather, or into the reduce-scatter of
// the experts' results: each token is sent to every rank once, however many of its experts the rank has. This is
// vLLM's default (all2all_backend in vllm/config/parallel.py).
func gather(l *analytic.Lowering, i int) {
	s, k := l.Step, fused(l, i)
	tokens := s.Bytes(s.Tokens() / float64(s.Par.TP) * float64(s.Model.Hidden))
	operator.AllGather(&k.Work, tokens, float64(s.Par.EP), k.Shape.Ranks)
}
