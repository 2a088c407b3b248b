package hardware

import (
	"math"

	"llmprof/unit"
)

// A heldBoard is one whose large GEMMs were timed at its power limit.
type heldBoard struct {
	peak   unit.FLOPsPerSec // bf16
	limit  unit.Watts
	slowed float64 // how many times longer they take there than in a burst, as far as known
}

// heldH200 settled at 670 TFLOP/s, 0.677 of the peak, on a GEMM of 8192 × 8192 ×
// 8192 in bf16 at 695 of 700 W, where short ones reached 788
// (testdata/h200_operators.json). heldH100 ran three GEMMs of 8192 rows at 0.72 of the
// peak and 699 to 710 W (calibrations/h100-sxm-80gb.native.toml). heldL40S is said by its operators' times to do no
// better than 226 of 362 TFLOP/s at 350 W, and an A40 no better than 112 of 150 at 300 W;
// what they do in bursts is not known.
var (
	heldH100 = heldBoard{peak: 989.5e12, limit: 700, slowed: 0.80 / 0.72}
	heldH200 = heldBoard{peak: 989.5e12, limit: 700, slowed: 0.80 / 0.677}
	heldL40S = heldBoard{peak: 362.05e12, limit: 350, slowed: 1}
	heldA40  = heldBoard{peak: 149.7e12, limit: 300, slowed: 1}
)

// sustained is the share of its peak that another board of the generation sustains
// which reaches burst of it. The rate that a power limit leaves goes with the root of
// the power (energy/energy.go), so it is slowed by the root of the power that the
// known board's rate would cost it. The limit of a GH200 is shared with its
// processor.
func (h *heldBoard) sustained(g *GPU, burst float64) float64 {
	peak, _ := g.Peak(unit.BF16)
	slowed := h.slowed * math.Sqrt(float64(peak)/float64(h.peak)*float64(h.limit)/float64(g.TDP))
	return burst / max(slowed, 1)
}

// heldHopper is the board of Hopper that stands for a GPU: its own, or an H200.
func heldHopper(g *GPU) *heldBoard {
	if g.Key == "h100-sxm-80gb" {
		return &heldH100
	}
	return &heldH200
}
