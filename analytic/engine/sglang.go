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
var sglang = graphed{profile: analytic.Profile{
	Name: "sglang", Pipelined: true, // pp_loop_size of its scheduler
	Ahead: true, // event_loop_overlap of its scheduler
	Source: "SGLang 0.5.14: overlap scheduler, CUDA graphs of decode steps and, in pieces, of prompts; the host time of small models on an " +
		"H200; " +
		"the share of the memory that its server computes",
	Constants: sglangConstants, Operators: tabled("sglang"), Padding: sglangPadding, State: unit.FP32, // --mamba-ssm-dtype
	Budget: budget("sglang"), Utilization: sglangShare, Static: true, Reserve: sglangReserve, HostError: eagerHostError,
	RanksError: sglangRanksError,
	Support: analytic.Support{
		Default: true, Vendors: []string{nvidia, amd, intel}, Capability: 7.5, // TPUs run SGLang-JAX, another engine
		// read from the models' EntryClass in the wheel of SGLang 0.5.23
		Not: []string{
			"bamba", "bloom", "dots1", "ernie4_5", "falcon", "gpt_neo", "gpt_neox", "internlm", "jamba", "minimax_m1", "olmo3",
			"recurrent_gemma", "rwkv", "seed_oss", "smollm3", "zamba2",
		},
		Acts: vllmRuns.Acts, KV: []unit.Format{unit.BF16, unit.FP16, unit.FP32, unit.FP8, unit.MXFP4}, Split: sglangSplit, WholeBlocks: true,
		Builds: map[string][]string{amd: {"gfx942", "gfx950"}}, // setup_rocm.py of sgl-kernel stops at others
		Lacks:  vllmRuns.Lacks,
	},
}, rows: sglangRows, pieces: sglangPieces, sampling: 30, overlaps: 1024, gathers: true, sumsPrompts: true, grouped: sglangExpertTile,
	grain: sglangExpertGrain, untuned: sglangUntuned, joined: sglangJoined}

// sglangConstants sets the constants of SGLang's host, measured on a Xeon with 16 cores with small models that no load is scored on
// (experiments/sglang/host.py). They call a piece of a prompt in 0.26 ms, three launches of which are vLLM's.
// What takes in a request and ends its stream was not told apart, and is vLLM's.
func sglangConstants(c *roofline.Constants) {
	setDefault(c, roofline.HostAsync, 1.2e-3)
	setDefault(c, roofline.HostSequence, 18e-6)
	setDefault(c, roofline.HostDispatch, 0.26e-3-3*vllmLaunch)
	setDefault(c, roofline.HostRequest, 5.2e-3)
	setDefault(c, roofline.HostToken, 61e-6)
	vllmServerConstants(c)
}

// sglangRanksError is how much longer than one process two ranks take, which wait for each other in every step (recv_requests of
// managers/scheduler.py): on one machine 1.25 to 1.7 times as long, in prompts as in steps (experiments/sglang). The servers of others
// with four and eight ranks do not take longer than the constants say, so it is no part of the expected time.
const sglangRanksError = 0.5

// SGLang runs prompts and decodes in separate steps, or in the same with --enable-mixed-chunk.
var (
	sglangScheduler      = sized{Scheduler{Name: "sglang", MaxSeqs: 4096, Block: 1, Admission: ForExpected, Async: true}, sglangBudget}
	sglangMixedScheduler = sized{Scheduler{Name: "sglang-mixed", MaxSeqs: 4096, Block: 1, Admission: ForExpected, Mixed: true, Async: true},
		sglangBudget}
)

func sglangBudget(s *Scheduler, g *hardware.GPU) { s.Budget, _ = sglangSizes(g.Capacity(), 1) }

// The sizes below are read from SGLang 0.5.14, python/sglang/srt/server_args.py: _handle_gpu_memory_settings and
// the lists of sizes behind it.

// sglangSizes are the most tokens of a step and the largest batch with a CUDA graph, for TP ranks
// on GPUs with so much memory.
func sglangSizes(memory unit.Bytes, tp int) (budget int, graphs float64) {
	const gib = 1 << 30
	few := tp < 4
	either := func(a, b float64) float64 {
		if few {
			return a
		}
		return b
	}
	switch {
	case memory < 20*gib:
		return 2048, 8
	case memory < 35*gib:
		return 2048, either(24, 80)
	case memory < 60*gib:
		return 4096, either(32, 160)
	case memory < 160*gib:
		return 8192, either(256, 512)
	}
	return 16384, 512
}

// sglangReserve is what SGLang takes of a GPU beside its CUDA context before it loads weights: the capacity less the memory before "Load
// weight end" in the servers' logs is 1.15 GiB with the context on an H100 and 1.27 on an H200 (experiments/sglang).
const sglangReserve = unit.Bytes(0.8e9)

// sglangShare is the share of a GPU's memory that SGLang gives weights and KV cache. It reserves a
// constant, activations of 1.5 MiB a token, CUDA graphs of decode steps of 2 MiB a sequence and of
// prompts of 8 MiB each, and a constant for each GPU; at least 10 GiB of a large GPU.
func sglangShare(memory unit.Bytes) float64 {
	const mib = 1 << 20
	budget, graphs := sglangSizes(memory, 1)
	reserved := 512 + 1.5*float64(budget) + 2*graphs + 1024/8
	for size := 1.0; size <= float64(budget); size = sglangNext(size) {
		if size >= 4 {
			reserved += 8
		}
	}
	if memory > 60*1024*mib {
		reserved = max(reserved, 10*1024)
	}
	return max(0, 1-reserved*mib/float64(memory)) // It does not start on a GPU with less memory than that.
}

// sglangRows gives the CUDA graphs of decode steps: of 1, 2, 4, 8 and 12 sequences, of multiples of 8 up to 256
// and of multiples of 16 up to 512, as far as the largest batch.
func sglangRows(l *analytic.Lowering, batch float64) (rows float64, ok bool) {
	_, most := sglangSizes(l.GPU.Capacity(), l.Step.Par.TP)
	switch {
	case batch > most:
		return 0, false
	case batch <= 2:
		return math.Ceil(batch), true
	case batch <= 12:
		return 4 * math.Ceil(batch/4), true
	case batch <= 256:
		return min(8*math.Ceil(batch/8), most), true
	}
	return 16 * math.Ceil(batch/16), true
}

// sglangLatent is the most tokens of a CUDA graph of prompts with latent attention.
const sglangLatent = 2048

// sglangPieces gives the piecewise CUDA graphs of prompts, up to the most tokens of a step. There are none with
// PP, on GPUs of other vendors and for some architectures (piecewise_cuda_graph_disabled_model_archs in
// configs/model_config.py).
func sglangPieces(l *analytic.Lowering, tokens float64) (rows float64, ok bool) {
	most, _ := sglangSizes(l.GPU.Capacity(), l.Step.Par.TP)
	m := l.Step.Model
	if latent(m) {
		most = min(most, sglangLatent)
	}
	if tokens > float64(most) || l.Step.Par.PP > 1 || l.GPU.Vendor != nvidia || m.Family == "qwen3_next" {
		return 0, false
	}
	return sglangNext(max(tokens, 4) - 1), true
}

func latent(m *models.Model) bool {
	for _, b := range m.Blocks() {
		if a := b.Attention; a != nil && a.Latent != nil {
			return true
		}
	}
	return false
}

// sglangNext is the number of tokens of the next larger CUDA graph of prompts: multiples of 4 up to 32, of 16 up to
// 256, of 32 up to 512, of 64 up to 1024, of 256 up to 4096, and of 512 beyond.
func sglangNext(tokens float64) float64 {
	for _, s := range [][2]float64{{32, 4}, {256, 16}, {512, 32}, {1024, 64}, {4096, 256}} {
		if tokens < s[0] {
			return s[1] * (math.Floor(tokens/s[1]) + 1)
		}
	}
	return 512 * (math.Floor(tokens/512) + 1)
}

// sglangTuned has the grouped GEMMs in 16 bits for which SGLang 0.5.14 has a tuned configuration of its Triton kernel: inner widths by
// the experts of a rank (names of the files below moe_runner/triton_utils/configs, of any version of Triton).
var sglangTuned = map[string]map[float64][]float64{
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

// sglangUntuned reports whether SGLang runs a grouped GEMM in 16 bits by its default tiles. On Hopper they reach half the rates of tuned
// ones. The operator tables of other GPUs have too few tuned shapes to tell.
func sglangUntuned(g *hardware.GPU, k *roofline.Kernel) bool {
	if g.Vendor != nvidia || int(capability(g)) != 9 || k.Scheme != roofline.Unquantized {
		return false
	}
	s := &k.Shape
	return !slices.Contains(sglangTuned[g.Key][s.Experts/max(1, s.Ranks)], s.N/max(1, s.Matrices))
}

// join adds an operator of a shared expert to the grouped GEMM of the routed ones, which copies the inputs of one more pair of each token.
func join(l *analytic.Lowering, i int) {
	k := groupedKernel(l)
	l.Beside(k, i)
	if o := &l.Ops[i]; o.Type == operator.NonLinear {
		k.Permuted += l.Step.Bytes(o.Shape.M * float64(l.Step.Model.Hidden))
	}
}

// sglangJoined reports whether SGLang's Triton kernel has the shared expert as one more of a layer's experts, which every token takes
// (determine_num_fused_shared_experts of deepseek_v2.py and glm4_moe.py). FlashInfer's kernels, which run on Blackwell's data centre GPUs,
// have no such expert, and EP excludes it.
func sglangJoined(l *analytic.Lowering) bool {
	k, m := groupedKernel(l), l.Step.Model
	if k == nil || l.Step.Par.EP > 1 || l.GPU.Vendor != nvidia || capability(l.GPU) < 8 || dataCentreBlackwell(l.GPU) {
		return false
	}
	e := l.Ops[k.Main].Block.Experts
	one := e.Shared != nil && e.Shared.Activation.Width == e.Activation.Width
	return one && (m.Family == "glm4_moe" ||
		e.Count == 256 && (m.Family == "deepseek_v3" || m.Family == "deepseek_v32" || m.Family == "glm_moe_dsa"))
}
