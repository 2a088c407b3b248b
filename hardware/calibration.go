package hardware

import (
	"fmt"

	"llmprof/roofline"
)

// A Calibration says what a GPU does in practice: the constants of the laws of
// package roofline, and how far they may be off. Without one that was measured on
// the GPU at hand, DefaultCalibration serves.
type Calibration struct {
	Name      string // "default for hopper"
	Source    string // where and when the constants were measured
	Constants roofline.Constants
	Measured  bool // on a GPU of the kind, rather than taken from its generation

	Fitted [roofline.NumConstants]bool // the constants that were measured there, of a file or of the engine's own operator tables

	// Error is the half-width of a 90 % interval of the expected time, as a
	// share of it: of a decode step, and of a prefill.
	DecodeError, PrefillError float64

	// Residuals says of the share that a kernel mostly depends on how far a kernel of its
	// law may be off, by the 90th percentile of shapes that its constants were not fitted
	// on. Board is how far all of them may be off together, for constants are of several
	// boards; 0 where no operators of the board were timed.
	Residuals roofline.Constants
	Board     float64

	PowerMeasured bool // what phases draw was measured end to end on GPUs of the kind
}

// Check keeps impossible constants out, as a share that has an expected time below the
// floor. An optional constant may be 0: nothing is known of it then.
func (c *Calibration) Check() error {
	for _, k := range roofline.All() {
		i, v := k.Info(), c.Constants[k]
		if unknown := v == 0 && (i.Quantity != roofline.Share || i.Optional || i.Engine); !unknown && !k.Valid(v) {
			return fmt.Errorf("%s (%s) is %v: want %s", k, i.Help, v, i.Quantity.Want())
		}
	}
	return nil
}

// SquareRows is the size of the GEMM that gemm.sustained is measured with: it is
// far above the ridge of every GPU, and so draws next to nothing for its memory.
const SquareRows = 8192

// follow takes GEMMs of few rows as all others, and all-reduces within GEMMs as other small ones,
// where nothing is known of them.
func (c *Calibration) follow(known map[string]Value) {
	k := &c.Constants
	if _, ok := known["skinny_gemm.memory"]; !ok {
		k[roofline.SkinnyGEMMMemory], k[roofline.SkinnyGEMMRow], k[roofline.SkinnyGEMMFixed] = k[roofline.GEMMMemory], 0, k[roofline.GEMMFixed]
	}
	if _, ok := known["fused_all_reduce.base"]; !ok {
		k[roofline.FusedAllReduceBase], k[roofline.FusedAllReducePerGPU] = k[roofline.OneShotBase], k[roofline.OneShotPerGPU]
	}
}

// throughHost takes GPUs that reach each other over PCIe through the host's memory alone. The constants
// are of vLLM 0.19.0's all-reduces over two RTX PRO 6000 on such a host, in CUDA graphs
// (aiconfigurator-core 0.12.0): 17 to 21 µs up to 32 KB, 15.2 GB/s at large messages.
func (c *Calibration) throughHost() {
	k := &c.Constants
	k[roofline.PCIeShare], k[roofline.PCIeBase], k[roofline.PCIePerGPU] = 0.238, 0, 9.8e-6
}
