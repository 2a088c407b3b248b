package engine_test

import (
	"strings"
	"testing"

	"llmprof/analytic/engine"
	"llmprof/internal/testkit/casetest"
	"llmprof/models"
	"llmprof/roofline"
)

// FlashInfer's generated kernels take dense products in FP8 by blocks alone, at a tenth of the peak, whatever the release.
func TestFlashInferGEMM(t *testing.T) {
	for _, gpu := range []string{"b200", "b300"} {
		for _, release := range []string{"", "@0.5.10"} {
			own, with := casetest.Machine(t, gpu, "sglang"+release), casetest.Machine(t, gpu, "sglang"+release+"+flashinfer-gemm")
			for _, k := range roofline.All() {
				a, b := own.Cal.Constants[k], with.Cal.Constants[k]
				switch k.String() {
				case "gemm_fp8_block.compute":
					near(t, gpu+release, b, 0.098, 1e-9)
				case "gemm_fp8_block.memory", "gemm_fp8_block.exposed":
					if a == b {
						t.Errorf("%s%s: %s is %g as by DeepGEMM", gpu, release, k, b)
					}
				default:
					near(t, gpu+release+" "+k.String(), b, a, 1e-12)
				}
			}
			if c := roofline.ConstantOf("gemm_fp8_block.compute"); with.Cal.Fitted[c] || with.Cal.Residuals[c] < 0.2 {
				t.Errorf("%s%s: %s is of this board: %v, and %g off, want another release's", gpu, release, c, with.Cal.Fitted[c],
					with.Cal.Residuals[c])
			}
		}
	}
}

// The kernels are refused where they multiply nothing.
func TestFlashInferGEMMRefused(t *testing.T) {
	for _, name := range []string{"vllm+flashinfer-gemm", "tensorrt-llm+flashinfer-gemm", "sglang+flashinfer-gemm+flashinfer-gemm",
		"sglang+flashinfer"} {
		if _, err := engine.Parse(name); err == nil {
			t.Errorf("%s is an engine", name)
		}
	}
	if _, err := engine.With(casetest.Engine(t, "sglang"), "flashinfer"); err == nil || !strings.Contains(err.Error(), "flashinfer-gemm") {
		t.Errorf("an unknown option: %v, want the options named", err)
	}
	for _, x := range []struct{ model, gpu, weights, want string }{
		{"deepseek-r1", "b200", "fp8-block", ""}, {"deepseek-r1", "b300", "stored", ""}, {"deepseek-r1", "h200", "fp8-block", "10.0"},
		{"deepseek-r1", "rtx-pro-6000", "fp8-block", "10.0"}, {"deepseek-r1", "b200", "nvfp4", "fp8"},
		{"llama3.1-70b", "b200", "fp8", "by blocks"},
	} {
		g := casetest.GPU(t, x.gpu)
		m := casetest.Model(t, x.model)
		s := models.StoredScheme(m)
		if x.weights != "stored" {
			s = casetest.Scheme(t, x.weights, g)
		}
		err := engine.Runs(casetest.Engine(t, "sglang+flashinfer-gemm"), m, g, &s)
		if x.want == "" && err != nil || x.want != "" && (err == nil || !strings.Contains(err.Error(), x.want)) {
			t.Errorf("%s on %s in %s: %v, want %q", x.model, x.gpu, x.weights, err, x.want)
		}
	}
}
