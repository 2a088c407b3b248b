package hardware

import (
	"math"

	"llmprof/unit"
)

// A Calibration says what a GPU does in practice: for each class of kernel the
// share of the data-sheet peaks that it reaches and the fixed time it takes
// whatever its size, and what a collective and a launch cost. Without one that
// was measured on the GPU at hand, DefaultCalibration serves.
//
// The time of one kernel is
//
//	Fixed + max(FLOPs / (Compute × peak), bytes / (Memory × bandwidth))
type Calibration struct {
	Name   string // "default for hopper"
	Source string // where and when the constants were measured

	GEMM      Kernel  // products with weights; Compute is of bursts, before the power limit holds the clocks down
	Attention Kernel  // between the projections of softmax attention
	Element   Kernel  // norms, activations, rotary, cache writes; Compute is of the FP32 vector peak
	Own       Rows    // products of few rows by an engine's own kernels, where it has some; else as GEMM
	Wide      Wide    // products of many sequences' decode steps by an engine's own kernels; 0 where nothing is known of them
	Mixture   Mixture // of a layer in a decode step by an engine's own kernels; 0 where nothing is known of them
	Experts   Experts // of prompts by an engine's own kernels; 0 where nothing is known of them

	// Sustained is the share of the peak that a square product of SquareRows rows
	// reaches for as long as one likes, held at the power limit. It is at least
	// GEMM.Compute where the limit does not hold products back, or where that is not
	// known.
	Sustained float64

	// AttentionRamp is how many query tokens a prefill needs until attention
	// reaches half of its rate: tiles on the diagonal are half empty, and short
	// sequences do not fill the GPU.
	AttentionRamp float64

	Link          float64      // share of the link's rate that a large all-reduce reaches
	LinkBase      unit.Seconds // latency of an all-reduce over n GPUs: LinkBase + n × LinkPerGPU
	LinkPerGPU    unit.Seconds
	OneShotBase   unit.Seconds // the same for the small all-reduces that engines do over peer memory
	OneShotPerGPU unit.Seconds
	PostedBase    unit.Seconds // the same for those that an engine's own products do themselves
	PostedPerGPU  unit.Seconds
	PCIe          float64 // the same three for GPUs that no link joins
	PCIeBase      unit.Seconds
	PCIePerGPU    unit.Seconds
	InterNode     float64 // share of the NIC's rate
	InterNodeBase unit.Seconds

	Launch unit.Seconds // one kernel of a CUDA graph, from the end of the one before it
	Stream unit.Seconds // by how much longer a kernel takes that is launched by itself; 0 where that is not known

	Power Power

	// Error is the half-width of a 90 % interval of the expected time, as a
	// share of it: of a decode step, and of a prefill.
	DecodeError, PrefillError float64
}

// SquareRows is the size of the product that Sustained is measured with: it is far
// above the ridge of every GPU, and so draws next to nothing for its memory.
const SquareRows = 8192

// A Kernel is how close one class of kernels comes to the peaks.
type Kernel struct {
	Compute float64      // of the peak of its number format
	Memory  float64      // of the memory bandwidth
	Fixed   unit.Seconds // of each launch
}

// Rows is how products of few rows go that stream their weights. Each row makes its
// inputs come again for every tile of weights, so the time grows with the rows though
// next to nothing more comes from memory:
//
//	Fixed + bytes / (Memory × bandwidth) + rows × Row × bytes of weights / bandwidth
//
// On an H200 that is within 1.6 % (median) of 60 products of 1 to 16 rows
// (go test ./measure/calibrate -run TestOwnRows -v), which share and fixed time alone
// miss by 3.1 %.
type Rows struct {
	Memory float64 // share of the memory bandwidth
	Row    float64
	Fixed  unit.Seconds
}

// Mixture is how a layer's mixture goes in a decode step, router, choice and the experts'
// products together. The rows of an expert are the tokens that chose it; of several
// sequences the pairs of tokens and experts have to be put in order first:
//
//	(Fixed or Several) + bytes / (Memory × bandwidth) + Again × bytes that come again / bandwidth
//
// Weights are read once for each group of up to eight pairs of one expert. Of gate and up the first
// kernels, for few sequences, read them once for each pair: what that is more than once for each
// expert is what comes again, most of it out of the L2. Where nothing is known of that, it is
//
//	(Fixed or Several) + bytes / (Memory × bandwidth) + Row × bytes that rows meet / bandwidth
//
// with the weights of each expert once.
type Mixture struct {
	Memory  float64 // share of the memory bandwidth
	Again   float64 // 0 where nothing is known of it
	Row     float64
	Fixed   unit.Seconds // of one sequence
	Several unit.Seconds // of more than one, in its place
}

// Wide is how products of a decode step of many sequences go by an engine's own kernels. Weights
// come once, and the inputs of all sequences again for every tile of them, out of the L2:
//
//	Fixed + bytes of weights / (Memory × bandwidth) + Again × bytes of inputs and results / bandwidth
type Wide struct {
	Memory float64 // share of the memory bandwidth
	Again  float64 // how often inputs and results are moved
	Fixed  unit.Seconds
}

// Experts is how the experts of a prompt go by an engine's own kernels: the choice, after which one
// block puts the pairs of a token and an expert in the order of their experts, and two products, whose
// tiles are of one expert each (ExpertTile). Inputs are gathered ahead of the first, and results summed
// behind the second:
//
//	ChoiceFixed + pairs × ChoicePair + experts × ChoiceExpert
//	GEMM.Fixed + √(C² + M²) + (Gather or Sum) × bytes of the pairs' inputs or results / bandwidth
//	C = FLOPs / (Compute × peak), M = bytes of weights / (Memory × bandwidth)
//
// A block brings few stages of weights ahead, so that arithmetic and memory, where they take equally
// long, hide less than all of each other: the root of the squares lies between their sum and the greater.
type Experts struct {
	Compute                               float64 // share of the peak
	Memory                                float64 // share of the memory bandwidth
	Gather, Sum                           float64 // how often the pairs' values are moved, by the kernels beside the products and at their ends
	ChoiceFixed, ChoicePair, ChoiceExpert unit.Seconds
}

// ownAsOthers takes own products as all others, where nothing is known of them.
func (c *Calibration) ownAsOthers() { c.Own = Rows{Memory: c.GEMM.Memory, Fixed: c.GEMM.Fixed} }

// postedAsOthers takes sums within own products as other small ones, where nothing is
// known of them.
func (c *Calibration) postedAsOthers() { c.PostedBase, c.PostedPerGPU = c.OneShotBase, c.OneShotPerGPU }

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
// (testdata/h200_operators.json). Over PCIe, two L40S reach about 20 GB/s of
// all-reduce, 63 % of PCIe 4.0, after 43 µs.
func hopper() Calibration {
	return Calibration{
		Source:        aiconfigurator + " on H100 and H200; power, and the bandwidth of norms, of an H200 (hardware/testdata)",
		GEMM:          Kernel{Compute: 0.80, Memory: 0.835, Fixed: 3.8 * us},
		Attention:     Kernel{Compute: 0.61, Memory: 0.896, Fixed: 12 * us},
		Element:       Kernel{Compute: 0.5, Memory: 0.72, Fixed: 2 * us},
		AttentionRamp: 2 * 384,
		Link:          0.62, LinkBase: 3.5 * us, LinkPerGPU: 1.75 * us,
		OneShotBase: 4.3 * us, OneShotPerGPU: 0.09 * us,
		PCIe: 0.60, PCIeBase: 35 * us, PCIePerGPU: 4 * us,
		InterNode: 0.70, InterNodeBase: 15 * us,
		Launch:      1.3 * us,
		DecodeError: 0.15, PrefillError: 0.20,
	}
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
	if c.Sustained == 0 { // its operators were timed at one rate, whatever held them back
		c.Sustained = c.GEMM.Compute
	}
	c.ownAsOthers()
	c.postedAsOthers()
	c.Name, c.Power = "default for "+g.Generation, powerOfH200()
	return c
}

// A heldBoard is one whose large products were timed at its power limit.
type heldBoard struct {
	peak   unit.FLOPsPerSec // bf16
	limit  unit.Watts
	slowed float64 // how many times longer they take there than in a burst, as far as known
}

// heldH200 settled at 670 TFLOP/s, 0.677 of the peak, on a product of 8192 × 8192 ×
// 8192 in bf16 at 695 of 700 W, where short ones reached 788
// (testdata/h200_operators.json). heldL40S is said by its operators' times to do no
// better than 226 of 362 TFLOP/s at 350 W; what it does in bursts is not known.
var (
	heldH200 = heldBoard{peak: 989.5e12, limit: 700, slowed: 0.80 / 0.677}
	heldL40S = heldBoard{peak: 362.05e12, limit: 350, slowed: 1}
)

// sustained is the share of its peak that another board of the generation sustains
// which reaches burst of it. The rate that a power limit leaves goes with the root of
// the power (analytic/power.go), so it is slowed by the root of the power that the
// known board's rate would cost it. The limit of a GH200 is shared with its
// processor.
func (h *heldBoard) sustained(g *GPU, burst float64) float64 {
	peak, _ := g.Peak(unit.BF16)
	slowed := h.slowed * math.Sqrt(float64(peak)/float64(h.peak)*float64(h.limit)/float64(g.TDP))
	return burst / max(slowed, 1)
}

// generation adjusts the constants of Hopper to another generation of NVIDIA's
// discrete GPUs.
func generation(g *GPU, c Calibration) Calibration {
	switch g.Generation {
	case "hopper":
		c.Sustained = heldH200.sustained(g, c.GEMM.Compute)
		switch {
		case g.Key == "h200-sxm-141gb": // timed here: 90 % of the products and attentions of prefills are within that
			c.PrefillError = 0.15
		case g.TDP != 700: // no board with that limit was timed
			c.PrefillError = 0.25
		}
	case "ampere":
		c.Source = aiconfigurator + " on A100 SXM"
		c.GEMM = Kernel{Compute: 0.824, Memory: 0.741, Fixed: 7.4 * us}
		c.Attention.Memory = 0.741
		c.Link, c.LinkBase, c.LinkPerGPU = 0.50, 10*us, 1.6*us
		c.OneShotBase, c.OneShotPerGPU = 4.5*us, 0.25*us // 5.0, 5.5 and 6.5 µs over 2, 4 and 8 A100
		if g.L2 < 30e6 {                                 // GA102: graphics DRAM, no server measured
			c.Source = "constants of A100 and, for a board that its power limit holds back, the compute share of L40S (" + aiconfigurator + "); not measured on this chip"
			c.GEMM.Compute, c.Attention.Compute = 0.626, 0.50
			c.GEMM.Memory, c.Attention.Memory = 0.80, 0.80
			c.DecodeError, c.PrefillError = 0.25, 0.40
		}
	case "ada":
		c.Source = aiconfigurator + " on L40S"
		c.GEMM = Kernel{Compute: 0.626, Memory: 0.762, Fixed: 3 * us}
		c.Attention = Kernel{Compute: 0.50, Memory: 0.762, Fixed: 12 * us}
		c.DecodeError, c.PrefillError = 0.20, 0.30
		if c.Sustained = heldL40S.sustained(g, c.GEMM.Compute); c.Sustained < c.GEMM.Compute {
			c.PrefillError = 0.40 // no board with less power for its peak was timed
		}
	case "blackwell":
		c.Source = aiconfigurator + " on B200"
		c.GEMM = Kernel{Compute: 0.71, Memory: 0.816, Fixed: 3.9 * us}
		c.Attention.Memory = 0.816
		c.DecodeError, c.PrefillError = 0.20, 0.25
	default: // Volta, Turing: no operator times are public
		c.Source = "constants of A100 (" + aiconfigurator + "); nothing measured on " + g.Generation
		c.GEMM = Kernel{Compute: 0.70, Memory: 0.741, Fixed: 7.4 * us}
		c.Attention = Kernel{Compute: 0.40, Memory: 0.70, Fixed: 14 * us}
		c.Link, c.LinkBase, c.LinkPerGPU = 0.50, 10*us, 1.6*us
		c.DecodeError, c.PrefillError = 0.35, 0.45
	}
	return c
}

// integrated is for modules whose memory the CPU shares. ELANA's table 4 has a
// Thor at 88 % of its bandwidth in decode; launches are slower on their CPUs.
func integrated(c Calibration) Calibration {
	c.Source = "constants of Hopper (" + aiconfigurator + ") with the memory share seen on a Jetson Thor (ELANA, arXiv:2512.09946, table 4: 240 of 273 GB/s); not measured on this module"
	c.GEMM = Kernel{Compute: 0.626, Memory: 0.85, Fixed: 8 * us}
	c.Attention = Kernel{Compute: 0.40, Memory: 0.80, Fixed: 20 * us}
	c.Element = Kernel{Compute: 0.5, Memory: 0.70, Fixed: 5 * us}
	c.Launch = 3 * us
	c.DecodeError, c.PrefillError = 0.35, 0.60
	return c
}

// amd uses the best large GEMM that stas00's ml-engineering measured on an
// MI300X, 668 of 1307 TFLOP/s; the rest is Hopper's.
func amd(c Calibration) Calibration {
	c.Source = "GEMM share measured on an MI300X (stas00/ml-engineering: 668 of 1307 TFLOP/s); the rest as on Hopper"
	c.GEMM = Kernel{Compute: 0.51, Memory: 0.75, Fixed: 6 * us}
	c.Attention = Kernel{Compute: 0.35, Memory: 0.75, Fixed: 15 * us}
	c.DecodeError, c.PrefillError = 0.35, 0.45
	return c
}
