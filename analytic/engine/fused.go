package engine

import (
	"llmprof/analytic"
	"llmprof/operator"
	"llmprof/roofline"
	"llmprof/unit"
)

// fused is an engine whose norms, activations, rotary embedding and cache writes are one
// kernel each, none of them within a product.
type fused struct{ profile analytic.Profile }

// Profile is what the engine adds to its kernels.
func (e *fused) Profile() *analytic.Profile { return &e.profile }

// Lower makes one kernel of every operator but the cache write, which the rotation does.
func (e *fused) Lower(l *analytic.Lowering) {
	for i := range l.Ops {
		lowerFused(l, i)
	}
	exchanges(l)
}

// exchanges says how many exchanges over peer memory small all-reduces take, where their times are known.
func exchanges(l *analytic.Lowering) {
	if l.Constants[roofline.OneShotSecond] == 0 {
		return
	}
	for i := range l.Kernels {
		k := &l.Kernels[i]
		if k.Class == roofline.OneShotAllReduce && l.Ops[k.Main].Type == operator.Reduce && !l.Step.Par.SP {
			k.Exchange(OneShotBytes)
		}
	}
}

// launches is how many kernels an operator takes where it takes more than one.
func launches(o *operator.Op, s *operator.Step) float64 {
	switch {
	case o.Type == operator.ChunkedScan:
		return 4 // scores, states, their recurrence, outputs
	case o.Type == operator.Index, o.Type == operator.Reduce && s.Par.SP: // reduce-scatter and all-gather
		return 2
	case o.Type == operator.Expand && o.Decode: // ahead of attention and behind it
		return 2
	}
	return 1
}

// lowerFused appends the kernel of operator i.
func lowerFused(l *analytic.Lowering, i int) *analytic.Kernel {
	o := &l.Ops[i]
	if o.Type == operator.CacheWrite && i > 0 && l.Ops[i-1].Type == operator.Rotary {
		k := &l.Kernels[len(l.Kernels)-1]
		l.Beside(k, i)
		return k
	}
	return l.Launch(i, class(l, o), launches(o, l.Step))
}

// class is the class of kernels that does an operator by itself.
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

// gather makes an exchange of tokens between the ranks of EP an all-gather of them, or the
// reduce-scatter that sums what the ranks made of them: each token goes to every rank once, however many of its
// experts that one has. It is vLLM's way where no other is chosen (all2all_backend in vllm/config/parallel.py).
func gather(k *analytic.Kernel, s *operator.Step) {
	n, near := float64(s.Par.EP), k.Shape.Ranks
	tokens := s.Bytes(s.Tokens() / float64(s.Par.TP) * float64(s.Model.Hidden))
	k.Work.Wire, k.Work.NodeWire = tokens.Times(near-1), tokens.Times(n-near)
}

// oneShotBytes is the largest all-reduce that vLLM and TensorRT-LLM do by custom
// kernels over peer memory. NCCL does larger ones.
const oneShotBytes = unit.Bytes(8e6)

// attentionClass is the class of kernels that does attention or a scan.
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

// collective is the transport of a collective.
func collective(l *analytic.Lowering, o *operator.Op) roofline.Class {
	switch {
	case int(o.Shape.Ranks) > l.GPU.LinkGPUs:
		return roofline.PCIeCollective
	case o.Work.Wire <= oneShotBytes && o.Work.NodeWire == 0:
		return roofline.OneShotAllReduce
	}
	return roofline.AllReduce
}
