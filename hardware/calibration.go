package hardware

import (
	"fmt"

	"llmprof/roofline"
	"llmprof/unit"
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
}

// Check keeps impossible constants out, as a share that has an expected time below the
// floor. An optional constant may be 0: nothing is known of it then.
func (c *Calibration) Check() error {
	for _, k := range roofline.All() {
		i, v := k.Info(), c.Constants[k]
		if v == 0 && (i.Quantity != roofline.Share || i.Optional || i.Engine) {
			continue
		}
		if !k.Valid(v) {
			return fmt.Errorf("%s (%s) is %v: want %s", k, i.Help, v, i.Quantity.Want())
		}
	}
	return nil
}

// SquareRows is the size of the GEMM that gemm.sustained is measured with: it is
// far above the ridge of every GPU, and so draws next to nothing for its memory.
const SquareRows = 8192

// skinnyAsGEMM takes GEMMs of few rows as all others, where nothing is known of
// them.
func skinnyAsGEMM(c *roofline.Constants) {
	c[roofline.SkinnyGEMMMemory], c[roofline.SkinnyGEMMRow], c[roofline.SkinnyGEMMFixed] = c[roofline.GEMMMemory], 0, c[roofline.GEMMFixed]
}

// fusedAsOneShot takes all-reduces within GEMMs as other small ones, where nothing
// is known of them.
func fusedAsOneShot(c *roofline.Constants) {
	c[roofline.FusedAllReduceBase], c[roofline.FusedAllReducePerGPU] = c[roofline.OneShotBase], c[roofline.OneShotPerGPU]
}

// gemm, attention and element set the share of the arithmetic peak, the share of the
// bandwidth and the fixed time of a launch.
func (c *Calibration) gemm(compute, memory float64, fixed unit.Seconds) {
	c.Constants[roofline.GEMMCompute], c.Constants[roofline.GEMMMemory], c.Constants[roofline.GEMMFixed] = compute, memory, float64(fixed)
}

func (c *Calibration) attention(compute, memory float64, fixed unit.Seconds) {
	c.Constants[roofline.AttentionCompute], c.Constants[roofline.AttentionMemory], c.Constants[roofline.AttentionFixed] = compute, memory,
		float64(fixed)
}

func (c *Calibration) element(memory float64, fixed unit.Seconds) {
	c.Constants[roofline.ElementwiseCompute], c.Constants[roofline.ElementwiseMemory], c.Constants[roofline.ElementwiseFixed] = 0.5, memory,
		float64(fixed)
}

// link sets the share of the link and the latency of an all-reduce.
func (c *Calibration) link(share float64, base, perGPU unit.Seconds) {
	c.Constants[roofline.LinkShare], c.Constants[roofline.LinkBase], c.Constants[roofline.LinkPerGPU] = share, float64(base), float64(perGPU)
}

// oneShot sets the latency of a small all-reduce over peer memory.
func (c *Calibration) oneShot(base, perGPU unit.Seconds) {
	c.Constants[roofline.OneShotBase], c.Constants[roofline.OneShotPerGPU] = float64(base), float64(perGPU)
}

// Constants of single cards rest on these tables.
const (
	servingSim = "operator times of vLLM 0.19 in bf16 that LLMServingSim has of it (5daddb2, MIT)"
	vidur      = "21,924 products of torch in fp16 that Vidur has of it (7d47513, MIT)"
	inferSim   = "DeepGEMM's products in FP8 by blocks that InferSim has of it (f2293da, Apache-2.0)"
)

// timedBoards are the GPUs in the tables of operator times whose GEMMs are within the
// residuals below. On an L40S and an A100 one GEMM in ten is off by 15 to 25 %.
var timedBoards = []string{"h100-sxm-80gb", "h200-sxm-141gb", "b200-sxm-180gb", "b300-sxm-288gb", "gb200-186gb", "rtx-4090-24gb"}

// boardError is by how much the median GEMM of a board may differ from what the
// constants of its generation say: on H100, H200 and B200, of three engines, GEMMs of up to
// 128 rows in bf16 are 5 % too fast to 5 % too slow.
const boardError = 0.05

// residuals are 90th percentiles of the errors of operators of vLLM 0.24.0. GEMMs of 20 µs
// and more are within 10 % on H100, H200 and B200 where they stream their weights, and
// within 14 % where they compute; those of 5 to 20 µs within 1.5 µs on H100 and H200 and 3
// µs on B200, which are shares of gemm.fixed. The others are of shapes held out of a fit
// ("llmprof calibrate --import"). No table has element-wise kernels. A constant that is not
// here has the residual of the one that it is a variant of.
func residuals(g *GPU) (r roofline.Constants) {
	for key, p90 := range map[string]float64{
		"gemm.memory": 0.10, "gemm.compute": 0.14, "gemm.fixed": 0.4, "attention.memory": 0.16, "attention.compute": 0.26,
		"moe_prefill.memory": 0.18, "moe_prefill.compute": 0.33, "grouped_gemm.memory": 0.18, "grouped_gemm.compute": 0.33,
		"element.memory": 0.25, "element.compute": 0.25, "one_shot.share": 0.24, "link.share": 0.74, "pcie.share": 0.74, "inter_node.share": 0.74,
		"skinny_gemm.memory": 0.10, "wgmma_gemm.memory": 0.10, "moe_decode.memory": 0.18, "attention.copies": 0.16,
	} {
		r[roofline.ConstantOf(key)] = p90
	}
	if g.Generation == "blackwell" || g.Generation == "rubin" {
		r[roofline.GEMMFixed] = 0.8
	}
	return r
}
