package engine

import (
	"llmprof/analytic"
	"llmprof/roofline"
)

// vllm is as measured by aiconfigurator's serving points.
var vllm = fused{profile: analytic.Profile{
	Name:   "vllm",
	Source: "host time of 1.8 to 2.4 ms a step fitted to aiconfigurator's vLLM serving points (Apache-2.0); 3.5 GB from its system tables",
	Constants: func(c *roofline.Constants) {
		setDefault(c, roofline.HostStep, 2.1e-3)
	},
	Reserve: 3.5e9,
}}

// vllm2024 stands for releases up to mid-2024.
var vllm2024 = fused{profile: analytic.Profile{
	Name:      "vllm-2024",
	Source:    "the constants of vllm, for releases up to mid-2024, which may take up to 1.8 times as long: what vLLM 0.6.0 gained over 0.5.3 by its authors' account",
	Constants: vllm.profile.Constants, Older: older, Reserve: vllm.profile.Reserve,
}}

// older is what releases can come to. The authors of vLLM have 0.6.0 of September
// 2024 at 1.8 (70B on four H100) to 2.7 (8B on one) times the throughput of 0.5.3, of
// whose time with 8B they found 62 % in its HTTP server and its scheduler
// (blog.vllm.ai/2024/09/05/perf-update.html); the smaller is taken. NVIDIA says that
// TensorRT-LLM's least latency of Llama 70B became 3.5 times better in less than a year
// ("What's the ROI? Getting the Most Out of LLM Inference", 2024).
const older = 0.8

// setDefault sets a constant that no calibration has.
func setDefault(c *roofline.Constants, k roofline.Constant, v float64) {
	if c[k] == 0 {
		c[k] = v
	}
}
