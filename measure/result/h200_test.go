package result

import (
	"math"
	"strings"
	"testing"

	"llmprof/internal/testkit"
)

// TestH200 checks what docs/log/h200-measurements.md says of the results of experiments/h200.
func TestH200(t *testing.T) {
	results, err := ReadFolder("../../experiments/h200")
	testkit.Must(t, err)
	for _, r := range results {
		for name, times := range map[string]*Times{"TTFT": r.TTFT, "TPOT": r.TPOT, "TTLT": r.TTLT} {
			if off := math.Abs(times.Median / *times.Device - 1); off > 0.02 {
				t.Errorf("%s: %s is %.2g of the host's clock off that of the device", r.ID, name, off)
			}
		}
		whole := 0.0 // TP of transformers keeps the table of the embedding on every GPU
		if r.Parallelism.TP == 2 {
			whole = 128256 * 4096 * 2
		}
		if s := r.Sizes; float64(*s.Params) != s.Analytic.Params+whole || float64(*s.KV) != s.Analytic.KV {
			t.Errorf("%s: %v of parameters and %v of KV cache, in theory %v and %v", r.ID, *s.Params, *s.KV, s.Analytic.Params, s.Analytic.KV)
		}
		graph := r.Engine.Options["graph"] == "true"
		if o := math.Abs(*r.Meter.Overhead); graph && o > 0.005 {
			t.Errorf("%s: metering changes TPOT by %.2g", r.ID, o)
		}
		for _, c := range r.Closure {
			// Eager requests change with the host between the windows: those results are marked.
			if !c.Passed && (graph || !strings.HasPrefix(c.Name, "request:") && !strings.Contains(c.Name, "(generated - 1)")) {
				t.Errorf("%s: %s is off by %.2g", r.ID, c.Name, c.Off)
			}
		}
	}
}

// TestH200Native checks what experiments/h200-native says of its results.
func TestH200Native(t *testing.T) {
	results, err := ReadFolder("../../experiments/h200-native")
	testkit.Must(t, err)
	metered := 0
	for _, r := range results {
		for name, times := range map[string]*Times{"TTFT": r.TTFT, "TPOT": r.TPOT, "TTLT": r.TTLT} {
			if times == nil {
				continue
			}
			if off := math.Abs(times.Median / *times.Device - 1); off > 0.025 {
				t.Errorf("%s: %s is %.2g of the host's clock off that of the device", r.ID, name, off)
			}
		}
		if r.Energy != nil {
			metered++
		}
		for _, c := range r.Closure {
			if !c.Passed {
				t.Errorf("%s: %s is off by %.2g", r.ID, c.Name, c.Off)
			}
		}
	}
	if len(results) != 27 || metered != 25 {
		t.Errorf("%d results, %d of them with energy", len(results), metered)
	}
}
