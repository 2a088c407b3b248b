package engine

import (
	"fmt"
	"strings"

	"llmprof/analytic"
	"llmprof/unit"
)

// flashInferGEMM ends the name of SGLang where FlashInfer's generated kernels multiply matrices in FP8 by blocks in place of DeepGEMM's.
const flashInferGEMM = "+flashinfer-gemm"

// withFlashInferGEMM is SGLang with --fp8-gemm-backend flashinfer_trtllm, or with SGLANG_ENABLE_JIT_DEEPGEMM=false, after which it takes
// that backend on GPUs of data centres (dispatch_w8a8_block_fp8_linear of fp8_utils.py). The kernels are made for few rows, and reach a
// tenth of the peak.
func withFlashInferGEMM(e analytic.Engine) (analytic.Engine, error) {
	if name := e.Profile().Name; strings.Contains(name, "+") {
		return nil, fmt.Errorf("%s%s: an engine has one option", name, flashInferGEMM)
	}
	g, ok := e.(*graphed)
	if !ok || g.profile.Engine() != sglang.profile.Name {
		return nil, fmt.Errorf("%s%s: only sglang runs dense products in FP8 by FlashInfer", e.Profile().Name, flashInferGEMM)
	}
	with := *g
	p := &with.profile
	p.Name += flashInferGEMM
	p.Source = "dense products in FP8 by blocks by FlashInfer's generated kernels: " + p.Source
	p.Support.Vendors, p.Support.Builds = []string{nvidia}, map[string][]string{nvidia: {"10.0", "10.3"}}
	p.Support.Weights, p.Support.Blocks = []unit.Format{unit.FP8}, true
	p.Operators = over(p.Operators, sglang.profile.Name+flashInferGEMM)
	return &with, nil
}

// MultipliesByFlashInfer reports whether an engine is SGLang with dense products by FlashInfer.
func MultipliesByFlashInfer(e analytic.Engine) bool {
	return strings.HasSuffix(e.Profile().Name, flashInferGEMM)
}
