package deployment

import (
	"regexp"
	"strconv"
	"strings"
	"testing"

	"llmprof/analytic"
	"llmprof/internal/testkit"
	"llmprof/models"
)

func estimate(t *testing.T, model, gpu string, batch int) *Answer {
	t.Helper()
	d, err := Within(nil).Resolve(t.Context(), &Request{Model: model, GPU: gpu, Batch: &batch, Calibration: "default"})
	testkit.Must(t, err)
	ans, err := d.Explain()
	testkit.Must(t, err)
	return ans
}

// TestWhatFits checks that what is advised fits, and that nothing is advised where
// the case fits.
func TestWhatFits(t *testing.T) {
	if w := estimate(t, "llama3.1-8b", "h100", 1).whatFits(); w != nil {
		t.Errorf("llama3.1-8b fits on an h100: %v", w)
	}
	for _, c := range []struct {
		model, gpu string
		batch      int
	}{
		{"llama2-70b", "a100", 1}, {"llama2-70b", "h200", 512}, {"deepseek-v3", "h100", 8}, {"mixtral-8x7b", "l4", 4},
		{"gpt-oss-120b", "rtx-4090", 1},
	} {
		e := estimate(t, c.model, c.gpu, c.batch)
		hint := e.whatFits()
		if hint == nil || hint.Code != "fits_with" {
			t.Errorf("%v: nothing is advised: %v", c, hint)
			continue
		}
		advised := hint.In(func(key string) string { return "--" + key })
		for flags := range strings.SplitSeq(advised, ", or with ") {
			if strings.HasPrefix(flags, "--fit") {
				mustFitAtHome(t, c.model, c.gpu, c.batch)
				continue
			}
			changed := e.Case
			apply(t, &changed, flags)
			mustFit(t, flags, &changed)
		}
	}
}

// mustFitAtHome fails where a part of the model has no room in the memory of the host.
func mustFitAtHome(t *testing.T, model, gpu string, batch int) {
	t.Helper()
	d, err := Within(nil).Resolve(t.Context(), &Request{Model: model, GPU: gpu, Batch: &batch, Fit: true, Calibration: "default"})
	if err != nil || d.Home == nil {
		t.Errorf("%s on %s: %v", model, gpu, err)
	}
}

// apply changes a case by flags: --tp 2, --weights fp8.
func apply(t *testing.T, c *analytic.Case, flags string) {
	t.Helper()
	for _, f := range regexp.MustCompile(`--(tp|pp|batch|weights) (\S+)`).FindAllStringSubmatch(flags, -1) {
		var err error
		switch f[1] {
		case "tp":
			c.Parallel.TP, err = strconv.Atoi(f[2])
		case "pp":
			c.Parallel.PP, err = strconv.Atoi(f[2])
		case "batch":
			c.Workload.Batch, err = strconv.Atoi(f[2])
		case "weights":
			kv := c.Scheme.KV
			c.Scheme, err = models.ParseScheme(f[2])
			c.Scheme.KV = kv
			c.Scheme = c.Scheme.For(c.Machine.GPU)
		}
		testkit.Must(t, err)
	}
}

// mustFit fails where a case that was advised does not fit.
func mustFit(t *testing.T, hint string, c *analytic.Case) {
	t.Helper()
	e, err := analytic.Predict(c)
	if err != nil {
		t.Errorf("%s: %v", hint, err)
	} else if e.Memory.Total > e.Memory.Capacity {
		t.Errorf("%s: %v of %v", hint, e.Memory.Total, e.Memory.Capacity)
	}
}
