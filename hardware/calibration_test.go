package hardware_test

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"llmprof"
	"llmprof/hardware"
	"llmprof/unit"
)

// A timing is one operator that testdata/operators.py timed on an H200.
type timing struct {
	Op      string
	M, N, K float64
	Tokens  float64
	TimeS   float64 `json:"time_s"`
}

func h200Timings(t *testing.T) []timing {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", "h200_operators.json"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Rows []timing }
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	return file.Rows
}

// The default constants of Hopper, which come from another's tables, hold on
// operators that this project timed on an H200 and fitted nothing to.
func TestHopperDefaultsOnH200(t *testing.T) {
	g, err := hardware.Find(llmprof.HardwareTOML, "h200")
	if err != nil {
		t.Fatal(err)
	}
	peak, _ := g.Peak(unit.BF16)
	c := hardware.DefaultCalibration(&g)
	off := map[string][]float64{}
	for _, r := range h200Timings(t) {
		var flops, bytes float64
		k := c.GEMM
		switch {
		case r.Op == "gemm":
			flops, bytes = 2*r.M*r.N*r.K, 2*(r.N*r.K+r.M*r.K+r.M*r.N)
		case r.Op == "prefill_attention" && r.Tokens >= 1024:
			k = c.Attention
			flops = 4 * 32 * 128 * (r.Tokens*(r.Tokens+1)/2 + r.Tokens*c.AttentionRamp/2)
		default:
			continue
		}
		want := float64(k.Fixed) + max(flops/(k.Compute*float64(peak)), bytes/(k.Memory*float64(g.Bandwidth)))
		off[r.Op] = append(off[r.Op], math.Abs(want/r.TimeS-1))
	}
	for _, x := range []struct {
		op            string
		median, worst float64
	}{{"gemm", 0.07, 0.20}, {"prefill_attention", 0.12, 0.20}} {
		e := off[x.op]
		if len(e) < 5 {
			t.Fatalf("%s: %d timings", x.op, len(e))
		}
		slices.Sort(e)
		median, worst := e[len(e)/2], e[len(e)-1]
		t.Logf("%s: %d timings, median error %.1f %%, worst %.1f %%", x.op, len(e), 100*median, 100*worst)
		if median > x.median || worst > x.worst {
			t.Errorf("%s: median error %.3f and worst %.3f, want at most %v and %v", x.op, median, worst, x.median, x.worst)
		}
	}
}
