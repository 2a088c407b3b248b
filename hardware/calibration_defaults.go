package hardware

import (
	"math"
	"slices"

	"llmprof/roofline"
	"llmprof/unit"
)

const us = unit.Seconds(1e-6)

// The constants below were computed from the operator tables of NVIDIA's
// aiconfigurator (Apache-2.0), which hold GEMM, attention and all-reduce times
// on H100, H200, A100, L40S and B200, weights cold, bf16: a three-constant fit
// of the GEMMs to within 6 to 11 % on held-out shapes, of prefill attention to
// 12.6 % and of decode attention to 15 %. Scored on GPUs that an engine's host
// constant was not fitted on, the whole reached a median error of 5 to 6 % and
// a 90th percentile of 14 % for the time per token.
const aiconfigurator = "fit of the operator times of aiconfigurator's database (Apache-2.0), bf16, weights cold"

// hopper fits H200 GEMMs and attention, and all-reduces of 2, 4 and 8 H200: 7.0,
// 10.5 and 17.5 µs at no size by NCCL 2.29, 4.5, 4.5 and 5.0 µs by vLLM's own.
// The bandwidth of element-wise kernels is that of a norm timed on an H200: 43.2 µs
// for 8192 rows of 4096 in bf16 less the 4.4 µs of one row, 3.46 TB/s
// (testdata/h200_operators.json). Over PCIe, in CUDA graphs, all-reduces of 2, 4 and 8
// RTX PRO 6000 take 6.3, 12.9 and 24.6 µs at no size, of 2 and 4 L40S 6.0 and 12.0; two of
// either reach about 0.6 of PCIe.
func hopper() Calibration {
	c := Calibration{
		Source:      aiconfigurator + " on H100 and H200; power, and the bandwidth of norms, of an H200 (hardware/testdata)",
		DecodeError: 0.15, PrefillError: 0.20,
	}
	c.gemm(0.80, 0.835, 3.8*us)
	c.attention(0.61, 0.896, 12*us)
	c.element(0.72, 2*us)
	c.link(0.62, 3.5*us, 1.75*us)
	c.oneShot(4.3*us, 0.09*us)
	k := &c.Constants
	k[roofline.AttentionRamp] = 2 * 384
	k[roofline.PCIeShare], k[roofline.PCIeBase], k[roofline.PCIePerGPU] = 0.60, 0, 3.1e-6
	k[roofline.InterNodeShare], k[roofline.InterNodeBase] = 0.70, 15e-6
	k[roofline.GraphNode] = 1.3e-6
	return c
}

// WithoutP2P is the calibration of GPUs that reach each other over PCIe through the host's memory
// alone, where the driver, a virtual machine or an IOMMU keeps them from each other's. The constants
// are of vLLM 0.19.0's all-reduces over two RTX PRO 6000 on such a host, in CUDA graphs
// (aiconfigurator-core 0.12.0): 17 to 21 µs up to 32 KB, 15.2 GB/s at large messages.
func (c Calibration) WithoutP2P() Calibration {
	k := &c.Constants
	k[roofline.PCIeShare], k[roofline.PCIeBase], k[roofline.PCIePerGPU] = 0.238, 0, 9.8e-6
	c.Name += " without P2P"
	return c
}

// DefaultCalibration is what stands in for a measured calibration of a GPU: the
// constants of its generation where operator times of one of its GPUs are
// public, else those of the nearest such generation with a wider error.
func DefaultCalibration(g *GPU) Calibration {
	c := hopper()
	switch {
	case g.Jetson || g.Integrated:
		c = integrated(c)
	case g.Vendor == "amd":
		c = amd(c)
	default:
		c = generation(g, c)
	}
	k := &c.Constants
	if k[roofline.GEMMSustained] == 0 { // The operators were timed at one rate, whatever throttled them.
		k[roofline.GEMMSustained] = k[roofline.GEMMCompute]
	}
	c.card(g)
	skinnyAsGEMM(k)
	fusedAsOneShot(k)
	powerOfH200(k)
	powerOfBursts(k, g.Key)
	c.Name = "default for " + g.Generation
	c.Residuals = residuals(g)
	if slices.Contains(timedBoards, g.Key) {
		c.Board = boardError
	}
	return c
}

// card sets the constants of single cards whose operators are public. Products are fitted by
// "llmprof calibrate --import", with errors on held-out shapes, in % (median and 90th percentile), of 4.8 and 14 on an
// A100 (SGLang of aiconfigurator-core 0.12.0, whose weights are random) and 4.9 and 12 on a B200 (its vLLM), of 3.0 and 8.9 on an RTX
// 4090, of 3.0 and 8.2 on an RTX PRO 6000 at 1597 GB/s, of LLMServingSim's and as many of vLLM 0.24.0's
// (experiments/operators/convert.py), without memory-bound GEMMs whose weights its L2 cache holds, and of 5.5 and 16 on an A40; of those
// in FP8, 3.5 and 13 on an H20, 7.8 and 15 on an H800. What is fixed on the RTX cards and the A40 is the generation's, for hardly any of
// their GEMMs is short enough to say: three of 5402 on the RTX PRO 6000, from which an import reads 10 µs, and whose other constants are
// fitted beside the generation's. The share of attention's arithmetic and its ramp go through prefills of 1024 and 2048 tokens, its
// bandwidth is that of decode steps of 64 sequences and more after 4096 tokens and more; on an H20 they go through prefills of 32 heads
// after 1024 and 8192 tokens, which leaves one of 4096 tokens within 1 %, and the bandwidth is that of all decode steps.
func (c *Calibration) card(g *GPU) {
	k := &c.Constants
	switch g.Key {
	case "a100-sxm-80gb":
		c.gemm(0.800, 0.797, 4.92*us)
		k[roofline.GEMMDepth], k[roofline.GEMMExposed], k[roofline.GEMMIdle] = 1.28e-9, 0.873, 0.731
	case "b200-sxm-180gb":
		c.gemm(0.714, 0.816, 2.45*us)
		k[roofline.GEMMDepth], k[roofline.GEMMExposed] = 1.084e-9, 0.719
	case "rtx-4090-24gb":
		c.Source = servingSim + "; the rest as on L40S"
		c.gemm(0.970, 0.913, 3*us)
		c.attention(0.81, 0.92, 9.5*us)
		k[roofline.GEMMExposed], k[roofline.AttentionRamp] = 0.721, 548
	case "rtx-pro-6000-server-96gb": // the board that was timed
		c.Source = servingSim + "; the rest as on B200"
		c.gemm(0.898, 0.946, 3.9*us)
		c.attention(0.625, 0.84, 8*us)
		k[roofline.GEMMDepth], k[roofline.GEMMExposed], k[roofline.GEMMIdle], k[roofline.AttentionRamp] = 4.09e-9, 0.538, 0.697, 828
	case "rtx-pro-6000-blackwell-96gb": // The chip is the same; its peak is at a higher clock.
		c.Source = "of the server edition, " + servingSim + "; the rest as on B200"
		c.gemm(0.834, 0.946, 3.9*us)
		c.attention(0.58, 0.84, 8*us)
		k[roofline.GEMMDepth], k[roofline.GEMMExposed], k[roofline.GEMMIdle], k[roofline.AttentionRamp] = 4.09e-9, 0.538, 0.697, 828
	case "a40-48gb":
		c.Source = vidur + "; the rest as on A100"
		c.gemm(0.764, 0.810, 7.4*us)
		k[roofline.GEMMExposed] = 1.17
	case "h20-96gb":
		c.Source = inferSim + ", and its attention; the rest as on H200"
		c.blockScaledGEMMs(0.914, 0.496, 4.02*us, 7.66e-10, 0.098)
		c.attention(0.97, 0.788, 12*us)
		k[roofline.AttentionRamp] = 670
		return
	case "h800-sxm-80gb":
		c.Source = inferSim + "; the rest as on H100"
		c.blockScaledGEMMs(0.733, 0.789, 4.32*us, 8.02e-10, 0.772)
		return
	default:
		return
	}
	k[roofline.GEMMSustained] = k[roofline.GEMMCompute]
}

// blockScaledGEMMs sets the constants of GEMMs in FP8 with a scale for each block.
func (c *Calibration) blockScaledGEMMs(compute, memory float64, fixed unit.Seconds, depth, exposed float64) {
	for key, v := range map[string]float64{"compute": compute, "memory": memory, "fixed": float64(fixed), "depth": depth, "exposed": exposed} {
		c.Constants[roofline.ConstantOf("gemm_fp8_block."+key)] = v
	}
}

// generation adjusts the constants of Hopper to another generation of NVIDIA's
// discrete GPUs.
func generation(g *GPU, c Calibration) Calibration {
	k := &c.Constants
	switch g.Generation {
	case "hopper":
		k[roofline.GEMMSustained] = heldHopper(g).sustained(g, k[roofline.GEMMCompute])
		switch {
		case g.Key == "h200-sxm-141gb": // timed here: 90 % of the GEMMs and attentions of prefills are within that
			c.PrefillError = 0.15
		case g.TDP != 700: // no board with that limit was timed
			c.PrefillError = 0.25
		}
	case "ampere":
		c.Source = aiconfigurator + " on A100 SXM"
		c.gemm(0.824, 0.741, 7.4*us)
		k[roofline.AttentionMemory] = 0.741
		c.link(0.50, 10*us, 1.6*us)
		c.oneShot(4.5*us, 0.25*us) // 5.0, 5.5 and 6.5 µs over 2, 4 and 8 A100
		if g.L2 < 30e6 {
			c = graphicsDRAM(g, c)
		}
	case "ada":
		c.Source = aiconfigurator + " on L40S"
		c.gemm(0.626, 0.762, 3*us)
		c.attention(0.50, 0.762, 12*us)
		c.DecodeError, c.PrefillError = 0.20, 0.30
		k[roofline.GEMMSustained] = heldL40S.sustained(g, k[roofline.GEMMCompute])
		if k[roofline.GEMMSustained] < k[roofline.GEMMCompute] {
			c.PrefillError = 0.40 // no board with less power for its peak was timed
		}
	case "blackwell", "rubin":
		c.Source = aiconfigurator + " on B200"
		c.gemm(0.71, 0.816, 3.9*us)
		k[roofline.AttentionMemory] = 0.816
		c.DecodeError, c.PrefillError = 0.20, 0.25
		if g.Generation == "rubin" {
			c.Source = "constants of B200 (" + aiconfigurator + "); nothing measured on rubin"
			c.DecodeError, c.PrefillError = 0.35, 0.45
		}
	default: // Volta, Turing: no operator times are public
		c.Source = "constants of A100 (" + aiconfigurator + "); nothing measured on " + g.Generation
		c.gemm(0.70, 0.741, 7.4*us)
		c.attention(0.40, 0.70, 14*us)
		c.link(0.50, 10*us, 1.6*us)
		c.DecodeError, c.PrefillError = 0.35, 0.45
	}
	return c
}

// graphicsDRAM is for GA102 and the smaller chips of Ampere. What an A40's GEMMs take for their depth is
// not taken over: beside the fixed time of an A100 it makes decode steps of an A6000 too long (ELANA).
func graphicsDRAM(g *GPU, c Calibration) Calibration {
	k := &c.Constants
	c.Source = "products of an A40, which has the same multiprocessors: " + vidur + "; the rest as on A100"
	c.gemm(0.745, 0.817, 7.4*us)
	k[roofline.GEMMSustained] = heldA40.sustained(g, 0.745)
	k[roofline.AttentionCompute], k[roofline.AttentionMemory] = 0.50, 0.80
	c.DecodeError, c.PrefillError = 0.25, 0.40
	return c
}

// integrated is for modules whose memory the CPU shares. ELANA's table 4 has a
// Thor at 88 % of its bandwidth in decode; launches are slower on their CPUs.
func integrated(c Calibration) Calibration {
	c.Source = "constants of Hopper (" + aiconfigurator +
		") with the memory share seen on a Jetson Thor (ELANA, arXiv:2512.09946, table 4: 240 of 273 GB/s); not measured on this module"
	c.gemm(0.626, 0.85, 8*us)
	c.attention(0.40, 0.80, 20*us)
	c.element(0.70, 5*us)
	c.Constants[roofline.GraphNode] = 3e-6
	c.DecodeError, c.PrefillError = 0.35, 0.60
	return c
}

// amd uses the best large GEMM that stas00's ml-engineering measured on an
// MI300X, 668 of 1307 TFLOP/s; the rest is Hopper's.
func amd(c Calibration) Calibration {
	c.Source = "GEMM share measured on an MI300X (stas00/ml-engineering: 668 of 1307 TFLOP/s); the rest as on Hopper"
	c.gemm(0.51, 0.75, 6*us)
	c.attention(0.35, 0.75, 15*us)
	c.DecodeError, c.PrefillError = 0.35, 0.45
	return c
}

// A heldBoard is one whose large GEMMs were timed at its power limit.
type heldBoard struct {
	peak   unit.FLOPsPerSec // bf16
	limit  unit.Watts
	slowed float64 // how many times longer they take there than in a burst, as far as known
}

// heldH200 settled at 670 TFLOP/s, 0.677 of the peak, on a GEMM of 8192 × 8192 ×
// 8192 in bf16 at 695 of 700 W, where short ones reached 788
// (testdata/h200_operators.json). heldH100 ran three GEMMs of 8192 rows at 0.72 of the
// peak and 699 to 710 W (hardware/calibrations/h100-sxm-80gb.native.toml). heldL40S is said by its operators' times to do no
// better than 226 of 362 TFLOP/s at 350 W, and an A40 no better than 112 of 150 at 300 W;
// what they do in bursts is not known.
var (
	heldH100 = heldBoard{peak: 989.5e12, limit: 700, slowed: 0.80 / 0.72}
	heldH200 = heldBoard{peak: 989.5e12, limit: 700, slowed: 0.80 / 0.677}
	heldL40S = heldBoard{peak: 362.05e12, limit: 350, slowed: 1}
	heldA40  = heldBoard{peak: 149.7e12, limit: 300, slowed: 1}
)

// sustained is the share of its peak that another board of the generation sustains. In bursts that board reaches the
// share burst. The rate that a power limit leaves goes with the root of
// the power (analytic/energy/energy.go), so it is slowed by the root of the power that the
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

// powerOfH200 is what an H200 drew, whose limit is 700 W. Calibrations of the native engine on an H100 and an H200 have
// constants of their own.
//
//   - Idle: 79 W without a process.
//   - Waiting: 121.2 W, the median of the 41 windows with a model loaded and nothing
//     to do of experiments/h200, which go from 116 to 126 W; 123 W between the
//     operators of testdata/h200_operators.json.
//   - Memory: GEMMs of one row drew 562 W at 4.26 TB/s (the same file). GEMMs of 8
//     and 32 rows, which nothing was taken from, then come within 3 % of the 572 and
//     663 W measured.
//   - Fixed: the least mean error of the energy per token of Llama-3.1-8B in a graph
//     (validate/observations/h200.csv), so those rows are scored separately.
//   - Network: all-reduces of 256 KB to 256 MB over two and four H100s by the native engine's kernels
//     (experiments/h100-native/rows.jsonl.gz).
//   - Skinny, Attention: not measured apart; kernels are taken to draw what the
//     GEMMs of a library do for the bytes that they move.
func powerOfH200(c *roofline.Constants) {
	c[roofline.PowerMemory], c[roofline.PowerSkinnyGEMM], c[roofline.PowerAttention] = 0.70, 0.70, 0.70
	c[roofline.PowerNetwork], c[roofline.PowerFixed] = 0.21, 0.16
	c[roofline.PowerWaiting], c[roofline.PowerIdle] = 0.068, 0.11
}

// powerOfBursts is what large GEMMs of an H100 drew in bursts (experiments/power, go test ./energy -run FullClocks). It is
// taken for an H200 too, which has the same chip and the same power limit.
func powerOfBursts(c *roofline.Constants, key string) {
	if key == "h100-sxm-80gb" || key == "h200-sxm-141gb" {
		c[roofline.PowerMatrix] = 1.72
	}
}
