package analytic_test

import (
	"slices"
	"testing"

	"llmprof/internal/testkit"
	"llmprof/internal/testkit/casetest"
	"llmprof/models"
	"llmprof/unit"
)

// llama.cpp multiplies weights in 4 bits by activations that it rounds to INT8, with DP4A on a P40: MFU is a share of
// that rate, not of the FP32 rate, which the prefill beats.
func TestUtilizationOfProductsInAnotherFormat(t *testing.T) {
	c := testCase(t, "llama2-7b", "p40", 1, 1)
	c.Machine = casetest.Machine(t, "p40", "llama.cpp")
	m, err := models.Quantize(c.Model, "q4_0")
	testkit.Must(t, err)
	stored := models.StoredScheme(m)
	c.Model, c.Scheme = m, stored.For(c.Machine.GPU)
	r := explain(t, c)
	if r.MFU > 1 {
		t.Errorf("MFU %.3f", r.MFU)
	}
	if got := r.Computes(); got != unit.INT8 {
		t.Errorf("products run in %v", got)
	}
	if i := slices.IndexFunc(r.Warnings, func(w unit.Warning) bool { return w.Code == "format_missing" }); i >= 0 {
		t.Error(r.Warnings[i])
	}
}

// The FLOPs of a model in one format, over the peak in that format and the time, are the MFU.
func TestUtilizationOfOneFormat(t *testing.T) {
	for _, microBatches := range []int{1, 4} {
		c := testCase(t, "llama3.1-8b", "h100", 4, 2)
		c.Parallel.PP, c.Parallel.MicroBatches = 2, microBatches
		r := explain(t, c)
		near(t, "MFU", r.MFU, float64(r.Prefill.FLOPs)/(float64(r.Prefill.Expected)*989.4e12*4), 1e-9)
		if got := r.Computes(); got != unit.BF16 {
			t.Errorf("products run in %v", got)
		}
	}
}

// A mixed step is at its peak where each of its formats is.
func TestUtilizationOfTwoFormats(t *testing.T) {
	c := testCase(t, "llama3.1-8b", "h100", 1, 1)
	c.Workload.PromptLen = 32768
	c.Scheme = scheme(t, "fp8", c.Machine.GPU)
	r := explain(t, c)
	var least float64
	for i := range r.PrefillOps {
		o := &r.PrefillOps[i]
		peak, _ := c.Machine.GPU.Peak(o.Format)
		if o.FLOPs > 0 {
			least += float64(o.FLOPs) / float64(peak)
		}
	}
	near(t, "MFU", r.MFU, least/float64(r.Prefill.Expected), 1e-9)
	if got := r.Computes(); got != unit.FP8 {
		t.Errorf("products run in %v", got)
	}
}
