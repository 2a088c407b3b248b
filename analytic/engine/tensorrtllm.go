package engine

import (
	"fmt"
	"math"
	"slices"

	"llmprof/analytic"
	"llmprof/analytic/operator"
	"llmprof/hardware"
	"llmprof/roofline"
	"llmprof/unit"
)

// tensorRT is TensorRT-LLM's PyTorch backend with its overlap scheduler and CUDA graphs. The
// time of its host, which no observation gives, is taken from vLLM, with an error as large as
// that between two hosts.
var tensorRT = Engine{
	profile: analytic.Profile{
		Name: "tensorrt-llm", Aliases: []string{"trt-llm", "trtllm", "trt", "tensorrt"}, Pipelined: true, // num_micro_batches of its PyExecutor
		Source: "TensorRT-LLM 1.3: overlap scheduler, CUDA graphs of decode steps; the host time of vllm, which nobody here has " +
			"measured with TensorRT-LLM; its KV cache is a share of what is free after the weights (free_gpu_memory_fraction)",
		Constants: vllmConstants.set, Tabled: true, Operators: tabled("tensorrt-llm"),
		Padding: func(g *hardware.GPU) operator.Padding { return tensorRTPadding(g, roofline.MXFP4) }, Reserve: 1.1e9,
		Budget: tensorRTScheduler.pass, Utilization: taking(0.9), OfFree: true, HostError: eagerHostError, Support: tensorRTRuns,
	},
	title: "TensorRT-LLM",
	releases: releases{timed: []string{"1.3.0rc20"}, spread: 0.06, patches: []patch{
		{until: version{1, 3, 0}, what: "a slower kernel quantizes the inputs of products in FP8 by blocks on Blackwell's GPUs of data " +
			"centres, and experts and latent attention are slower on an H200", source: "tables of 1.2.0rc5",
			apply: func(e *Engine, at version) {
				e.kernels[operator.Product] = tensorRT12Product
				olderTables("tensorrt-llm@1.2.0rc5")(e, at)
			}},
	}},
	schedulers: []sized{tensorRTScheduler, {
		Scheduler: Scheduler{Name: "tensorrt-llm-max-utilization", Budget: 8192, MaxSeqs: 2048, Block: 32, Mixed: true, Async: true},
	}}, launch: tensorRTLaunch, resolve: longestThatFits,
	lower: lowerServed, decodes: tensorRTGraphs, overlaps: math.Inf(1), tile: tensorRTTile,
	kernels: kernels{
		operator.Rotary: tensorRTRotary, operator.CacheWrite: tensorRTCacheWrite,
		operator.Index: choose, operator.Attend: sparsely(tensorRTAttention, true),
		operator.Product: tensorRTProduct, operator.Sampling: sampling(10),
		operator.TopK: tensorRTHost.route, operator.ExpertProduct: tensorRTHost.products, operator.ExpertNonLinear: activate,
	},
}

// tensorRTGraphs are CUDA graphs of every batch: cuda_graph_config.enable_padding is off by default.
var tensorRTGraphs = captured{most: func(*analytic.Lowering) float64 { return math.Inf(1) }}

// tensorRTHost runs all experts of a layer in one C++ operator: Python dispatches neither their GEMMs nor the sort of tokens by expert. The
// kernels that it launches were not traced, and count as one.
var tensorRTHost expertHost = func(*analytic.Lowering, *operator.Op) expertWork { return expertWork{helpers: 1} }

// tensorRTRotary makes the kernel of norms of queries and keys, with their rotation; without norms, attention rotates them.
func tensorRTRotary(l *analytic.Lowering, i int) {
	if headNorms(&l.Ops[i]) {
		separate(l, i)
	}
}

// tensorRTCacheWrite makes no kernel, for attention writes to the cache.
func tensorRTCacheWrite(*analytic.Lowering, int) {}

// tensorRTAttention makes the kernel of attention with the write to the cache and the rotation, which its times in operator tables
// include (collect_attn.py of aiconfigurator).
func tensorRTAttention(l *analytic.Lowering, i int) {
	k := fused(l, i)
	for j := i - 1; j >= 0 && l.Ops[j].Type != operator.Attend; j-- {
		switch o := &l.Ops[j]; {
		case o.Type == operator.CacheWrite:
			k.Helpers = 1
			l.Fuse(k, j)
		case o.Type == operator.Rotary && !headNorms(o):
			l.Fuse(k, j)
		}
	}
}

// tensorRTProduct makes the kernel of a GEMM. Its scales are known beforehand, so that the kernel ahead of it may write what it computes in
// 8 bits.
func tensorRTProduct(l *analytic.Lowering, i int) {
	if scaled(l, i) {
		l.Launch(i, roofline.GEMM, 1)
		return
	}
	product(l, i)
}

// scaled reports whether the kernel ahead of a product in FP8 with a static scale quantizes its inputs: attention and the activation do,
// and in Llama the all-reduce with its norm (modules/attention.py, modules/gated_mlp.py and models/modeling_llama.py of TensorRT-LLM).
func scaled(l *analytic.Lowering, i int) bool {
	if l.Ops[i].Scheme != roofline.FP8 || i == 0 {
		return false
	}
	switch l.Ops[i-1].Type {
	case operator.Attend, operator.NonLinear:
		return l.Part != operator.PartLast
	case operator.Norm:
		return l.Step.Model.Family == "llama" && l.Step.Par.TP > 1
	}
	return false
}

// tensorRT12Product has the kernel that quantizes the inputs of products in FP8 by blocks within their time.
func tensorRT12Product(l *analytic.Lowering, i int) {
	switch o := &l.Ops[i]; {
	case o.Scheme != roofline.FP8Block || !dataCentreBlackwell(l.GPU):
		tensorRTProduct(l, i)
	case !joins(l, i):
		l.Launch(i, roofline.GEMM, 1).Quantized = o.Shape.M
	}
}

// tensorRTRuns is read from the page of supported models of TensorRT-LLM 1.3.0rc20, of the
// PyTorch backend, its matrix of number formats, and the release notes of 1.3.0 (Step-3.7-Flash; Rubin as a preview). Model Optimizer,
// which makes its checkpoints, has FP8 for Ada and later, and NVFP4 for Blackwell and later.
var tensorRTRuns = analytic.Support{
	Default: true, Vendors: []string{nvidia}, Capability: 8,
	Families: []string{
		"cohere2", "deepseek_v2", "deepseek_v3", "deepseek_v32", "exaone4", "gemma3", "gemma3n", "gemma4", "glm4_moe", "glm4_moe_lite",
		"glm_moe_dsa", "gpt_oss",
		"granite", "granitemoehybrid", "kimi_k2", "llama", "llama4", "minimax_m2", "mistral", "mixtral", "mllama", "nemotron", "nemotron_h",
		"phi3",
		"qwen2", "qwen2_moe", "qwen3", "qwen3_moe", "qwen3_next", "step3p5",
	},
	Weights: []unit.Format{unit.BF16, unit.FP16, unit.FP32, unit.FP8, unit.INT8, unit.INT4, unit.NVFP4, unit.MXFP4},
	Since:   map[unit.Format]float64{unit.FP8: 8.9, unit.NVFP4: 10},
	Acts:    []unit.Format{unit.BF16, unit.FP16, unit.FP32, unit.FP8, unit.INT8, unit.NVFP4, unit.MXFP4},
	KV:      []unit.Format{unit.BF16, unit.FP16, unit.FP32, unit.FP8, unit.NVFP4}, // features/quantization
	GGUF:    analytic.NoGGUF,
	Split:   tensorRTSplit,
}

// tensorRTSplit is the rule of TensorRT-LLM: its attention is either cut over all ranks or, with enable_attention_dp,
// replicated on each of them (tensorrt_llm/_torch/modules/attention.py).
func tensorRTSplit(p *operator.Parallelism) string {
	if p.ExpertReplicas() > 1 && p.TP > 1 {
		return fmt.Sprintf("replicates attention on every rank or on none (enable_attention_dp): %d replicas that share experts want tp 1, "+
			"not tp %d", p.ExpertReplicas(), p.TP)
	}
	return ""
}

// TensorRT-LLM admits a request if its whole answer fits, or with max utilization if its prompt does.
var tensorRTScheduler = sized{
	Scheduler: Scheduler{Name: "tensorrt-llm", Budget: 8192, MaxSeqs: 2048, Block: 32, Admission: ForAll, Mixed: true, Async: true},
}

// tensorRT2024 stands for releases up to mid-2024.
var tensorRT2024 = Engine{lower: lowerPlain, profile: analytic.Profile{
	Name: "tensorrt-llm-2024",
	Source: "synchronous host time of 0.6 ms a step, fitted to aiconfigurator's TensorRT-LLM serving points (Apache-2.0), for " +
		"releases up to mid-2024, which may take up to 1.8 times as long: taken as for vllm-2024",
	Constants: defaults{{roofline.HostStep, 0.6e-3}}.set, Older: older, Reserve: 2.5e9,
	Support: analytic.Support{Vendors: []string{nvidia}, Capability: 7, GGUF: analytic.NoGGUF, Acts: tensorRTRuns.Acts,
		KV: append(slices.Clone(tensorRTRuns.KV), unit.INT8)},
}}

// edge is TensorRT-Edge-LLM for Jetson modules.
var edge = Engine{lower: lowerPlain, profile: analytic.Profile{
	Name: "tensorrt-edge-llm",
	Source: "fused kernels and a CUDA graph; neither its host time nor what its kernels fuse is published: 20 µs to read the token " +
		"back assumed",
	Constants: defaults{{roofline.HostStep, 20e-6}}.set, Graph: true,
	Support: analytic.Support{Vendors: []string{nvidia}, Integrated: true, Capability: 8.7, GGUF: analytic.NoGGUF},
}}

// tensorRTTile sets the tile of TensorRT-LLM's grouped GEMMs. A rank of EP multiplies all pairs of a token and an expert where the Triton
// kernel of experts in FP8 by blocks runs, on compute capability 12.0: it is given those of other ranks as pairs of its first and last
// experts, and scales them by 0 (fused_moe_cutlass.py).
func tensorRTTile(g *hardware.GPU, k *roofline.Kernel) {
	if k.Class != roofline.GroupedGEMM {
		return
	}
	padExperts(k, tensorRTPadding(g, k.Scheme))
	k.Tile.Rows = tensorRTExpertRows(g, k)
	if major(g, 12) && k.Scheme == roofline.FP8Block {
		k.Work.FLOPs = k.Work.FLOPs.Times(max(1, k.Shape.Ranks))
	}
}

// tensorRTExpertRows is the rows of a tile of TensorRT-LLM's grouped GEMMs. Those in MXFP4 on Hopper are OpenAI's Triton kernels. Its
// operator tables do not name them; with their tiles experts of gpt-oss are 3.5 % off on an H100 and 2.7 on an H200, and without 14.3 and
// 14.7. Whether its tiles unpack weights for themselves, as vLLM's and SGLang's do, was not traced. Servers say that they do not: with
// Tile.Unpacks, 73 % of the TPOT of gpt-oss-120b on an H200 are inside their interval, and 82 % without it (llmprof validate --engine
// tensorrt-llm --by model,gpu). Among CUTLASS's in 16 bits and in FP8 it chooses by timing them: their tiles have 16 to 256 rows
// (gemm_configs.h), and the rows of an expert are rounded up to the smallest at least.
func tensorRTExpertRows(g *hardware.GPU, k *roofline.Kernel) float64 {
	switch {
	case tritonMXFP4(g, k.Scheme):
		return ragged(k)
	case dataCentreBlackwell(g) && k.Scheme == roofline.MXFP4:
		return generatedRows(k, 256)
	case tensorRTGenerated(g, k.Scheme):
		return flashInferRows(g, k)
	case (hopper(g) || dataCentreBlackwell(g)) && (k.Scheme == roofline.Unquantized || k.Scheme == roofline.FP8):
		return 16
	}
	return 0
}

// tensorRTGenerated reports whether experts have the constants and tiles of the generated kernels that SGLang calls by FlashInfer. In FP8
// by blocks TensorRT-LLM chooses them itself (resolve_moe_backend of model_config.py, 1.3.0rc20), in NVFP4 where moe_config has the
// backend TRTLLM, which takes a half to a quarter of the time of the default's CUTLASS for few tokens. Its tables have DeepGEMM and
// CUTLASS.
func tensorRTGenerated(g *hardware.GPU, s roofline.Scheme) bool {
	return dataCentreBlackwell(g) && (s == roofline.FP8Block || s == roofline.NVFP4)
}

// tensorRTPadding is the multiples to which TensorRT-LLM pads experts in MXFP4 on Blackwell (MXFP4WeightTRTLLMGenFusedMoEMethod of
// fused_moe/quantization.py), and those to which the generated kernels round others up.
func tensorRTPadding(g *hardware.GPU, s roofline.Scheme) operator.Padding {
	switch {
	case tensorRTGenerated(g, s):
		return generatedPadding(g, s)
	case dataCentreBlackwell(g) && s == roofline.MXFP4:
		return operator.Padding{Hidden: 128, Width: 128}
	}
	return operator.Padding{}
}

// tensorRTLaunch is the server of TensorRT-LLM 1.2 with its PyTorch backend. It has no replicas
// of its own.
func tensorRTLaunch(d *Deployment) *args {
	a := command("trtllm-serve", "serve", d.Checkpoint)
	if d.Sharing > 1 {
		a.number("--tp_size", d.TP*d.Sharing)
		a.note("give enable_attention_dp: true in a file for --extra_llm_api_options, so that each of %d ranks of attention is a replica",
			d.TP*d.Sharing)
		a.noteIf(d.TP > 1, "TensorRT-LLM has no replicas of tp %d that share experts: its attention is replicated on every rank", d.TP)
	} else {
		a.above("--tp_size", d.TP)
	}
	a.above("--pp_size", d.PP)
	a.above("--ep_size", d.EP)
	budget := d.budget(&tensorRTScheduler)
	s, ok := d.start(budget, d.Context, d.Batch)
	if !ok {
		return nil
	}
	a.number("--max_seq_len", s.longest)
	a.number("--max_batch_size", d.Batch)
	a.noteIf(d.KV == unit.FP8, "give kv_cache_config: {dtype: fp8} in a file for --extra_llm_api_options: the command has no flag for it")
	a.noteIf(d.Weights == "nvfp4" && d.Model.HasExperts() && dataCentreBlackwell(d.GPU),
		"give moe_config: {backend: TRTLLM} in a file for --extra_llm_api_options: the default runs experts in NVFP4 by CUTLASS, which "+
			"takes two to four times as long for few tokens")
	a.number("--max_num_tokens", budget)
	a.when(budget < d.Prompt, "--enable_chunked_prefill") // else a prompt has to fit a step
	switch g := d.Engine.(*Engine).graphs; {
	case g.Eager:
		a.note("give cuda_graph_config: null in a file for --extra_llm_api_options")
	case g.Most > 0:
		a.note("give cuda_graph_config: {max_batch_size: %d} in a file for --extra_llm_api_options", g.Most)
	}
	a.noteIf(d.Drafts > 0, "give speculative_config with %d tokens in a file for --extra_llm_api_options", d.Drafts)
	a.noteIf(d.Prefill > 0,
		"this is a server that decodes: start %d more for prefill, and trtllm-serve disaggregated in front of both", d.Prefill)
	a.noteIf(!d.stored(), "TensorRT-LLM serves weights as the checkpoint has them: give one quantized as %s", d.Weights)
	a.noteIf(d.servers() > 1, "start %d of these servers behind a router: one has no replicas", d.servers())
	return a
}
