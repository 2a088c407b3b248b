package engine

import (
	"llmprof/analytic"
	"llmprof/roofline"
)

// tensorRT is TensorRT-LLM as measured by aiconfigurator's serving points.
var tensorRT = fused{profile: analytic.Profile{
	Name:   "tensorrt-llm",
	Source: "host time of 0.6 ms a step fitted to aiconfigurator's TensorRT-LLM serving points (Apache-2.0); 3.5 GB from its system tables",
	Constants: func(c *roofline.Constants) {
		setDefault(c, roofline.HostStep, 0.6e-3)
	},
	Reserve: 3.5e9,
}}

// tensorRT2024 stands for releases up to mid-2024.
var tensorRT2024 = fused{profile: analytic.Profile{
	Name:      "tensorrt-llm-2024",
	Source:    "the constants of tensorrt-llm, for releases up to mid-2024, which may take up to 1.8 times as long: taken as for vllm-2024",
	Constants: tensorRT.profile.Constants, Older: older, Reserve: tensorRT.profile.Reserve,
}}

// edge is TensorRT-Edge-LLM, which Jetson modules run.
var edge = fused{profile: analytic.Profile{
	Name:   "tensorrt-edge-llm",
	Source: "fused kernels and a CUDA graph; neither its host time nor what its kernels fuse is published: 20 µs to read the token back assumed",
	Constants: func(c *roofline.Constants) {
		setDefault(c, roofline.HostStep, 20e-6)
	},
	Graph: true,
}}
