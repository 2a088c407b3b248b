package engine

import (
	"llmprof/analytic"
	"llmprof/analytic/operator"
	"llmprof/roofline"
)

// An expertHost is what the host of a server does for the experts of a layer where no CUDA graph launches them.
type expertHost func(l *analytic.Lowering, product *operator.Op) expertWork

// An expertWork is the work of an expertHost.
type expertWork struct {
	routing float64 // Python calls of the choice of experts
	calls   float64 // Python calls of each GEMM
	// Kernels beside both grouped GEMMs of a layer, whose times operator tables include but which the host launches one by one.
	helpers float64
	mapping float64 // launches between the choice of experts and their products that the tables do not have, as those of ranks of EP
}

// routingKernels are kernels that route the tokens of a layer to its experts, and sum the results.
const routingKernels = 5

// plainHost is that of engines whose Python code calls the routing and each GEMM. The kernels beside the GEMMs are the routing and the
// activation (a trace of vLLM in 16 bits in experiments/vllm-host/h200); the kernels of other engines and formats were not traced, and are
// taken to be as many, with one before each GEMM that quantizes its inputs.
func plainHost(l *analytic.Lowering, o *operator.Op) expertWork {
	work := expertWork{routing: 1, calls: 1, helpers: routingKernels + 1}
	if o.Format != l.Step.Scheme.Stream() {
		work.helpers += 2
	}
	return work
}

// tritonHost is plainHost, but for OpenAI's Triton kernels, which run experts in MXFP4 on Hopper. They take two calls each, of the function
// that prepares the kernel and of Triton's launcher: four kernels of the routing (top-k, rows of the bit matrix, and two that sort), two
// GEMMs, and the sum of their results. A trace of a prompt of gpt-oss-20b shows that these seven take the host 34 times the launch of a
// compiled kernel (experiments/h100-vllm-ep).
//
// A rank of EP finds its own experts by further kernels, where other ranks take the choice of experts as it is: the choice is widened,
// mapped and narrowed; a bit matrix is cleared and packed; the weights of other ranks' experts are masked by a comparison, a constant and
// a selection; and sums are cleared (triton_kernel_moe_forward and make_routing_data of gpt_oss_triton_kernels_moe.py).
var tritonHost expertHost = func(l *analytic.Lowering, o *operator.Op) expertWork {
	if !tritonMXFP4(l.GPU, o.Scheme) {
		return plainHost(l, o)
	}
	const routing = 4
	work := expertWork{routing: 2 * routing, calls: 2 + 1, helpers: routing + 1} // two calls of each GEMM and of the sum behind both
	if l.Step.Par.EP > 1 {
		work.mapping = 9
	}
	return work
}

// route makes the kernels that choose the experts: gating, fill, the sum of the experts'
// results and, for several tokens, two kernels that sort the token-expert pairs. The times of
// grouped GEMMs in operator tables include all of these, for their collectors hand the router's logits
// to the engine's experts (collect_moe.py of aiconfigurator).
func (host expertHost) route(l *analytic.Lowering, i int) {
	n, work := 3.0, expertWork{routing: 1}
	if l.Step.Tokens() > 1 {
		n = routingKernels
	}
	if j := l.Next(i, operator.ExpertProduct); j >= 0 {
		if work = host(l, &l.Ops[j]); groupedKnown(l.Constants, l.Ops[j].Scheme) {
			n = work.mapping
		}
	}
	if n > 0 {
		l.Launch(i, roofline.Elementwise, n).Calls = work.routing
	}
}

// products makes the kernels of experts of which a rank is sent the tokens of its own alone.
func (host expertHost) products(l *analytic.Lowering, i int) { host.multiply(l, i, false) }

// productsOfAll makes the kernels of experts of ranks each of which has the tokens of all: kernels move those of other ranks' experts too.
func (host expertHost) productsOfAll(l *analytic.Lowering, i int) { host.multiply(l, i, true) }

func (host expertHost) multiply(l *analytic.Lowering, i int, all bool) {
	o, p := &l.Ops[i], l.Step.Par
	work := host(l, o)
	if k := groupedKernel(l); k != nil {
		l.FuseInputs(k, i)
		return
	}
	if !groupedKnown(l.Constants, o.Scheme) {
		k := l.Launch(i, roofline.MoEPrefill, 1)
		k.Calls = work.calls
		if l.Next(i+1, operator.ExpertProduct) < 0 { // last grouped GEMM of the layer
			k.Unpermuted = l.Step.Bytes(o.Shape.Pairs * o.Shape.N)
		}
		return
	}
	k := l.Launch(i, roofline.GroupedGEMM, 2)
	k.Shape.Ranks, k.Helpers, k.Calls = float64(p.EP), work.helpers, 2*work.calls
	pairs := o.Shape.Tokens * o.Shape.TopK
	if p.ExpertReplicas() > 1 && !p.GathersTokens() && !all {
		pairs = o.Shape.Pairs
	}
	k.Permuted = l.Step.Bytes(pairs * o.Shape.K)
	if j := l.Next(0, operator.TopK); j >= 0 && work.mapping == 0 {
		l.Fuse(k, j)
		k.Calls += work.routing
	}
}

// activate adds the activation of experts to their grouped GEMMs, if there are any.
func activate(l *analytic.Lowering, i int) {
	if k := groupedKernel(l); k != nil {
		l.Fuse(k, i)
		return
	}
	lowerFused(l, i)
}

// groupedKnown reports whether the times of grouped GEMMs of a scheme are known.
func groupedKnown(c *roofline.Constants, s roofline.Scheme) bool {
	return c[roofline.GroupedOf(s)] != 0
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
