package engine

import (
	"math"
	"slices"

	"llmprof/analytic"
	"llmprof/analytic/operator"
	"llmprof/models"
	"llmprof/roofline"
	"llmprof/unit"
)

// The largest batch sizes for which the native engine's kernels decode. Package
// measure/native takes them from here.
const (
	SkinnyRows    = 16 // skinny GEMM, with 16-bit weights
	WGMMARows     = 64 // wgmma GEMM, with 16-bit weights, of dense models on compute capability 9.0
	QuantizedRows = 32 // skinny GEMM with quantized weights
	MoEDecodeRows = 64 // one kernel of router, top-k and experts, with 16-bit weights
	PairRows      = 16 // the first GEMM of that kernel reads an expert once for each of its tokens
	PersistentRow = 1  // one persistent kernel for a layer with a mixture of experts, on one GPU

	GroupPairs = 8 // token-expert pairs of one expert that a decode step multiplies together
)

// NativeFamilies are the model families whose results of the native engine agree with those of
// transformers.
var NativeFamilies = []string{"llama", "mistral", "qwen2", "qwen3", "gemma", "gemma2", "gemma3", "qwen3_moe", "mixtral"}

var native = Engine{lower: lowerNative, profile: analytic.Profile{
	Name: "native",
	Source: "llmprof's own: one CUDA graph a decode step. Fused in decode: RoPE and KV write into attention; norms and activation " +
		"into GEMMs up to batch 16 (dense models on one Hopper GPU: 64; quantized weights: 32) (docs/native.md); 20 µs to read the " +
		"token back assumed",
	Constants: nativeConstants.set, Graph: true, TextAlone: true, FixedCache: func(m *models.Model) bool { return outgrown(m, math.Inf(1)) },
	Support: analytic.Support{
		Default: true, Vendors: []string{nvidia}, Capability: 7, Families: NativeFamilies, GGUF: analytic.NoGGUF,
		Weights: []unit.Format{unit.BF16, unit.FP16, unit.FP8, unit.INT4}, Acts: []unit.Format{unit.BF16, unit.FP16},
		KV: []unit.Format{unit.BF16, unit.FP16},
	},
	Switches: []float64{PersistentRow, SkinnyRows, QuantizedRows, WGMMARows},
}}

// nativeConstants sets the constants of the host, and of attention by mma on Hopper: FlashAttention-2,
// which uses mma, reaches 35 % of the peak there (FlashAttention-3, arXiv:2407.08608).
var nativeConstants = defaults{{roofline.HostStep, 20e-6}, {roofline.AttentionMMACompute, 0.35}}

// lowerNative makes the kernels of a part of a step of the native engine.
func lowerNative(_ *Engine, l *analytic.Lowering) {
	n := nativeStep{Lowering: l}
	n.choose()
	for i := range l.Ops {
		if n.fused&(1<<i) == 0 {
			n.lower(i)
		}
	}
	n.persist()
}

// A nativeStep is a part of a step of the native engine, with the choice of kernels for its batch.
type nativeStep struct {
	*analytic.Lowering
	decode    bool
	skinny    bool   // GEMMs and LM head are skinny GEMMs
	wgmma     bool   // GEMMs and LM head are wgmma GEMMs
	quantized bool   // dense matrices are quantized
	fuses     bool   // GEMMs of the blocks fuse norms and activation
	fused     uint64 // bits of the operators that an earlier kernel does
}

func (n *nativeStep) choose() {
	s := n.Step
	n.decode = s.Decode()
	n.quantized = s.Dense.Weights != s.Dense.Stream()
	n.skinny = n.decode && s.Batch <= SkinnyRows
	n.wgmma = n.decode && !n.skinny && !n.quantized && s.Batch <= WGMMARows && n.GPU.ComputeCapability == "9.0" && tiles(s.Model, s.Par.TP)
	n.fuses = n.skinny || n.wgmma
	if n.quantized {
		n.fuses = n.decode && s.Batch <= QuantizedRows
	}
}

// tiles reports whether a model's GEMMs can run by wgmma: the model is dense, has no norms after
// its blocks, and the inputs of its matrices are multiples of 64 on each GPU.
func tiles(m *models.Model, tp int) bool {
	whole := func(linears []models.Linear, ranks int) bool {
		return !slices.ContainsFunc(linears, func(l models.Linear) bool { return l.In%(64*ranks) != 0 })
	}
	return !m.Any(func(b *models.Block) bool {
		return b.Experts != nil || b.Scan != nil || len(b.Norms) != 1 && b.Attention == nil || !whole(b.In, 1) || !whole(b.Out, max(1, tp))
	})
}

// known reports whether a constant was measured, and with it the kernels of its class.
func (n *nativeStep) known(c roofline.Constant) bool { return n.Constants[c] > 0 }

// lower appends the kernel of operator i, with those that it fuses.
func (n *nativeStep) lower(i int) {
	switch o := &n.Ops[i]; o.Type {
	case operator.Norm:
		n.norm(i)
	case operator.Product:
		n.product(i)
	case operator.Router:
		n.router(i)
	case operator.TopK:
		n.topK(i)
	case operator.ExpertProduct:
		n.experts(i)
	case operator.Rotary, operator.CacheWrite:
		n.rotary(i)
	case operator.Reduce:
		n.reduce(i)
	case operator.Head:
		n.Launch(i, n.class(n.skinny), 1)
	case operator.Attend:
		if k := fused(n.Lowering, i); k.Class == roofline.AttentionPrefill && n.byMMA(o.Block.Attention) {
			k.Class = roofline.AttentionMMA
		}
	default:
		lowerFused(n.Lowering, i)
	}
}

// byMMA reports whether prefill attention on Hopper runs by mma. The wgmma kernel supports neither
// windows shorter than the context, nor soft caps, nor heads of more than 128 values.
func (n *nativeStep) byMMA(a *models.Attention) bool {
	if n.GPU.Generation != "hopper" {
		return false
	}
	return a.Softcap || a.KeyDim > 128 || outgrown(n.Step.Model, n.Step.Cache-1)
}

// outgrown reports whether a context is longer than the window of a layer.
func outgrown(m *models.Model, context float64) bool {
	return m.Any(func(b *models.Block) bool {
		return b.Attention != nil && b.Attention.Window > 0 && context > float64(b.Attention.Window)
	})
}

func (n *nativeStep) class(skinny bool) roofline.Class {
	switch {
	case skinny:
		return roofline.SkinnyGEMM
	case n.wgmma && n.known(roofline.WGMMAMemory):
		return roofline.WGMMAGEMM
	}
	return roofline.GEMM
}

func (n *nativeStep) join(k *analytic.Kernel, i int) {
	n.Fuse(k, i)
	n.fused |= 1 << i
}

// norm lowers a norm together with the GEMM that has it as its prologue. With sequence parallelism
// there is an all-gather between the two, and the norm has a separate kernel.
func (n *nativeStep) norm(i int) {
	o, s := &n.Ops[i], n.Step
	first := i == 0 || n.Ops[i-1].Block != o.Block
	reader := -1
	switch b := o.Block; {
	case s.Par.SP:
	case n.Part == operator.PartLast:
		last := i+1 < len(n.Ops) && n.Ops[i+1].Type == operator.Head
		if last && (n.skinny || n.wgmma) {
			reader = i + 1
		}
	case b == nil || !first:
	case len(b.In) > 0 && n.fuses:
		reader = n.Next(i, operator.Product)
	case len(b.In) == 0 && b.Experts != nil && (n.skinny || n.wgmma):
		reader = n.Next(i, operator.Router)
	}
	if reader < 0 || n.Ops[reader].Block != o.Block {
		k := n.Launch(i, roofline.Elementwise, 1)
		if n.Part == operator.PartLast && s.Logits > 0 && s.Logits < s.New { // the last token alone
			k.Work = o.Work.Scale(s.Logits / s.New)
			k.Work.Weights = o.Work.Weights
			k.Partial = true
		}
		return
	}
	begun := len(n.Kernels)
	n.lower(reader)
	n.fused |= 1 << reader
	n.join(&n.Kernels[begun], i)
}

// product lowers a GEMM with the activation of a dense feed-forward as its epilogue.
func (n *nativeStep) product(i int) {
	k := n.multiply(i, n.class(n.skinny && !n.quantized))
	if j := i + 1; n.fuses && j < len(n.Ops) && n.Ops[j].Type == operator.NonLinear && n.Ops[j].Activation == &n.Ops[j].Block.Activation {
		n.join(k, j)
	}
}

// multiply lowers the GEMM of operator i. Quantized weights that no kernel dequantizes in registers are first
// written to memory in 16 bits, those of all experts of the rank.
func (n *nativeStep) multiply(i int, class roofline.Class) *analytic.Kernel {
	o := &n.Ops[i]
	if o.Scheme == roofline.Unquantized || n.decode && n.Step.Batch <= QuantizedRows {
		return n.Launch(i, class, 1)
	}
	read, all := 1.0, 1.0
	if o.Type == operator.ExpertProduct {
		read, all = o.Shape.Hit, o.Shape.Experts/float64(n.Step.Par.EP)
	}
	matrix := o.Format.Bytes(o.Shape.N * o.Shape.K)
	n.Launch(i, roofline.Elementwise, 1).Work = roofline.Work{Weights: o.Work.Weights.Times(all / read), Acts: matrix.Times(all)}
	k := n.Launch(i, class, 1)
	k.Work.Weights, k.Scheme = matrix.Times(read), roofline.Unquantized
	return k
}

// rotary lowers rotary embedding and cache write into decode attention, unless other kernels lie
// between them.
func (n *nativeStep) rotary(i int) {
	a := n.Ops[i].Block.Attention
	if !n.decode || a.Latent != nil || a.Indexer != nil {
		lowerFused(n.Lowering, i)
		return
	}
	at := n.Next(i, operator.Attend)
	k := fused(n.Lowering, at)
	n.fused |= 1 << at
	for j := i; j < at; j++ {
		n.join(k, j)
	}
}

// reduce lowers an all-reduce, which the GEMMs before it fuse if they write their sums to peer memory.
func (n *nativeStep) reduce(i int) {
	o := &n.Ops[i]
	within := (n.skinny || n.wgmma) && !n.quantized && o.Block != nil && o.Block.Experts == nil && !n.Step.Par.SP
	class := collective(n.Lowering, o)
	message := o.Work.Wire.Times(o.Shape.Ranks / (2 * (o.Shape.Ranks - 1)))
	if within && class == roofline.OneShotAllReduce && FusesAllReduce(int(o.Shape.Ranks), message, n.wgmma) {
		class = roofline.FusedAllReduce
	}
	k := n.Launch(i, class, launches(o, n.Step))
	if class != roofline.PCIeCollective && !n.Step.Par.SP && o.Work.NodeWire == 0 {
		k.Exchange(OneShotBytes)
		if class == roofline.AllReduce { // over peer memory too
			k.Class = roofline.OneShotAllReduce
		}
	}
}

// FusedRanks is the most ranks for which the wgmma GEMM fuses messages of any size. The
// separate all-reduce took longer than OneShotBytes assumes: on four H200s a step of
// llama3.1-8b at batch 32 took 2.31 ms with the fused all-reduce and 2.73 ms with the separate
// one (docs/log/native-experiments.md).
const FusedRanks = 4

// FusesAllReduce reports whether GEMMs fuse the all-reduce of a message in 16 bits: they do while
// one-shot all-reduce is faster than two-shot. A skinny GEMM writes 4 bytes to every rank for
// every byte of the message, a wgmma GEMM 2.
func FusesAllReduce(ranks int, message unit.Bytes, wgmma bool) bool {
	if wgmma {
		return ranks <= FusedRanks || 2*message <= OneShotBytes(ranks)
	}
	return 4*message <= OneShotBytes(ranks)
}

// OneShotBytes is the largest message of a one-shot all-reduce, in which every rank reads the
// message of all ranks. In a two-shot all-reduce each rank sums a slice. One shot reads (n-1)·M of
// a message of M bytes; two shots read 2(n-1)/n·M and need one more barrier, so they are even at
//
//	M = latency · bandwidth / ((n-1)(1 - 2/n))
//
// and never for two ranks. For the native engine the latency is that of a barrier, assumed to be 2 µs, and the
// bandwidth that of NVLink 4 in one direction (hardware.toml). vLLM's kernels take 3 µs for the second exchange at
// 0.63 times that bandwidth: latency times bandwidth is about the same. vLLM itself takes two shots beyond 512 KiB
// among 4 ranks and beyond 256 KiB among 8 (csrc/custom_all_reduce.cuh); this function gives 600 and 171 kB.
func OneShotBytes(ranks int) unit.Bytes {
	const latency, bandwidth = 2e-6, 450e9
	if ranks <= 2 {
		return unit.Bytes(math.Inf(1))
	}
	n := float64(ranks)
	return unit.Bytes(latency * bandwidth / ((n - 1) * (1 - 2/n)))
}
