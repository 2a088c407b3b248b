package engine

import (
	"llmprof/analytic"
	"llmprof/analytic/operator"
	"llmprof/roofline"
	"llmprof/unit"
)

// fused is an engine with a kernel for each norm, each activation, and rotary embedding with
// cache write. GEMMs fuse nothing.
type fused struct{ profile analytic.Profile }

// Profile is what the engine adds to its kernels.
func (e *fused) Profile() *analytic.Profile { return &e.profile }

// Lower makes one kernel of every operator; the cache write joins rotary embedding.
func (e *fused) Lower(l *analytic.Lowering) {
	for i := range l.Ops {
		lowerFused(l, i)
	}
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

func lowerFused(l *analytic.Lowering, i int) *analytic.Kernel {
	o := &l.Ops[i]
	if o.Type == operator.CacheWrite && i > 0 && l.Ops[i-1].Type == operator.Rotary {
		k := &l.Kernels[len(l.Kernels)-1]
		l.Beside(k, i)
		return k
	}
	return l.Launch(i, class(l, o), launches(o, l.Step))
}

func class(l *analytic.Lowering, o *operator.Op) roofline.Class {
	switch o.Type.Kind() {
	case operator.GEMM:
		return roofline.GEMM
	case operator.Attention:
		return attentionClass(o)
	case operator.Collective:
		return collective(l, o)
	}
	return roofline.Elementwise
}

// gather turns an all-to-all of tokens between the ranks of EP into an all-gather, or into the reduce-scatter of
// the experts' results: each token is sent to every rank once, however many of its experts the rank has. This is
// vLLM's default (all2all_backend in vllm/config/parallel.py).
func gather(k *analytic.Kernel, s *operator.Step) {
	tokens := s.Bytes(s.Tokens() / float64(s.Par.TP) * float64(s.Model.Hidden))
	operator.AllGather(&k.Work, tokens, float64(s.Par.EP), k.Shape.Ranks)
}

// oneShotBytes is the largest all-reduce that vLLM and TensorRT-LLM do by custom
// kernels over peer memory. NCCL does larger ones.
const oneShotBytes = unit.Bytes(8e6)

func attentionClass(o *operator.Op) roofline.Class {
	latent := o.Type == operator.Attend && o.Block.Attention.Latent != nil
	switch {
	case o.Type == operator.ChunkedScan:
		return roofline.ChunkedScan
	case latent && o.Decode:
		return roofline.LatentDecode
	case latent:
		return roofline.LatentPrefill
	case o.Decode:
		return roofline.AttentionDecode
	}
	return roofline.AttentionPrefill
}

// collective is the class of a collective, which follows from its transport.
func collective(l *analytic.Lowering, o *operator.Op) roofline.Class {
	switch {
	case int(o.Shape.Ranks) > l.GPU.LinkGPUs:
		return roofline.PCIeCollective
	case o.Work.Wire <= oneShotBytes && o.Work.NodeWire == 0:
		return roofline.OneShotAllReduce
	}
	return roofline.AllReduce
}
