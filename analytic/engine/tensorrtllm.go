package engine

import (
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
var tensorRT = graphed{profile: analytic.Profile{
	Name: "tensorrt-llm", Aliases: []string{"trt-llm", "trtllm", "trt", "tensorrt"}, Pipelined: true, // num_micro_batches of its PyExecutor
	Source: "TensorRT-LLM 1.3: overlap scheduler, CUDA graphs of decode steps; the host time of vllm, which nobody here has measured with " +
		"TensorRT-LLM; " +
		"the memory of vllm",
	Constants: vllmConstants, Operators: tabled("tensorrt-llm"),
	Padding: func(g *hardware.GPU) operator.Grain { return tensorRTExpertGrain(g, roofline.MXFP4) }, Reserve: 1.1e9,
	Budget: budget("tensorrt-llm"), Utilization: taking(0.9), HostError: eagerHostError, Support: tensorRTRuns,
}, rows: exactRows, sampling: 10, static: true, rotates: true, overlaps: math.Inf(1), oneCall: true, grouped: tensorRTExpertTile,
	grain: tensorRTExpertGrain, foreign: tensorRTForeign}

// exactRows gives a CUDA graph of every batch: cuda_graph_config.enable_padding is off by default.
func exactRows(_ *analytic.Lowering, batch float64) (rows float64, ok bool) { return batch, true }

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
	Mixes:   analytic.NoMixes,
	Split:   tensorRTSplit,
}

// TensorRT-LLM admits a request if its whole answer fits, or with max utilization if its prompt does.
var (
	tensorRTScheduler = sized{Scheduler: Scheduler{Name: "tensorrt-llm", Budget: 8192, MaxSeqs: 2048, Block: 32, Admission: ForAll,
		Mixed: true, Async: true}}
	tensorRTFullScheduler = sized{Scheduler: Scheduler{Name: "tensorrt-llm-max-utilization", Budget: 8192, MaxSeqs: 2048, Block: 32,
		Mixed: true, Async: true}}
)

// tensorRT2024 stands for releases up to mid-2024.
var tensorRT2024 = fused{profile: analytic.Profile{
	Name: "tensorrt-llm-2024",
	Source: "synchronous host time of 0.6 ms a step, fitted to aiconfigurator's TensorRT-LLM serving points (Apache-2.0), for releases up " +
		"to mid-2024, which may take up to 1.8 times as long: taken as for vllm-2024",
	Constants: func(c *roofline.Constants) {
		setDefault(c, roofline.HostStep, 0.6e-3)
	},
	Older: older, Reserve: 3.5e9,
	Support: analytic.Support{Vendors: []string{nvidia}, Capability: 7, Mixes: analytic.NoMixes, Acts: tensorRTRuns.Acts,
		KV: append(slices.Clone(tensorRTRuns.KV), unit.INT8)},
}}

// edge is TensorRT-Edge-LLM for Jetson modules.
var edge = fused{profile: analytic.Profile{
	Name: "tensorrt-edge-llm",
	Source: "fused kernels and a CUDA graph; neither its host time nor what its kernels fuse is published: 20 µs to read the token back " +
		"assumed",
	Constants: func(c *roofline.Constants) {
		setDefault(c, roofline.HostStep, 20e-6)
	},
	Graph: true, Support: analytic.Support{Vendors: []string{nvidia}, Integrated: true, Capability: 8.7, Mixes: analytic.NoMixes},
}}

// tensorRTExpertTile is the rows of a tile of TensorRT-LLM's grouped GEMMs in MXFP4. Those on Hopper are OpenAI's Triton kernels. Its
// operator tables do not name them; with their tiles experts of gpt-oss are 3.5 % off on an H100 and 2.7 on an H200, and without 14.3 and
// 14.7.
func tensorRTExpertTile(g *hardware.GPU, k *roofline.Kernel) float64 {
	switch {
	case tritonMXFP4(g, k.Scheme):
		return ragged(k)
	case dataCentreBlackwell(g) && k.Scheme == roofline.MXFP4:
		return generatedRows(k, 256)
	case tensorRTGenerated(g, k.Scheme):
		return flashInferRows(g, k)
	case tunedCUTLASS(g, k.Scheme):
		return 16
	}
	return 0
}

// tunedCUTLASS reports whether TensorRT-LLM chooses among CUTLASS's grouped GEMMs by timing them. The tiles have 16 to 256 rows
// (gemm_configs.h), and the rows of an expert are rounded up to the smallest at least.
func tunedCUTLASS(g *hardware.GPU, s roofline.Scheme) bool {
	major := int(capability(g))
	return g.Vendor == nvidia && (major == 9 || major == 10) && (s == roofline.Unquantized || s == roofline.FP8)
}

// tensorRTGenerated reports whether experts have the constants and tiles of the generated kernels that SGLang calls by FlashInfer. In FP8
// by blocks TensorRT-LLM chooses them itself (resolve_moe_backend of model_config.py, 1.3.0rc20), in NVFP4 where moe_config has the
// backend TRTLLM, which takes a half to a quarter of the time of the default's CUTLASS for few tokens. Its tables have DeepGEMM and
// CUTLASS.
func tensorRTGenerated(g *hardware.GPU, s roofline.Scheme) bool {
	return dataCentreBlackwell(g) && (s == roofline.FP8Block || s == roofline.NVFP4)
}

// tensorRTExpertGrain is the multiples to which TensorRT-LLM pads experts in MXFP4 on Blackwell (MXFP4WeightTRTLLMGenFusedMoEMethod of
// fused_moe/quantization.py), and those to which the generated kernels round others up.
func tensorRTExpertGrain(g *hardware.GPU, s roofline.Scheme) operator.Grain {
	if tensorRTGenerated(g, s) {
		return sglangExpertGrain(g, s)
	}
	if dataCentreBlackwell(g) && s == roofline.MXFP4 {
		return operator.Grain{Hidden: 128, Width: 128}
	}
	return operator.Grain{}
}

// tensorRTForeign reports whether a rank of EP multiplies all pairs of a token and an expert. The Triton kernel of experts in FP8 by
// blocks, which runs on compute capability 12.0, is given those of other ranks as pairs of its first and last experts, and scales them by
// 0 (fused_moe_cutlass.py).
func tensorRTForeign(g *hardware.GPU, s roofline.Scheme) bool {
	return g.Vendor == nvidia && int(capability(g)) == 12 && s == roofline.FP8Block
}
