package engine

import (
	"llmprof/analytic"
	"llmprof/roofline"
	"llmprof/unit"
)

// tensorRT is TensorRT-LLM as measured by aiconfigurator's serving points.
var tensorRT = fused{profile: analytic.Profile{
	Name:   "tensorrt-llm",
	Source: "host time of 0.6 ms a step fitted to aiconfigurator's TensorRT-LLM serving points (Apache-2.0); 3.5 GB from its system tables",
	Constants: func(c *roofline.Constants) {
		setDefault(c, roofline.HostStep, 0.6e-3)
	},
	Reserve: 3.5e9, Support: tensorRTRuns,
}}

// tensorRTRuns is read from the page of supported models of TensorRT-LLM 1.3.0rc20, of the
// PyTorch backend, and its matrix of number formats.
var tensorRTRuns = analytic.Support{
	Default: true, Vendors: []string{nvidia}, Capability: 8,
	Families: []string{
		"cohere2", "deepseek_v2", "deepseek_v3", "deepseek_v32", "exaone4", "gemma3", "gemma3n", "gemma4", "glm4_moe", "glm4_moe_lite", "glm_moe_dsa", "gpt_oss",
		"granite", "granitemoehybrid", "kimi_k2", "llama", "llama4", "minimax_m2", "mistral", "mixtral", "mllama", "nemotron", "nemotron_h", "phi3",
		"qwen2", "qwen2_moe", "qwen3", "qwen3_moe", "qwen3_next",
	},
	Weights: []unit.Format{unit.BF16, unit.FP16, unit.FP32, unit.FP8, unit.INT8, unit.INT4, unit.NVFP4, unit.MXFP4},
	Acts:    []unit.Format{unit.BF16, unit.FP16, unit.FP32, unit.FP8, unit.INT8, unit.NVFP4, unit.MXFP4},
	KV:      []unit.Format{unit.BF16, unit.FP16, unit.FP32, unit.FP8, unit.INT8, unit.NVFP4},
}

// tensorRT2024 stands for releases up to mid-2024.
var tensorRT2024 = fused{profile: analytic.Profile{
	Name:      "tensorrt-llm-2024",
	Source:    "the constants of tensorrt-llm, for releases up to mid-2024, which may take up to 1.8 times as long: taken as for vllm-2024",
	Constants: tensorRT.profile.Constants, Older: older, Reserve: tensorRT.profile.Reserve,
	Support: analytic.Support{Vendors: []string{nvidia}, Capability: 7, Acts: tensorRTRuns.Acts, KV: tensorRTRuns.KV},
}}

// edge is TensorRT-Edge-LLM, which Jetson modules run.
var edge = fused{profile: analytic.Profile{
	Name:   "tensorrt-edge-llm",
	Source: "fused kernels and a CUDA graph; neither its host time nor what its kernels fuse is published: 20 µs to read the token back assumed",
	Constants: func(c *roofline.Constants) {
		setDefault(c, roofline.HostStep, 20e-6)
	},
	Graph: true, Support: analytic.Support{Vendors: []string{nvidia}, Integrated: true, Capability: 8.7},
}}
