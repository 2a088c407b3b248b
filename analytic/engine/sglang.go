package engine

import (
	"math"

	"llmprof/analytic"
	"llmprof/unit"
)

// sglang is SGLang with its overlap scheduler. No run of it is among the observations:
// its host's time is taken to be vLLM's, and may be as far from it as one host's from another's.
var sglang = graphed{profile: analytic.Profile{
	Name: "sglang",
	Source: "SGLang 0.5: overlap scheduler, CUDA graphs of decode steps; the host time of vllm, which nobody here has measured with SGLang; " +
		"the memory of vllm",
	Constants: vllmConstants, Operators: tabled("sglang"), Reserve: 1.1e9, Budget: budget("sglang"), Utilization: 0.9, HostError: eagerHostError, Error: 0.05,
	Support: analytic.Support{
		Default: true, Vendors: []string{nvidia, amd, intel}, Capability: 7.5, // on TPUs there is SGLang-JAX, another engine
		// read from the models' EntryClass in the wheel of SGLang 0.5.23
		Not: []string{
			"bamba", "bloom", "dots1", "ernie4_5", "falcon", "gpt_neo", "gpt_neox", "internlm", "jamba", "minimax_m1", "olmo3",
			"recurrent_gemma", "seed_oss", "smollm3", "zamba2",
		},
		Acts: vllmRuns.Acts, KV: []unit.Format{unit.BF16, unit.FP16, unit.FP32, unit.FP8, unit.MXFP4},
	},
}, rows: sglangRows, sampling: 30}

// sglangRows is the smallest batch of SGLang's captured graphs that holds a decode step:
// 1, 2, 4, 8, then multiples of 8 up to 256.
func sglangRows(batch float64) (rows float64, ok bool) {
	switch {
	case batch <= 2:
		return math.Ceil(batch), true
	case batch <= 4:
		return 4, true
	case batch <= 256:
		return 8 * math.Ceil(batch/8), true
	}
	return batch, false
}
