package engine

import (
	"llmprof/analytic"
	"llmprof/analytic/operator"
	"llmprof/hardware"
	"llmprof/models"
	"llmprof/roofline"
	"llmprof/unit"
)

// transformers is Hugging Face transformers, whose every line of PyTorch code is a kernel. Each decode step concatenates the KV cache anew.
var transformers = Engine{
	profile: analytic.Profile{
		Name:    "transformers",
		Aliases: []string{"hf", "huggingface"},
		Source: "Hugging Face transformers, eager: 13.9 ms a token for Llama-3.1-8B on an H200 and its host, about 1,300 launches; " +
			"another host took 28 ms",
		Constants: eagerConstants, Operators: eagerOperators, HostError: eagerHostError, Support: eagerRuns, Newest: true,
	},
	title: "transformers", mode: "eager", releases: eagerReleases(concatenated),
	lower: lowerEach, kinds: eagerKinds, kernels: kernels{operator.Attend: concatenated(eagerAttention)},
}

// transformersGraph is transformers with a KV cache of fixed length, which each decode step copies for every query head.
var transformersGraph = Engine{
	profile: analytic.Profile{
		Name: "transformers-graph",
		Source: "Hugging Face transformers, a static cache and decoding through a CUDA graph: fitted to the time per token of " +
			"Llama-3.1-8B on an H200",
		Constants: eagerConstants, Operators: eagerOperators, Graph: true, HostError: eagerHostError,
		FixedCache: func(*models.Model) bool { return true }, Support: eagerGraphRuns, Newest: true,
	},
	title: "transformers", mode: "graph", releases: eagerReleases(func(lower lowering) lowering { return lower }),
	lower: lowerEach, kinds: eagerKinds, kernels: kernels{operator.Attend: copiedAttention},
}

// elana is ELANA's benchmark (arXiv:2512.09946): it runs transformers in a CUDA graph with a KV
// cache that is neither of fixed length nor copied.
var elana = Engine{
	profile: analytic.Profile{
		Name:      "elana",
		Source:    "transformers in a CUDA graph without a static cache, as ELANA runs it; the constants of transformers-graph",
		Constants: eagerConstants, Operators: eagerOperators, Graph: true, HostError: eagerHostError, Support: eagerGraphRuns, Newest: true,
	},
	lower: lowerEach, kinds: eagerKinds,
}

// eagerKinds lowers operators by the kernels of modeling_llama.py of transformers 5.17.
var eagerKinds = [operator.Collective + 1]lowering{
	operator.GEMM: unpacked(eagerProduct), operator.Attention: eagerAttention, operator.Element: eagerElement,
	operator.Collective: eagerCollective,
}

// eagerRuns has no limits but formats: transformers has every model family of this program, and
// PyTorch has a backend for every vendor. On older GPUs transformers unpacks FP8 and MXFP4 to 16 bits when it loads
// a model (quantizer_finegrained_fp8.py, quantizer_mxfp4.py), and on all of them the weights of GGUF files
// (modeling_gguf_pytorch_utils.py).
var eagerRuns = analytic.Support{
	Default: true, Weights: []unit.Format{unit.BF16, unit.FP16, unit.FP32, unit.TF32, unit.FP8, unit.INT8, unit.INT4, unit.MXFP4},
	Since: map[unit.Format]float64{unit.FP8: 8.9, unit.MXFP4: 7.5},
	Acts:  []unit.Format{unit.BF16, unit.FP16, unit.FP32, unit.TF32, unit.FP8, unit.INT8, unit.MXFP4},
	GGUF:  analytic.NoGGUF,
}

// eagerGraphRuns is limited to vendors with CUDA graphs.
var eagerGraphRuns = analytic.Support{Vendors: []string{nvidia, amd}, GGUF: analytic.NoGGUF}

// eagerHostError is the relative error for another host: of two hosts that ran the same steps one
// took 10.7 µs a launch and the other 21.5 µs. "llmprof calibrate --engine transformers" measures
// the host of a machine.
const eagerHostError = 1.0

// eagerConstants sets constants that were fitted to Llama-3.1-8B on an H200
// (validate/observations/h200.csv). The time of a launch is the median of TPOT over the launches of
// an eager step, at batch 1 to 32. The time of a small kernel in a CUDA graph and the bandwidth
// of copies minimize the mean error of TPOT in a graph, at batch 1 to 32 and prompts of 128 to
// 4096 tokens.
func eagerConstants(c *roofline.Constants) {
	defaults{{roofline.HostLaunch, 10.7e-6}, {roofline.HostSmallKernel, 2.6e-6}, {roofline.AttentionCopies, 0.37}}.set(c)
	c[roofline.HostSmallKernel] = max(c[roofline.HostSmallKernel], c[roofline.GraphNode])
}

// unfusedPerSM is what an SM moves in PyTorch's element-wise kernels, each thread of which waits for
// the few bytes that it has asked for: the value with the least mean error of TTFT of Llama-3.1-8B
// in a graph on an H200. The memory of a GPU with less bandwidth for its SMs is the narrower of the two.
const unfusedPerSM unit.BytesPerSec = 18.4e9

// eagerOperators sets what products in FP32 and unfused kernels reach, which were timed on some boards.
func eagerOperators(g *hardware.GPU, c *hardware.Calibration) {
	c.Board = 0 // no table has PyTorch's products in 16 bits
	tabled("transformers")(g, c)
	if g.SMs > 0 && c.Constants[roofline.ElementwiseUnfused] == 0 {
		reach := float64(g.SMs) * float64(unfusedPerSM) / float64(g.Bandwidth)
		c.Constants[roofline.ElementwiseUnfused] = min(reach, c.Constants[roofline.ElementwiseMemory])
	}
}

// eagerCollective makes the kernel of a collective by NCCL, which has none over peer memory.
func eagerCollective(l *analytic.Lowering, i int) {
	if k := fused(l, i); k.Class == roofline.OneShotAllReduce {
		k.Class = roofline.AllReduce
	}
}

// eagerProduct makes a kernel of each matrix, all of which read the input, and of each expert, one
// after the other.
func eagerProduct(l *analytic.Lowering, i int) {
	o := &l.Ops[i]
	kernels := max(o.Shape.Matrices, 1)
	if o.Type == operator.Expand {
		kernels = 2
	}
	k := l.Launch(i, productClass(l, o), kernels*max(o.Shape.Hit, 1))
	if o.Shape.Matrices > 1 {
		k.Work.Acts += o.Format.Bytes(o.Shape.M * o.Shape.K * (o.Shape.Matrices - 1))
	}
}

func productClass(l *analytic.Lowering, o *operator.Op) roofline.Class {
	if o.Format == unit.FP32 && l.Constants[roofline.VectorGEMMCompute] != 0 {
		return roofline.VectorGEMM
	}
	return roofline.GEMM
}

// eagerAttention makes the kernel of attention, or those of what PyTorch has no kernel for.
func eagerAttention(l *analytic.Lowering, i int) {
	n := 1.0
	if t := l.Ops[i].Type; t == operator.Index || t == operator.ChunkedScan {
		n = 6
	}
	l.Launch(i, class(l, &l.Ops[i]), n)
}

// decodesPlain reports whether attention is that of a decode step with a KV cache of keys and values. A chunk of one token of a prompt is
// none.
func decodesPlain(l *analytic.Lowering, i int) bool {
	return l.Ops[i].Block.Attention.Latent == nil && l.Step.New == 1 && l.Step.Past > 0 && !l.Step.Prompt
}

// concatenated is attention after the concatenation of the KV cache in a decode step, which reads and writes the cache.
func concatenated(attend lowering) lowering {
	return func(l *analytic.Lowering, i int) {
		if attend(l, i); decodesPlain(l, i) {
			l.Launch(i, roofline.Elementwise, 0).Work = roofline.Work{KV: 2 * l.Ops[i].Work.KV}
		}
	}
}

// copiedAttention is attention on a copy of the KV cache in a decode step.
func copiedAttention(l *analytic.Lowering, i int) {
	if eagerAttention(l, i); decodesPlain(l, i) {
		k := &l.Kernels[len(l.Kernels)-1]
		k.Class, k.Work.Acts, k.Work.KV = roofline.AttentionCopied, 0, copied(l.Step, l.Ops[i].Block.Attention)
	}
}

// eagerReleases are those of transformers. Before its model families took PyTorch's scaled_dot_product_attention, attention wrote its
// scores to memory.
func eagerReleases(attention func(lowering) lowering) releases {
	return releases{timed: []string{"5.17"}, spread: 0.145, patches: []patch{{
		until: version{4, 46, 0}, what: "attention of some models writes its scores to memory", source: "transformers, modeling files",
		apply: func(e *Engine, at version) {
			now := e.kernels[operator.Attend]
			e.kernels[operator.Attend] = func(l *analytic.Lowering, i int) {
				since, ok := sdpa[l.Step.Model.Family]
				if !ok {
					since = version{4, 36}
				}
				if !at.before(since) || l.Ops[i].Block.Attention.Latent != nil {
					now(l, i)
					return
				}
				attention(scores)(l, i)
			}
		},
	}}}
}

// sdpa has the releases in which model families took PyTorch's scaled_dot_product_attention, if not in 4.36 as Llama did.
var sdpa = map[string]version{"gpt2": {4, 42}, "opt": {4, 46}}

// scores makes the kernels of attention without SDPA: the products of all queries with all keys and of the
// scores with the values, and three between them, which scale or mask, mask, and take the softmax.
func scores(l *analytic.Lowering, i int) {
	o, s := &l.Ops[i], l.Step
	a := o.Block.Attention
	values := s.Batch * s.New * (s.Past + s.New) * float64(a.Heads) / float64(s.Par.TP)
	k := l.Launch(i, productClass(l, o), 2)
	k.Work.FLOPs = unit.FLOPs(2 * float64(a.KeyDim+a.ValueDim) * values)
	k.Work.Vector = 0
	k.Work.Acts += s.Bytes(2 * values)
	k = l.Launch(i, roofline.SmallElementwise, 3)
	k.Work = roofline.Work{Acts: s.Bytes(3 * 2 * values)}
}

// copied is the traffic of attention if the keys and values of each KV head are copied for the r
// query heads that share it: they are read, r copies are written, and attention reads the
// copies. Without shared KV heads there is no copy.
//
//	bytes = (1 + 2r) · B · positions · heads_kv · (d_k + d_v) · a
func copied(s *operator.Step, a *models.Attention) unit.Bytes {
	positions := s.Cache
	if positions == 0 {
		positions = s.Keys(a)
	} else if a.Window > 0 {
		positions = min(positions, float64(a.Window))
	}
	moves, kv := 1.0, s.LocalKV(a)
	if r := float64(a.Heads) / float64(s.Par.TP) / kv; r > 1 {
		moves += 2 * r
	}
	return s.Scheme.KV.Bytes(moves * s.Batch * positions * kv * float64(a.EntryDim()))
}

// eagerElement makes the element-wise kernels of an operator, each of which reads and writes tensors.
// Where their bytes were not counted, each kernel after the second reads and writes half of the
// activations again.
func eagerElement(l *analytic.Lowering, i int) {
	o := &l.Ops[i]
	n, moved := unfused(l.Step, o)
	k := l.Launch(i, roofline.SmallElementwise, n)
	if k.Work.Acts = moved; moved == 0 {
		k.Work.Acts = o.Work.Acts.Times(max(1, n/2))
	}
}

// unfused is the number of kernels of an element-wise operator in PyTorch code, and the bytes
// that they move; 0 bytes if these were not counted. The counts are for modeling_llama.py of
// transformers 5.17: each kernel reads and writes each of its tensors once, and small tensors
// (means, cos and sin, weights of norms) are left out. testdata/unfused.py counts the tensors that
// torch dispatches, and a test compares the two.
func unfused(s *operator.Step, o *operator.Op) (kernels float64, moved unit.Bytes) {
	switch o.Type {
	case operator.Norm: // The residual sum goes with it, which reads two tensors and writes one.
		values := o.Shape.M * o.Shape.N
		n, each := unfusedNorm(s, &o.Norms[0])
		return n + 1, each.Times(values) + s.Bytes(3*values)
	case operator.Rotary:
		return unfusedRotary(s, o)
	case operator.NonLinear, operator.ExpertNonLinear:
		return unfusedActivation(s, o)
	case operator.CacheWrite:
		return 2, 0
	case operator.Conv:
		return 3, 0
	case operator.Sampling:
		return 4, 0
	case operator.TopK, operator.Scan:
		return 6, 0
	}
	return 1, 0
}

// unfusedNorm is the number of kernels of a norm, and the bytes that they move for each value of
// the residual stream. An RMSNorm goes through copies in float32:
//
//	to float32   reads a   writes 4     (unless the stream is float32)
//	square       reads 4   writes 4
//	mean         reads 4
//	add, rsqrt   of one value a row
//	multiply     reads 4   writes 4
//	to 16 bits   reads 4   writes a     (unless the stream is float32)
//	multiply     reads a   writes a
//
// A norm with a bias is a LayerNorm, which PyTorch runs as one kernel.
func unfusedNorm(s *operator.Step, n *models.Norm) (kernels float64, each unit.Bytes) {
	a := s.Bytes(1)
	switch {
	case n.Params > int64(n.Width)*int64(max(n.Heads, 1)):
		return 1, 2 * a
	case s.Scheme.Stream() == unit.FP32:
		return 6, 20 + 2*a
	}
	return 8, 28 + 4*a
}

// unfusedRotary is the kernels and bytes of the norms of queries and keys and of their rotation,
// q·cos + join(−q₂, q₁)·sin, which takes five kernels each: a product (1 read, 1 written), the
// negation of a half (½, ½), the join (1, 1), a product (1, 1), the sum (2, 1).
func unfusedRotary(s *operator.Step, o *operator.Op) (kernels float64, moved unit.Bytes) {
	for i := range o.Norms {
		if n := &o.Norms[i]; n.PerHead {
			launches, each := unfusedNorm(s, n)
			kernels += launches
			moved += each.Times(float64(n.Width) * float64(n.Heads) / float64(s.Par.TP))
		}
	}
	if a := o.Block.Attention; a.RotaryDim > 0 {
		kernels += 2 * 5
		moved += s.Bytes(10 * s.Rotated(a))
	}
	return kernels, moved.Times(s.Tokens())
}

// unfusedActivation is the kernels and bytes of act(gate)·up, where the function reads one value and
// writes one, and the product reads two and writes one; or of one kernel without a gate. GPT-2's
// GELU, ½x·(1 + tanh(c·(x + d·x³))), takes six kernels that read one value and write one, and two
// that read two: x + ... and the last product.
func unfusedActivation(s *operator.Step, o *operator.Op) (kernels float64, moved unit.Bytes) {
	kernels, values := 1.0, 2.0
	if o.Activation.Gated {
		kernels, values = 2, 5
	}
	if o.Activation.Spelled {
		kernels += 8 - 1
		values += 6*2 + 2*3 - 2
	}
	return kernels, s.Bytes(values * o.Shape.M * o.Shape.N)
}
