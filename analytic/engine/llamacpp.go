package engine

import (
	"llmprof/analytic"
	"llmprof/roofline"
	"llmprof/unit"
)

// llamaCPP is llama.cpp's server, which Ollama runs too. No run of it on a GPU is among
// the observations.
var llamaCPP = fused{profile: analytic.Profile{
	Name: "llama.cpp",
	Source: "llama.cpp: one CUDA graph a decode step, products of q, k and v apart, sampling on the host: 0.3 ms a step assumed; " +
		"nobody here has measured it on a GPU",
	Constants: func(c *roofline.Constants) { setDefault(c, roofline.HostStep, 0.3e-3) },
	Graph:     true, Budget: 512, Error: 0.10,
	Support: analytic.Support{
		Default: true, Vendors: []string{nvidia, amd, intel, apple}, Capability: 6,
		Not:     []string{"bamba", "gpt_neo", "gptj", "internlm", "minimax_m1", "opt", "recurrent_gemma", "zamba2"},
		Weights: []unit.Format{unit.FP32, unit.FP16, unit.BF16, unit.INT8, unit.INT4, unit.MXFP4},
		Acts:    []unit.Format{unit.FP32, unit.FP16, unit.BF16, unit.INT8},
		KV:      []unit.Format{unit.FP32, unit.FP16, unit.BF16, unit.INT8, unit.INT4},
	},
}}
