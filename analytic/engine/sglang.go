package engine

import (
	"math"
	"slices"

	"llmprof/analytic"
	"llmprof/analytic/operator"
	"llmprof/hardware"
	"llmprof/models"
	"llmprof/roofline"
	"llmprof/unit"
)

// sglang is SGLang with its overlap scheduler and CUDA graphs of decode steps and of prompts. Prompts
// run in separate steps, of up to as many tokens as the largest graph has. The time of its host has an error as large as that between two
// hosts.
var sglang = Engine{
	profile: analytic.Profile{
		Name: "sglang", Pipelined: true, // pp_loop_size of its scheduler
		Ahead: true, // event_loop_overlap of its scheduler
		Source: "SGLang 0.5.14: overlap scheduler, CUDA graphs of decode steps and, in pieces, of prompts; the host time of small " +
			"models on an H200; the share of the memory that its server computes",
		Constants: sglangConstants, Tabled: true, Operators: tabled("sglang"), Padding: sglangPadding,
		State:  statesIn(unit.FP32), // --mamba-ssm-dtype
		Budget: sglangScheduler.pass, Utilization: sglangShare, Static: true, Allocate: sglangAllocation, HostError: eagerHostError,
		RanksError: sglangRanksError,
		Support: analytic.Support{
			Default: true, Vendors: []string{nvidia, amd, intel}, Capability: 7.5, // TPUs run SGLang-JAX, another engine
			// read from the models' EntryClass in the wheel of SGLang 0.5.23
			Not: []string{
				"bamba", "bloom", "dots1", "ernie4_5", "falcon", "gpt_neo", "gpt_neox", "internlm", "jamba", "minimax_m1", "olmo3",
				"recurrent_gemma", "rwkv", "seed_oss", "smollm3", "zamba2",
			},
			Acts: vllmRuns.Acts, KV: []unit.Format{unit.BF16, unit.FP16, unit.FP32, unit.FP8, unit.MXFP4}, Split: anySplit, WholeBlocks: true,
			Builds: map[string][]string{amd: {"gfx942", "gfx950"}}, // setup_rocm.py of sgl-kernel stops at others
			Lacks:  vllmRuns.Lacks,
		},
	},
	title: "SGLang",
	releases: releases{timed: []string{"0.5.14"}, traced: map[string]string{"0.5.23": "hopper"}, spread: 0.27, patches: []patch{
		{until: version{0, 5, 10}, what: "prompts run without CUDA graphs", source: "python/sglang/srt/server_args.py of 0.5.9, where " +
			"--enable-piecewise-cuda-graph is off by default", apply: func(e *Engine, _ version) { e.prompts = captured{} }},
		{from: version{0, 5, 18}, what: "more shapes of experts in 16 bits have a tuned configuration", source: "files in " +
			"moe_runner/triton_utils/configs of the wheels of 0.5.16 to 0.5.23",
			apply: func(e *Engine, _ version) { e.tile = sglangTile(sglangTunedSince) }},
		{from: version{0, 5, 20}, what: "FlashInfer runs gated delta nets over prompts on Hopper", source: "flashinfer_gdn_prefill_default of " +
			"gdn_backend.py and triton_gdn_fused_proj.py of 0.5.23; tables of vLLM 0.25.0", apply: sglangDelta},
		{from: version{0, 5, 22}, until: version{1}, what: "small kernels start before those ahead of them have ended, and prompts are " +
			"launched in whole graphs with breaks", source: "traces and small models of 0.5.23 (experiments/h200-sglang); " +
			"torch 2.14.1 and FlashInfer 0.7.1 since 0.5.22",
			apply: sglangStartsEarly},
		{from: version{0, 5, 22}, until: version{1}, what: "Triton's kernels take other times, queries are copied, and latent attention of " +
			"prompts in CUDA graphs runs over compressed keys", source: "_handle_attention_backend of attention_backend_handler.py of 0.5.23; " +
			"traces of models of 8 and 12 layers (experiments/h200-sglang)", apply: sglangCompressed},
		{from: version{0, 5, 22}, until: version{1}, what: "tiles of experts in MXFP4 have twice as many rows on Hopper", source: "opt_flags.py" +
			" of the wheel of triton_kernels with 0.5.23; traces of 12 layers (experiments/h200-sglang)", apply: sglangWiderTiles},
		{until: version{0, 5, 9}, what: "attention starts in 19 µs on an H200, and takes 9 since", source: "tables of 0.5.6.post2",
			apply: olderTables("sglang@0.5.6.post2")},
	}},
	options: map[string]func(*Engine){
		deepEP:         deepEPOf(plainHost), // --moe-a2a-backend deepep
		flashInferGEMM: sglangFlashInfer,
	},
	schedulers: []sized{sglangScheduler, {
		Scheduler{Name: "sglang-mixed", MaxSeqs: 4096, Block: 1, Admission: ForExpected, Mixed: true, Async: true, Receives: 1, Streams: 1},
		sglangBudget,
	}}, launch: sglangLaunch, resolve: sglangResolve,
	lower: lowerServed, decodes: sglangRows, prompts: captured{sglangPrompts, sglangPiecewise}, overlaps: 1024,
	tile: sglangTile(sglangTuned),
	kernels: kernels{
		operator.Index: choose, operator.Attend: sparsely(lowerFused, true),
		operator.Rotary: rotary, operator.CacheWrite: separate, operator.Sampling: sampling(30),
		operator.Product:   unlessJoined(unpacked(product)),
		operator.NonLinear: unlessJoined(lowerFused),
		operator.TopK:      sglangHost.route, operator.ExpertProduct: sglangHost.productsOfAll,
		operator.ExpertNonLinear: activate,
		operator.Shuffle:         sumsPrompts(gather), operator.Exchange: sumsPrompts(lowerFused),
		operator.Conv: sglangScans.conv, operator.Scan: sglangScans.step, operator.ChunkedScan: sglangScans.scan,
	},
}

// flashInferGEMM is the option by which FlashInfer's generated kernels multiply matrices in FP8 by blocks in place of DeepGEMM's.
const flashInferGEMM = "flashinfer-gemm"

// sglangFlashInfer is SGLang with --fp8-gemm-backend flashinfer_trtllm, or with SGLANG_ENABLE_JIT_DEEPGEMM=false, after which it takes
// that backend on GPUs of data centres (dispatch_w8a8_block_fp8_linear of fp8_utils.py). The kernels are made for few rows, and reach a
// tenth of the peak.
func sglangFlashInfer(e *Engine) {
	p := &e.profile
	p.Source = "dense products in FP8 by blocks by FlashInfer's generated kernels: " + p.Source
	p.Support.Vendors, p.Support.Builds = []string{nvidia}, map[string][]string{nvidia: {"10.0", "10.3"}}
	p.Support.Weights, p.Support.Blocks = []unit.Format{unit.FP8}, true
	p.Operators = over(p.Operators, p.Engine()+"+"+flashInferGEMM)
}

// sglangScans is how SGLang runs recurrences by Triton (forward_extend of gdn_backend.py, 0.5.14). Beside the rule a comparison finds new
// sequences, two of Triton's split and gate, and the results are copied. The tables have six of Triton's: two norms, sums, the triangular
// system, states and results. Graphs have a kernel that takes the projections apart, and the gated norm.
var sglangScans = scanHost{norms: 2, triton: 2, states: 2, prompt: func(*analytic.Lowering) scanLaunches {
	return scanLaunches{untabled: 4, moves: 6, tabled: 2 * 6}
}}

// sglangDelta makes SGLang one that runs the gated delta rule over prompts by FlashInfer on Hopper, four kernels of it where sequences are
// few, after two norms of Triton's and two conversions. Beside it eight kernels compare, split, gate, find slots, gather and store states.
// The convolution of a decode step takes the projections apart.
func sglangDelta(e *Engine, _ version) {
	e.profile.Operators = over(e.profile.Operators, "sglang@0.5.20")
	h := scanHost{norms: 1, triton: 2, states: 2, prompt: func(l *analytic.Lowering) scanLaunches {
		if !hopper(l.GPU) {
			return sglangScans.prompt(l)
		}
		return scanLaunches{untabled: 8, moves: 10, tabled: 2*2 + 2 + 4}
	}}
	e.kernels[operator.Scan], e.kernels[operator.ChunkedScan] = h.step, h.scan
}

// sglangHost is tritonHost. After the newer Triton kernels have sorted, two more kernels make the metadata of ragged tensors, one divides
// the order by the experts of a token, and one gathers the weights (routing of moe/topk.py, 0.5.14 to 0.5.23).
var sglangHost expertHost = func(l *analytic.Lowering, o *operator.Op) expertWork {
	work := tritonHost(l, o)
	if tritonMXFP4(l.GPU, o.Scheme) {
		work.mapping = 4
	}
	return work
}

// sumsPrompts is an exchange of tokens between replicas that passes the ring twice in prompts, as an all-reduce does: each replica has
// another number of tokens.
func sumsPrompts(exchange lowering) lowering {
	return func(l *analytic.Lowering, i int) {
		if exchange(l, i); !l.Step.Decode() {
			w := &l.Kernels[len(l.Kernels)-1].Work
			w.Wire, w.NodeWire = w.Wire.Times(2), w.NodeWire.Times(2)
		}
	}
}

// unlessJoined lowers an operator, unless it is of a shared expert that joins the grouped GEMM of the routed ones, which then copies the
// inputs of one more pair of each token.
func unlessJoined(lower lowering) lowering {
	return func(l *analytic.Lowering, i int) {
		o := &l.Ops[i]
		if !o.Shared || !sglangJoins(l) {
			lower(l, i)
			return
		}
		k := groupedKernel(l)
		if l.FuseInputs(k, i); o.Type == operator.NonLinear {
			k.Permuted += l.Step.Bytes(o.Shape.M * float64(l.Step.Model.Hidden))
		}
	}
}

// sglangJoins reports whether SGLang's Triton kernel has the shared expert as one more of a layer's experts, which every token takes
// (determine_num_fused_shared_experts of deepseek_v2.py and glm4_moe.py). FlashInfer's kernels, which run on Blackwell's data centre GPUs,
// have no such expert, and EP excludes it.
func sglangJoins(l *analytic.Lowering) bool {
	k, m := groupedKernel(l), l.Step.Model
	if k == nil || l.Step.Par.EP > 1 || l.GPU.Vendor != nvidia || capability(l.GPU) < 8 || dataCentreBlackwell(l.GPU) {
		return false
	}
	e := l.Ops[k.Main].Block.Experts
	one := e.Shared != nil && e.Shared.Activation.Width == e.Activation.Width
	return one && (m.Family == "glm4_moe" ||
		e.Count == 256 && (m.Family == "deepseek_v3" || m.Family == "deepseek_v32" || m.Family == "glm_moe_dsa"))
}

// sglangConstants sets the constants of SGLang's host, measured on a Xeon with 16 cores with small models that no load is scored on
// (experiments/sglang/host.py). They call a piece of a prompt in 0.26 ms, three launches of which are vLLM's.
// What takes in a request and ends its stream was not told apart, and is vLLM's.
func sglangConstants(c *roofline.Constants) {
	defaults{
		{roofline.HostAsync, 1.2e-3}, {roofline.HostSequence, 18e-6}, {roofline.HostDispatch, 0.26e-3 - 3*vllmLaunchTime},
		{roofline.HostRequest, 5.2e-3}, {roofline.HostToken, 61e-6},
	}.set(c)
	vllmServerConstants(c)
}

// sglangStartsEarly makes SGLang one of torch 2.14.1 and FlashInfer 0.7.1, as traces and models of 8 to 12 layers have it. Norms, rotary
// embedding, writes of the cache and activations are launched to start before the kernel ahead of them has ended (programmatic dependent
// launch): a layer of the dense model takes 134.7 µs for 140.9 of vLLM 0.33 by the same GEMMs, of which 2.9 are of these five. Between
// the logits and the next step lie 13 kernels where it chooses the likeliest token. The host's times are of requests by its Python API, as
// vLLM's are.
func sglangStartsEarly(e *Engine, _ version) {
	constants := e.profile.Constants
	e.profile.Constants = func(c *roofline.Constants) {
		defaults{{roofline.HostAsync, 1.6e-3}, {roofline.HostDispatch, 0.167e-3 - 3*vllmLaunchTime}, {roofline.HostRequest, 2.7e-3}}.set(c)
		constants(c)
	}
	e.kernels[operator.Sampling] = sampling(13)
	for _, t := range []operator.Type{operator.Norm, operator.Rotary, operator.CacheWrite, operator.NonLinear} {
		lower := e.kernels[t]
		if lower == nil {
			lower = lowerFused
		}
		e.kernels[t] = early(lower)
	}
}

// sglangCompressed makes SGLang one whose prompts in CUDA graphs, of as many tokens as a step has, keep one path of latent attention: that
// over compressed keys and values.
func sglangCompressed(e *Engine, _ version) {
	e.profile.Operators = over(e.profile.Operators, "sglang@0.5.22")
	e.prompts.most, e.captures = sglangGraphs, sglangAttention
	sglangAttention(e)
}

// sglangWiderTiles makes SGLang one with the newer of OpenAI's Triton kernels.
func sglangWiderTiles(e *Engine, _ version) {
	tile := e.tile
	e.tile = func(g *hardware.GPU, k *roofline.Kernel) {
		if tile(g, k); k.Tile.Unpacks {
			k.Tile.Rows = raggedTwice(k)
		}
	}
}

// sglangAttention makes the kernels of attention those of the CUDA graphs that an engine has.
func sglangAttention(e *Engine) {
	attend := sparsely(lowerFused, true)
	e.kernels[operator.Attend] = func(l *analytic.Lowering, i int) {
		// Rows of queries lie apart after the projection of all three. The copy of 8192 tokens of 4096 values takes 89 µs on an H200.
		const apart = 2.6
		attend(l, i)
		k, a := &l.Kernels[len(l.Kernels)-1], l.Ops[i].Block.Attention
		_, graph := e.prompts.rows(l, l.Step.Tokens())
		switch {
		case graph && k.Class == roofline.LatentPrefill:
			compress(k, a)
			copyQueries(l, i, float64(a.Latent.Rank+a.Latent.RopeDim), 1)
		case a.Latent == nil && l.Step.Tokens() > 1:
			copyQueries(l, i, float64(a.KeyDim), apart)
		}
	}
}

// copyQueries makes the kernel that copies the queries of several tokens to where attention reads them. One takes so many times as long as
// reading and writing whole lines does.
func copyQueries(l *analytic.Lowering, i int, width, times float64) {
	values := l.Step.Tokens() * float64(l.Ops[i].Block.Attention.Heads) / float64(l.Step.Par.TP) * width
	k := l.Launch(i, roofline.Elementwise, 1)
	k.Work, k.Graphed = roofline.Work{Acts: l.Step.Bytes(times * 2 * values)}, true
}

// compress makes the kernel of latent attention one over compressed keys and values.
func compress(k *analytic.Kernel, a *models.Attention) {
	wider := float64(2*a.Latent.Rank+a.Latent.RopeDim) / float64(a.KeyDim+a.ValueDim)
	k.Work.FLOPs, k.Shape.K = k.Work.FLOPs.Times(wider), k.Shape.K*wider
}

// early lowers an operator whose kernel starts before the one ahead of it has ended, which hides 0.6 of the 2 µs that it takes in a CUDA
// graph.
func early(lower lowering) lowering {
	return func(l *analytic.Lowering, i int) {
		from := len(l.Kernels)
		lower(l, i)
		for k := from; l.Step.Decode() && k < len(l.Kernels); k++ {
			l.Kernels[k].Launches *= 0.7
		}
	}
}

// sglangRanksError is how much longer than one process two ranks take, which wait for each other in every step (recv_requests of
// managers/scheduler.py): on one machine 1.25 to 1.7 times as long, in prompts as in steps (experiments/sglang). The servers of others
// with four and eight ranks do not take longer than the constants say, so it is no part of the expected time.
const sglangRanksError = 0.5

// SGLang runs prompts and decodes in separate steps, or in the same with --enable-mixed-chunk.
var sglangScheduler = sized{Scheduler{Name: "sglang", MaxSeqs: 4096, Block: 1, Admission: ForExpected, Async: true, Receives: 1,
	Streams: 1}, sglangBudget}

func sglangBudget(s *Scheduler, g *hardware.GPU) { s.Budget, _ = sglangSizes(g.Capacity(), 1) }

// sglangSizes are the most tokens of a step and the largest batch with a CUDA graph, for TP ranks
// on GPUs with so much memory: _handle_gpu_memory_settings of python/sglang/srt/server_args.py of SGLang 0.5.14, which has the lists of
// sizes below too.
func sglangSizes(memory unit.Bytes, tp int) (budget int, graphs float64) {
	const gib = 1 << 30
	for _, s := range []struct {
		below     unit.Bytes
		budget    int
		few, many float64 // graphs for less than 4 ranks, and for more
	}{{20 * gib, 2048, 8, 8}, {35 * gib, 2048, 24, 80}, {60 * gib, 4096, 32, 160}, {160 * gib, 8192, 256, 512}} {
		switch {
		case memory >= s.below:
		case tp < 4:
			return s.budget, s.few
		default:
			return s.budget, s.many
		}
	}
	return 16384, 512
}

// sglangShare is the share of a GPU's memory that SGLang gives weights and KV cache. It reserves a
// constant, activations of 1.5 MiB a token, CUDA graphs of decode steps of 2 MiB a sequence and of
// prompts of 8 MiB each, and a constant for each GPU; at least 10 GiB of a large GPU.
func sglangShare(memory unit.Bytes) float64 {
	const mib = 1 << 20
	budget, graphs := sglangSizes(memory, 1)
	reserved := 512 + 1.5*float64(budget) + 2*graphs + 1024/8
	for size := 4.0; size <= float64(budget); size, _ = sglangPrompts.upTo(size+1, math.Inf(1)) {
		reserved += 8
	}
	if memory > 60*1024*mib {
		reserved = max(reserved, 10*1024)
	}
	return max(0, 1-reserved*mib/float64(memory)) // It does not start on a GPU with less memory than that.
}

// sglangRows gives the CUDA graphs of decode steps: of 1, 2, 4, 8 and 12 sequences, of multiples of 8 up to 256
// and of multiples of 16 up to 512, as far as the largest batch.
var sglangRows = captured{
	sizes: sizes{{2, 1}, {12, 4}, {256, 8}, {512, 16}},
	most: func(l *analytic.Lowering) float64 {
		_, most := sglangSizes(l.GPU.Capacity(), l.Step.Par.TP)
		return most
	},
}

// sglangLatent is the most tokens of a CUDA graph of prompts with latent attention.
const sglangLatent = 2048

// sglangPiecewise is the most tokens of a piecewise CUDA graph of prompts: those of a step. There are none with
// PP, on GPUs of other vendors and for some architectures (piecewise_cuda_graph_disabled_model_archs in
// configs/model_config.py).
func sglangPiecewise(l *analytic.Lowering) float64 {
	most := sglangGraphs(l)
	if latent(l.Step.Model) {
		most = min(most, sglangLatent)
	}
	return most
}

// sglangGraphs is sglangPiecewise without a limit of latent attention.
func sglangGraphs(l *analytic.Lowering) float64 {
	if l.Step.Par.PP > 1 || l.GPU.Vendor != nvidia || l.Step.Model.Family == "qwen3_next" {
		return 0
	}
	most, _ := sglangSizes(l.GPU.Capacity(), l.Step.Par.TP)
	return float64(most)
}

// sglangPrompts are the sizes of CUDA graphs of prompts: multiples of 4 tokens up to 32, of 16 up to 256, of 32 up to 512, of 64 up to
// 1024, of 256 up to 4096, and of 512 beyond.
var sglangPrompts = sizes{{32, 4}, {256, 16}, {512, 32}, {1024, 64}, {4096, 256}, {math.Inf(1), 512}}

// A tunedShapes has inner widths of experts by the experts of a rank, of each GPU.
type tunedShapes map[string]map[float64][]float64

// sglangTuned has the grouped GEMMs in 16 bits for which SGLang 0.5.14 has a tuned configuration of its Triton kernel (names of the files
// below moe_runner/triton_utils/configs, of any version of Triton).
var sglangTuned = tunedShapes{
	"h100-sxm-80gb": {
		1: {3072}, 8: {1792, 2048, 3584, 4096, 7168}, 16: {1024, 1344, 1856, 2048, 2688}, 20: {2048}, 24: {1024},
		32: {224, 448, 896, 928, 1792, 1856},
		64: {192, 320, 384, 464, 640, 768, 928, 1280, 1536, 1856, 2688}, 65: {1536},
		128: {192, 232, 352, 384, 464, 512, 704, 768, 928, 1344, 1856, 2688},
		144: {512}, 256: {672, 1344, 2688}, 512: {64, 128, 336, 672, 1344, 2688},
	},
	"h200-sxm-141gb": {
		8: {1792, 2048, 3584, 4096, 7168, 14336}, 16: {1024}, 20: {1536}, 64: {320, 640, 1280, 2560}, 128: {192, 384, 704, 768}, 129: {384},
		161: {192},
		512: {64, 128, 256},
	},
	"h20-96gb": {
		128: {96, 192, 384, 768}, 192: {192}, 256: {512},
	},
}

// sglangTunedSince has those of 0.5.23 besides. Qwen3.5's experts on an H200 came with 0.5.18.
var sglangTunedSince = tunedShapes{
	"h100-sxm-80gb":  {16: {1408}, 32: {768}},
	"h200-sxm-141gb": {16: {4096}, 32: {4096}, 256: {512}, 512: {80, 160, 320}},
}

// untuned reports whether SGLang runs a grouped GEMM in 16 bits by its default tiles, for no table has its shape. On Hopper they reach half
// the rates of tuned ones. The operator tables of other GPUs have too few tuned shapes to tell.
func untuned(g *hardware.GPU, k *roofline.Kernel, tables ...tunedShapes) bool {
	s := &k.Shape
	return hopper(g) && k.Scheme == roofline.Unquantized && !slices.ContainsFunc(tables, func(t tunedShapes) bool {
		return slices.Contains(t[g.Key][s.Experts/max(1, s.Ranks)], s.N/max(1, s.Matrices))
	})
}

// sglangTile sets the tile of the grouped GEMMs of an SGLang with tuned configurations of sglangTuned and others. Its tiles of 64 rows load
// 32 inputs at a time, which are half of a line of 128 bytes, and on boards with graphics memory some lines are gone before their other
// half is asked for: of an expert's weights the operator tables have 0.44 read again on an L40S and 0.42 on an RTX PRO 6000, and on Hopper,
// between shapes with a tuned configuration, none that could be told.
func sglangTile(tuned tunedShapes) func(*hardware.GPU, *roofline.Kernel) {
	return func(g *hardware.GPU, k *roofline.Kernel) {
		if k.Class != roofline.GroupedGEMM {
			return
		}
		padExperts(k, generatedPadding(g, k.Scheme))
		if untuned(g, k, sglangTuned, tuned) {
			k.Scheme = roofline.Untuned
		}
		k.Tile.Rows, k.Tile.Unpacks = sglangExpertRows(g, k), tritonMXFP4(g, k.Scheme)
		if k.Scheme == roofline.Unquantized && k.Tile.Rows == 64 && graphicsMemory(g) {
			k.Reread = k.Work.Weights.Times(0.43)
		}
	}
}

// sglangExpertRows is the rows of a tile of SGLang's grouped GEMMs: of its Triton kernel in 16 bits, which it runs on all GPUs but
// Blackwell's of data centres, by the default that it takes for shapes without a tuned configuration (get_default_config of
// fused_moe_triton_config.py), of OpenAI's Triton kernels, and of Marlin. A tuned configuration has tiles for each number of tokens.
func sglangExpertRows(g *hardware.GPU, k *roofline.Kernel) float64 {
	switch {
	case dataCentreBlackwell(g):
		return flashInferRows(g, k)
	case tritonMXFP4(g, k.Scheme):
		return ragged(k)
	case k.Scheme == roofline.WeightINT4:
		return marlinRows(g, k)
	case g.Vendor != nvidia || k.Scheme != roofline.Untuned && (k.Scheme != roofline.Unquantized || hopper(g)):
		return 0
	case k.Shape.Tokens <= k.Shape.Experts/max(1, k.Shape.Ranks):
		return 16
	}
	return 64
}

// sglangPadding is that of FlashInfer's and of Triton's kernels.
func sglangPadding(g *hardware.GPU) operator.Padding {
	if g.Vendor == nvidia && capability(g) >= 9 && capability(g) < 11 {
		return vllmPadding(g)
	}
	return operator.Padding{}
}

// anySplit is the rule of SGLang: an expert is cut over the ranks of TP that EP leaves, whether attention is replicated
// among them (--enable-dp-attention) or not.
func anySplit(*operator.Parallelism) string { return "" }

// sglangLaunch is the server of SGLang 0.5.14 to 0.5.23. Its data parallelism of whole replicas is that of its
// router. A server divides its limits among the replicas that share experts.
func sglangLaunch(d *Deployment) *args {
	a := command("python3", "-m", "sglang.launch_server", "--model-path", d.Checkpoint)
	if d.Sharing > 1 { // attention by replica, experts over all of them
		a.number("--tp-size", d.TP*d.Sharing)
		a.number("--dp-size", d.Sharing)
		a.add("--enable-dp-attention")
		a.noteIf(d.servers() > 1,
			"start %d of these servers behind a router: each has the replicas that share one set of experts", d.servers())
	} else {
		a.above("--tp-size", d.TP)
		a.above("--dp-size", d.Replicas)
	}
	a.above("--pp-size", d.PP)
	a.above("--ep-size", d.EP)
	a.when(d.runs(deepEP), "--moe-a2a-backend", "deepep")
	a.when(d.runs(flashInferGEMM), "--fp8-gemm-backend", "flashinfer_trtllm")
	a.graphFlags(d, "--disable-cuda-graph", "--cuda-graph-max-bs")
	a.quantize(d, "--quantization", map[unit.Format]string{unit.FP8: "fp8", unit.INT8: "w8a8_int8"})
	a.when(d.KV == unit.FP8, "--kv-cache-dtype", "fp8_e4m3")
	s, ok := d.start(d.budget(&sglangScheduler), d.Context, d.Batch)
	if !ok {
		return nil
	}
	a.number("--context-length", s.longest)
	a.number("--max-running-requests", s.sequences*d.Sharing)
	a.number("--chunked-prefill-size", s.budget*d.Sharing)
	if d.Drafts > 0 {
		if d.Model.Drafts > 0 {
			a.add("--speculative-algorithm", "NEXTN", "--speculative-eagle-topk", "1")
		} else {
			a.add("--speculative-algorithm", "NGRAM")
		}
		a.number("--speculative-num-steps", d.Drafts)
		a.number("--speculative-num-draft-tokens", d.Drafts+1)
	}
	if d.Prefill > 0 {
		a.add("--disaggregation-mode", "decode")
		a.note("this is the server that decodes: start %d more for prefill, with --disaggregation-mode prefill, behind SGLang's router",
			d.Prefill)
	}
	a.nodes(d)
	return a
}
