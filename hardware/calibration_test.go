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
	"llmprof/internal/testkit"
	"llmprof/roofline"
	"llmprof/unit"
)

// A timing is one operator that testdata/operators.py timed on an H200.
type timing struct {
	Op      string
	M, N, K float64
	Tokens  float64
	Width   float64
	TimeS   float64 `json:"time_s"`
	FLOPs   float64 `json:"flops_per_s"`
}

func h200Timings(t *testing.T) []timing {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", "h200_operators.json"))
	testkit.Must(t, err)
	var file struct{ Rows []timing }
	testkit.Must(t, json.Unmarshal(data, &file))
	return file.Rows
}

// The default constants of Hopper, which come from another's tables, hold on
// operators that this project timed on an H200 and fitted nothing to.
func TestHopperDefaultsOnH200(t *testing.T) {
	g, err := hardware.Find(llmprof.HardwareTOML, "h200")
	testkit.Must(t, err)
	peak, _ := g.Peak(unit.BF16)
	c := hardware.DefaultCalibration(&g)
	off := map[string][]float64{}
	var prefill, decode []float64
	for _, r := range h200Timings(t) {
		var flops, bytes float64
		k := &c.Constants
		compute, memory, fixed := k[roofline.GEMMCompute], k[roofline.GEMMMemory], k[roofline.GEMMFixed]
		switch {
		case r.Op == "gemm":
			flops, bytes = 2*r.M*r.N*r.K, 2*(r.N*r.K+r.M*r.K+r.M*r.N)
		case r.Op == "prefill_attention" && r.Tokens >= 1024:
			compute, memory, fixed = k[roofline.AttentionCompute], k[roofline.AttentionMemory], k[roofline.AttentionFixed]
			flops = 4 * 32 * 128 * (r.Tokens*(r.Tokens+1)/2 + r.Tokens*k[roofline.AttentionRamp]/2)
		default:
			continue
		}
		want := fixed + max(flops/(compute*float64(peak)), bytes/(memory*float64(g.Bandwidth)))
		miss := math.Abs(want/r.TimeS - 1)
		off[r.Op] = append(off[r.Op], miss)
		switch {
		case r.Op == "prefill_attention" || r.M >= 512:
			prefill = append(prefill, miss)
		case r.M <= 32:
			decode = append(decode, miss)
		}
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
	// The interval is that of nine in ten of these operators.
	for _, x := range []struct {
		phase string
		off   []float64
		said  float64
	}{{"prefill", prefill, c.PrefillError}, {"decode", decode, c.DecodeError}} {
		slices.Sort(x.off)
		at := 0.9 * float64(len(x.off)-1)
		below := x.off[int(at)]
		p90 := below + (x.off[int(at)+1]-below)*(at-math.Floor(at))
		t.Logf("%s: nine in ten of %d operators within %.3f", x.phase, len(x.off), p90)
		if math.Abs(p90-x.said) > 0.015 {
			t.Errorf("%s: the interval is ±%v, nine in ten of %d operators are within ±%.3f", x.phase, x.said, len(x.off), p90)
		}
	}
}

// What is taken from the H200's operators is what they give: the rate of a square
// GEMM at the power limit, and the bandwidth of a norm.
func TestHopperConstantsFromH200(t *testing.T) {
	g, err := hardware.Find(llmprof.HardwareTOML, "h200")
	testkit.Must(t, err)
	peak, _ := g.Peak(unit.BF16)
	c := hardware.DefaultCalibration(&g)
	norms := map[float64]float64{}
	var sustained float64
	for _, r := range h200Timings(t) {
		switch {
		case r.Op == "gemm_power" && r.M == hardware.SquareRows && r.N == r.M && r.K == r.M:
			sustained = r.FLOPs / float64(peak)
		case r.Op == "rms_norm":
			norms[r.Tokens] = r.TimeS
		}
	}
	if math.Abs(sustained/c.Constants[roofline.GEMMSustained]-1) > 1e-3 {
		t.Errorf("sustained %v of the peak, measured %v", c.Constants[roofline.GEMMSustained], sustained)
	}
	share := 2 * 2 * 8192 * 4096 / (norms[8192] - norms[1]) / float64(g.Bandwidth)
	if math.Abs(share/c.Constants[roofline.ElementwiseMemory]-1) > 0.01 {
		t.Errorf("element-wise kernels at %v of the bandwidth, measured %v", c.Constants[roofline.ElementwiseMemory], share)
	}
}

func sustained(c hardware.Calibration) float64 { return c.Constants[roofline.GEMMSustained] }

// Boards of Hopper with another limit are slowed more or less than the H200, by
// the power that they have for their peak; what was not seen slowed is not.
func TestSustainedByBoard(t *testing.T) {
	share := func(name string) (c hardware.Calibration) {
		g, err := hardware.Find(llmprof.HardwareTOML, name)
		testkit.Must(t, err)
		return hardware.DefaultCalibration(&g)
	}
	for name, measured := range map[string]float64{"h100": 0.72, "h200": 0.677} {
		if got := sustained(share(name)); math.Abs(got-measured) > 0.001 {
			t.Errorf("%s sustains %v, its board %v", name, got, measured)
		}
	}
	pcie, nvl, grace := sustained(share("h100-pcie-80gb")), sustained(share("h200-nvl-141gb")), sustained(share("gh200-96gb"))
	if sxm := sustained(share("h200")); !(pcie < sxm && sxm < nvl && nvl < grace && grace < 0.80) {
		t.Errorf("sustained: PCIe of 350 W %v, SXM of 700 W %v, NVL of 600 W for less peak %v, GH200 of 900 W %v", pcie, sxm, nvl, grace)
	}
	if l4, l40s := share("l4"), share("l40s"); !(sustained(l4) < sustained(l40s)) || l4.PrefillError <= l40s.PrefillError {
		t.Errorf("an L4 of 72 W sustains %v ±%v, an L40S %v ±%v", sustained(l4), l4.PrefillError, sustained(l40s), l40s.PrefillError)
	}
	for _, name := range []string{"a100", "l40s", "rtx-4090-24gb", "b200", "t4", "agx-thor-128gb", "mi300x", "h20-96gb"} {
		if c := share(name); c.Constants[roofline.GEMMSustained] != c.Constants[roofline.GEMMCompute] {
			t.Errorf("%s sustains %v of %v", name, c.Constants[roofline.GEMMSustained], c.Constants[roofline.GEMMCompute])
		}
	}
}
