package engine

import (
	"fmt"
	"math"
	"strings"

	"llmprof/analytic"
	"llmprof/analytic/operator"
	"llmprof/hardware"
	"llmprof/internal/printable"
	"llmprof/models"
	"llmprof/roofline"
	"llmprof/unit"
)

var llamaCPPScheduler = sized{Scheduler: Scheduler{Name: "llama.cpp", Budget: 2048, Pass: 512, MaxSeqs: 4, Block: 1, Admission: ForSlot,
	Mixed: true}}

// llamaCPP is llama.cpp, which Ollama runs too. Its CUDA backend keeps activations in FP32 and has kernels that unpack quantized weights.
var llamaCPP = Engine{
	lower: lowerPlaced,
	kernels: kernels{
		operator.Embedding: ggmlEmbedding, operator.Norm: ggmlNorm, operator.Product: ggmlProduct, operator.Router: ggmlProduct,
		operator.Head: ggmlProduct, operator.Expand: ggmlProduct, operator.ExpertProduct: ggmlExperts, operator.Rotary: ggmlRotary,
		operator.CacheWrite: ggmlCacheWrite, operator.Attend: ggmlAttention, operator.NonLinear: ggmlActivation,
		operator.ExpertNonLinear: ggmlActivation, operator.TopK: ggmlRouting, operator.Sampling: ggmlLogits,
	},
	schedulers: []sized{llamaCPPScheduler}, launch: llamaCPPLaunch, resolve: slotsThatFit,
	options: map[string]func(*Engine){noGraphs: func(e *Engine) { e.profile.Graph = false }},
	profile: analytic.Profile{
		Name: "llama.cpp", Aliases: []string{"llamacpp", "llama-cpp", "ollama", "gguf"},
		Source: "llama.cpp v0.5.0 on an H100 and its host, kernels of llama3.1-8b in q4_k_m, q8_0 and f16 " +
			"(experiments/h100-llamacpp); arithmetic goes with the FP32 peak of other GPUs, reads with their bandwidth, which nobody " +
			"here has measured; choosing a token on the host is not in it",
		Constants: ggmlConstants, Operators: ggmlOperators, DenseExperts: vecRows,
		Graph:  true, // after two steps of equal shape (ggml_backend_cuda_graph_compute), every 256 tokens
		Budget: llamaCPPScheduler.pass, Switches: []float64{1, vecRows, floatRows}, HostError: 0.5,
		Allocate: ggmlAllocation, HostEmbedding: true, Cache: unit.FP16, // --cache-type-k and --cache-type-v
		State: statesIn(unit.FP32), Conv: unit.FP32, // recurrent_type_r and recurrent_type_s (src/llama-model.cpp), which no flag changes
		Support: analytic.Support{
			Default: true, Vendors: []string{nvidia, amd, intel, apple}, Capability: 6,
			Not: []string{"bailing_moe_linear", "bailing_moe_v2_5", "bamba", "gpt_neo", "gptj", "internlm", "minimax_m1", "opt",
				"recurrent_gemma", "rwkv", "zamba2"},
			Split:   wholeModels,
			Weights: ggmlWeights, GGUF: analytic.OnlyGGUF, Lacks: map[string][]unit.Format{"gaudi3": ggmlWeights}, // no backend reaches Gaudi
			Acts: []unit.Format{unit.FP32, unit.FP16, unit.BF16, unit.INT8},
			KV:   []unit.Format{unit.FP32, unit.FP16, unit.BF16, unit.INT8, unit.INT4},
		},
	},
}

// wholeModels is the rule of --split-mode: a server divides a model by layers or by rows of matrices, experts included.
func wholeModels(p *operator.Parallelism) string {
	if why := sharesWhole(p); why != "" || p.EP <= 1 {
		return why
	}
	return fmt.Sprintf("has no expert parallelism: want tp or pp, not ep %d", p.EP)
}

// noGraphs is the option of a build without CUDA graphs (GGML_CUDA_GRAPHS=OFF), or of a server with GGML_CUDA_DISABLE_GRAPHS.
const noGraphs = "no-graphs"

var ggmlWeights = []unit.Format{unit.FP32, unit.FP16, unit.BF16, unit.INT8, unit.INT4, unit.MXFP4, unit.NVFP4}

// ggmlConstants are fitted to the kernels of llama3.1-8b at batch 1 to 32 and in a prompt, and to
// the gaps between its steps. They replace the constants of other engines' kernels.
func ggmlConstants(c *roofline.Constants) {
	defaults{
		{roofline.HostStep, 0.115e-3}, {roofline.HostLaunch, 5.3e-6}, {roofline.HostRequest, 2.5e-3}, {roofline.HostSmallKernel, 2.3e-6},
	}.set(c)
	c[roofline.AttentionCompute], c[roofline.AttentionRamp], c[roofline.AttentionFixed] = 0.33, 1600, 4e-6
	// mm_ids_helper takes 20.6 us for 512 tokens of 8 experts each and 3.5 us for 32 (kernels.csv).
	c[roofline.RoutingFixed], c[roofline.RoutingPair] = 2.3e-6, 4.5e-9
	c[roofline.SkinnyGEMMMemory], c[roofline.SkinnyGEMMRow], c[roofline.SkinnyGEMMFixed] = 0.67, 0.01, 1e-6
}

// ggmlOperators takes kernels of Metal, whose dispatches each wait for the one before: small models in Q4_K_M on an M4 Pro (SmolLM2-1.7B,
// Llama-3.2-1B and Qwen3-1.7B of AlexsJones/llmfit, on which they are not scored).
func ggmlOperators(g *hardware.GPU, c *hardware.Calibration) {
	c.Board = 0 // no operators of the engine were timed
	if g.Vendor == apple {
		c.Constants[roofline.HostSmallKernel] = 4e-6
	}
}

// Sizes at which llama.cpp's backend switches kernels (ggml/src/ggml-cuda).
const (
	vecRows     = 8   // most rows of mul_mat_vec_q, MMVQ_MAX_BATCH_SIZE
	floatRows   = 16  // most rows of mul_mat_f
	tileRows    = 128 // most rows of a tile of mul_mat_q
	leastTile   = 8   // rows of the smallest tile of mul_mat_q
	leastFull   = 16  // fewest rows for which unpacking a tile's weights takes as long as for a full tile
	fixupBlocks = 132 // thread blocks that share tiles of mul_mat_q, one for each SM of the H100
	fixupTiles  = 256 // fewest tiles of attention that are not split over thread blocks
	sorts       = 3   // how often the pairs of a layer are sorted: for gate, up and down
	// Inputs that a tile of experts takes as long for as to start and to write its sums to the rows of their pairs: with 512 tokens of the
	// same 8 experts, products of 2048 inputs take 115 us and of 768 inputs 137 us in Q4_K, whose FLOPs are as many (kernels.csv).
	tileWrites = 300
)

// An unpacking is the vector operations of a weight in a GEMM: those that unpack it, and those
// for each row.
type unpacking struct{ weight, row float64 }

// unpackings has a row for mul_mat_vec_q and one for mul_mat_q. The first entry is for weights
// in up to 7 bits, whose super-blocks have scales of scales, the second for weights in 8 bits.
var unpackings = [2][2]unpacking{
	{{5.0, 2.78}, {19.4, 0.25}},
	{{1.6, 2.45}, {22, 0.165}},
}

// ggmlEmbedding copies the embeddings of a step's tokens from the host.
func ggmlEmbedding(l *analytic.Lowering, i int) {
	copyHost(l, i, l.Step.Tokens()*float64(l.Step.Model.Hidden))
}

// ggmlLogits copies the logits to the host, which chooses the tokens.
func ggmlLogits(l *analytic.Lowering, i int) {
	copyHost(l, i, l.Step.Batch*l.Step.Logits*float64(l.Step.Model.Head.Out))
}

// ggmlRotary makes the kernels of rotary embedding, which write keys to the cache.
func ggmlRotary(l *analytic.Lowering, i int) { ggmlElement(l, i, 2, 2*l.Ops[i].Work.Acts) }

// ggmlCacheWrite makes the kernels that write values to the cache.
func ggmlCacheWrite(l *analytic.Lowering, i int) {
	launches := 1.0
	if l.Step.Batch > 1 {
		launches = 2
	}
	ggmlElement(l, i, launches, 2*l.Ops[i].Work.Acts)
}

// ggmlActivation makes the kernel of an activation that the GEMM of gate and up does not fuse.
func ggmlActivation(l *analytic.Lowering, i int) {
	if fusesActivation(l.Step, &l.Ops[i]) {
		l.Fuse(&l.Kernels[len(l.Kernels)-1], i)
		return
	}
	ggmlElement(l, i, 1, 2*l.Ops[i].Work.Acts)
}

// ggmlRouting makes the kernels that choose experts, sum their results and, for one token,
// add the sum to the residual stream. For more tokens than mul_mat_vec_q takes, two kernels for each matrix gather and sort
// the token-expert pairs by expert: a warp of each expert goes through all pairs (mm_ids_helper).
func ggmlRouting(l *analytic.Lowering, i int) {
	launches, o := 2.0, &l.Ops[i]
	tokens := l.Step.Tokens()
	if tokens == 1 {
		launches = 3
	}
	pairs := tokens * float64(o.Block.Experts.TopK)
	ggmlElement(l, i, launches, o.Work.Acts+unit.FP32.Bytes((pairs+tokens)*float64(l.Step.Model.Hidden)))
	if tokens <= vecRows {
		return
	}
	k := l.Launch(i, roofline.MoERouting, sorts)
	k.Work, k.Shape.Pairs, k.Shape.Experts = roofline.Work{}, sorts*pairs, 0
}

// fusesActivation reports whether the activation is fused into the GEMM of gate and up.
func fusesActivation(s *operator.Step, o *operator.Op) bool {
	most := 1.0
	if o.Type == operator.ExpertNonLinear {
		most = vecRows
	}
	return s.Tokens() <= most && o.Activation.Gated
}

// copyHost makes a copy of FP32 values between the GPU and pageable memory of the host, which goes
// in pieces through a pinned buffer: it runs at 15.5 GB/s over PCIe 5.0, and takes as long as 2.5
// copies of pinned memory.
func copyHost(l *analytic.Lowering, i int, values float64) {
	k := l.Launch(i, roofline.HostCopy, 1)
	k.Work = roofline.Work{Acts: unit.FP32.Bytes(2.5 * values)}
	k.Graphed = true // not a kernel
}

// ggmlElement makes element-wise kernels that move so many bytes.
func ggmlElement(l *analytic.Lowering, i int, launches float64, moved unit.Bytes) *analytic.Kernel {
	k := l.Launch(i, roofline.SmallElementwise, launches)
	k.Work.Acts, k.Format = moved, unit.NoFormat
	return k
}

// ggmlExtra makes element-wise kernels beside the one of an operator, which do nothing but move so many bytes.
func ggmlExtra(l *analytic.Lowering, i int, launches float64, moved unit.Bytes) {
	ggmlElement(l, i, launches, 0).Work = roofline.Work{Acts: moved}
}

// ggmlNorm makes the kernels of a norm and of the residual sum before it, which GEMMs of one row
// fuse. Before the final norm, two kernels choose the rows that get logits.
func ggmlNorm(l *analytic.Lowering, i int) {
	o := &l.Ops[i]
	n, moves := 1.0, 2.0
	if l.Step.Tokens() > 1 {
		n, moves = 2, 5
	}
	switch last := l.Part == operator.PartLast; {
	case last && l.Step.Tokens() == 1:
		n = 3 + 1 // no GEMM fuses the last residual sum
	case last:
		n = 3
	}
	ggmlElement(l, i, n, unit.FP32.Bytes(moves*o.Shape.M*o.Shape.N))
}

// weightBits is the mean number of bits of a weight.
func weightBits(o *operator.Op) float64 {
	return 8 * float64(o.Work.Weights) / max(o.Shape.Hit, 1) / (o.Shape.N * o.Shape.K)
}

// ggmlProduct makes the kernels of a dense GEMM, with a quantization or conversion of the input
// for each matrix.
func ggmlProduct(l *analytic.Lowering, i int) {
	o := &l.Ops[i]
	rows, n := o.Shape.M, max(o.Shape.Matrices, 1)
	if next := i + 1; next < len(l.Ops) && l.Ops[next].Type == operator.NonLinear && fusesActivation(l.Step, &l.Ops[next]) {
		n = 1 // gate and up
	}
	if weightBits(o) > 9 {
		floatProduct(l, i, n)
		return
	}
	quantizeInput(l, i, rows, n)
	k := l.Launch(i, roofline.UnpackGEMM, n)
	k.Format = unit.INT8
	each := single(o, min(rows, vecRows))
	if rows > vecRows {
		each = max(each, tiled(o, rows))
	}
	k.Work.Vector = unit.FLOPs(o.Shape.N * o.Shape.K * each * integers(l.GPU, rows))
	if rows > vecRows && o.Type != operator.Head { // the LM head has so many tiles that no thread blocks share one
		fixup(l, i, min(rows, tileRows), n)
	}
}

// integers is the vector operations of an unpacking as a share of those on an H100, which were measured. Most of them are on integers, for
// which an SM has half as many lanes as for FP32 since Ampere, but as many on Volta and Turing (NVIDIA's white papers). Volta multiplies
// the rows of prompts by cuBLAS, for which there is no law here.
func integers(g *hardware.GPU, rows float64) float64 {
	if g.Vendor == apple && rows <= vecRows {
		return metalUnpacks
	}
	if major(g, 7) && (rows <= vecRows || capability(g) == 7.5) {
		return 0.5
	}
	return 1
}

// metalUnpacks is what Metal's products of few rows do for a weight, as a share of what CUDA's do: they multiply inputs in FP32 by masked
// bits, and scale the sums (kernel_mul_mv_q4_K_f32_impl of ggml/src/ggml-metal/ggml-metal.metal).
const metalUnpacks = 0.4

func unpackingOf(o *operator.Op) *[2]unpacking {
	if weightBits(o) > 7 {
		return &unpackings[1]
	}
	return &unpackings[0]
}

// single is the vector operations of each weight in mul_mat_vec_q.
func single(o *operator.Op, rows float64) float64 {
	u := &unpackingOf(o)[0]
	return u.weight + rows*u.row
}

// tiled is the vector operations of each weight in mul_mat_q. Tiles of at least leastFull rows take as long to unpack as full ones.
func tiled(o *operator.Op, rows float64) float64 {
	u := &unpackingOf(o)[1]
	return u.weight*max(1, rows/tileRows)*min(1, max(rows, leastTile)/leastFull) + rows*u.row
}

// tiledExperts is the vector operations of a grouped GEMM in mul_mat_q. All experts have tiles of the rows that a dense GEMM of as many
// tokens would take, and a tile takes as long whatever part of its rows an expert has tokens for (mul_mat_q_switch_J and
// mul_mat_q_process_tile of ggml/src/ggml-cuda/mmq.cuh). An SM runs one tile of tileRows outputs at a time, so that launches take whole
// waves. For 129 to 224 tokens llama.cpp takes tiles of fewer rows than are taken here, which is up to a fourth less.
func tiledExperts(l *analytic.Lowering, o *operator.Op, launches float64) float64 {
	rows := min(max(leastTile*math.Ceil(o.Shape.Tokens/leastTile), leastTile), tileRows)
	tiles := l.Step.Tiles(&o.Shape, rows) * math.Ceil(o.Shape.N/launches/tileRows)
	if sms := float64(l.GPU.SMs); sms > 0 {
		tiles = sms * math.Ceil(tiles/sms)
	}
	return launches * tiles * tileRows * (o.Shape.K + tileWrites) * tiled(o, rows)
}

// quantizeInput makes the kernels that quantize FP32 to blocks of 8-bit integers with a scale.
func quantizeInput(l *analytic.Lowering, i int, rows, n float64) {
	if l.GPU.Vendor == apple {
		return // Metal's products read FP32
	}
	ggmlExtra(l, i, n, unit.Bytes(n*rows*l.Ops[i].Shape.K*(4+1.125)))
}

// fixup makes the kernels that add up tiles that several thread blocks share.
func fixup(l *analytic.Lowering, i int, rows, n float64) {
	ggmlExtra(l, i, n, unit.FP32.Bytes(2*n*fixupBlocks*tileRows*rows))
}

// floatProduct makes the kernels of a GEMM with weights in 16 or 32 bits: llama.cpp's kernels up
// to floatRows rows, then cuBLAS between conversions.
func floatProduct(l *analytic.Lowering, i int, n float64) {
	o := &l.Ops[i]
	rows := o.Shape.M
	if rows == 1 {
		l.Launch(i, roofline.UnpackGEMM, n).Work.Vector = 0
		return
	}
	if rows > floatRows {
		ggmlExtra(l, i, 2*n, unit.Bytes(6*rows*(n*o.Shape.K+o.Shape.N)))
	}
	k := l.Launch(i, roofline.SkinnyGEMM, n)
	k.Shape.M = min(rows, floatRows)
	if rows > floatRows && k.Format == unit.FP16 && halves(l.GPU) {
		k.HalfSums, k.Work.FLOPs = true, k.Work.FLOPs.Times(0.5) // The peak is that of FP32 sums, and FP16 sums run at twice its rate.
	}
}

// halves reports whether a GPU multiplies in FP16 with FP32 sums at half the rate of FP16 sums, as GeForce cards
// do: INT8 is then four times as fast as FP16 with FP32 sums. For weights in FP16, llama.cpp asks cuBLAS for FP16
// sums (CUBLAS_COMPUTE_16F in ggml/src/ggml-cuda/ggml-cuda.cu).
func halves(g *hardware.GPU) bool {
	single, ok := g.Peak(unit.FP16)
	integer, known := g.Peak(unit.INT8)
	return ok && known && integer > single.Times(3)
}

// ggmlExperts makes the kernels of a grouped GEMM. For few tokens, each token-expert pair
// unpacks the weights.
func ggmlExperts(l *analytic.Lowering, i int) {
	o := &l.Ops[i]
	tokens, n := o.Shape.Tokens, max(o.Shape.Matrices, 1)
	if tokens <= vecRows {
		n = 1
	}
	quantizeInput(l, i, o.Shape.Pairs/n, n)
	k := l.Launch(i, roofline.UnpackGEMM, n)
	k.Format = unit.INT8
	each := o.Shape.N * o.Shape.K * single(o, 1) * integers(l.GPU, 1)
	if tokens <= vecRows {
		k.Work.Vector = unit.FLOPs(o.Shape.Pairs * each)
		return
	}
	_, pairs := l.Step.Chosen(&o.Shape, vecRows) // If tiles were faster for fewer tokens, they would be taken there.
	k.Work.Vector = unit.FLOPs(max(pairs*each, tiledExperts(l, o, n)*integers(l.GPU, tokens)))
}

// ggmlAttention makes the kernels of attention. A token of one sequence takes a kernel that reads
// the KV cache for every query head, mostly from the L2 cache, and a kernel that adds up its
// parts. Several sequences take a kernel that looks for the end of the mask, and one that adds up
// tiles that several thread blocks share. With many tiles none is shared, so a step of small
// kernels, which waits for launches, may be faster with a larger batch: the traces of
// experiments/h100-llamacpp have no such kernel at batch 32.
func ggmlAttention(l *analytic.Lowering, i int) {
	o, s := &l.Ops[i], l.Step
	k := l.Launch(i, class(l, o), 1)
	more := 0.0
	switch {
	case o.Decode && s.Batch == 1:
		if a := o.Block.Attention; float64(a.Heads)/float64(s.Par.TP) > s.LocalKV(a) {
			k.Work.KV = k.Work.KV.Times(vecReads)
		}
		more = 1
	case s.Batch > 1 && o.Shape.Tiles < fixupTiles:
		more = 2
	case s.Batch > 1:
		more = 1
	}
	if more > 0 {
		ggmlExtra(l, i, more, 0)
	}
}

// vecReads is how often the KV cache is read, in terms of the memory bandwidth.
const vecReads = 1.45

// llamaCPPLaunch is llama-server. Its slots share a context of fixed size. As many start, each with a context of its own, as the memory
// of the replicas that share experts has room for, up to their batch and to LLAMA_MAX_SEQ (src/llama-cparams.h).
func llamaCPPLaunch(d *Deployment) *args {
	file := d.Checkpoint
	if !isGGUF(file) {
		file = printable.Operand(file[strings.LastIndexAny(file, `/\`)+1:]) + ".gguf"
	}
	a := command("llama-server", "--model", file)
	if d.Placement == nil {
		a.add("--n-gpu-layers", "999")
	} else {
		a.add(d.Placement.words()...)
	}
	s, ok := d.start(0, d.Context, d.Batch)
	if !ok {
		return nil
	}
	slots := min(s.sequences*d.Sharing, ggmlSlots)
	a.number("--parallel", slots)
	a.number("--ctx-size", s.longest*slots)
	a.add("--flash-attn", "on")
	llamaCPPSteps(a, d)
	a.noteIf(d.Drafts > 0, "llama.cpp speculates with a draft model of its own: --model-draft FILE --spec-draft-n-max %d", d.Drafts)
	a.noteIf(d.Prefill > 0, "llama.cpp has no replicas that only prefill: %d servers do less than the row says", d.Replicas+d.Prefill)
	if gpus := d.TP * d.PP * d.Sharing; gpus > 1 {
		mode := "layer"
		if d.TP > 1 {
			mode = "row"
		}
		a.add("--split-mode", mode)
		a.note("llama.cpp splits over the %d GPUs of one machine that it sees, set by CUDA_VISIBLE_DEVICES", gpus)
	}
	llamaCPPFormats(a, d)
	a.noteIf(d.servers() > 1, "start %d of these servers behind a router", d.servers())
	return a
}

// llamaCPPSteps adds how many tokens a step has, unless the placement says so.
func llamaCPPSteps(a *args, d *Deployment) {
	switch {
	case d.Placement != nil:
	case d.Engine.Profile().Engine() == "llama.cpp":
		a.number("--batch-size", d.budget(&llamaCPPScheduler))
	default:
		a.above("--batch-size", d.Budget)
		a.above("--ubatch-size", d.Budget) // tokens that are computed at once, 512 by default
		a.note("llama.cpp is not the engine of the estimate, and is slower at large batches")
	}
}

// llamaCPPFormats adds the format of the cache, and says how the file gets that of the weights.
func llamaCPPFormats(a *args, d *Deployment) {
	switch blocks := quantizesCache(d.Model); {
	case d.KV != unit.FP8:
	case blocks:
		a.add("--cache-type-k", "q8_0", "--cache-type-v", "q8_0")
		a.note("llama.cpp has no FP8 cache: Q8_0 takes a sixteenth more")
	default:
		a.note("llama.cpp quantizes a cache in blocks of 32 values, which do not divide the heads of %s: it stays in 16 bits", d.Model.Name)
	}
	switch {
	case isGGUF(d.Checkpoint) && d.stored():
	case models.IsFileType(d.Weights):
		a.note("convert the checkpoint to GGUF first, and quantize it: llama-quantize FILE %s", strings.ToUpper(d.Weights))
	case d.stored():
		a.note("convert the checkpoint to GGUF first")
	default:
		a.note("convert the checkpoint to GGUF first, and quantize it: llama.cpp has no weights in %s", d.Scheme)
	}
}

// quantizesCache reports whether blocks of 32 values divide the heads of a model ("K cache type %s with block size %u does not divide
// n_embd_head_k=%u" of llama_init_from_model, src/llama-context.cpp, ends a server otherwise).
func quantizesCache(m *models.Model) bool {
	return !m.Any(func(b *models.Block) bool {
		a := b.Attention
		return a != nil && a.Latent == nil && (a.KeyDim%32 != 0 || a.ValueDim%32 != 0)
	})
}

func isGGUF(path string) bool { return strings.HasSuffix(strings.ToLower(path), ".gguf") }
