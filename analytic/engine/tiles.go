package engine

import (
	"math"

	"llmprof/analytic"
	"llmprof/analytic/operator"
	"llmprof/hardware"
	"llmprof/roofline"
	"llmprof/unit"
)

// vllmTile is the tile that vLLM's GEMMs in FP8 by CUTLASS take on Hopper, by the rows and sides of the GEMM
// (csrc/libtorch_stable/quantization/w8a8/cutlass/c3x/scaled_mm_sm90_fp8_dispatch.cuh of vLLM). Up to 64 rows the
// operands are swapped, and blocks of a cluster without rows end at once.
func vllmTile(g *hardware.GPU, k *roofline.Kernel) roofline.Tile {
	if k.Class != roofline.GEMM || k.Scheme != roofline.FP8 || g.Vendor != nvidia || int(capability(g)) != 9 {
		return roofline.Tile{}
	}
	switch m := k.Shape.M; {
	case m <= 16, m <= 64 && k.Shape.N <= 1280:
		return roofline.Tile{Rows: 16, Columns: 64, Blocks: 1}
	case m <= 64:
		return roofline.Tile{Rows: 64, Columns: 64, Blocks: 1}
	case m <= 128:
		return roofline.Tile{Rows: 128, Columns: 128, Blocks: 2}
	case m >= 8192 && k.Shape.K >= 6144:
		return roofline.Tile{Rows: 512, Columns: 128, Blocks: 2}
	}
	return roofline.Tile{Rows: 256, Columns: 128, Blocks: 2}
}

// emptyRow is how many rows of a tile an empty row takes on a GPU, and onH200 on an H200. The tensor memory accelerator fills a row as
// fast on every Hopper, but the tensor cores of an H20 do a quarter of the arithmetic, which an empty row has like any other.
func emptyRow(g *hardware.GPU, onH200 float64) float64 {
	const h200 = 8192 // FLOPs in FP8 of an SM in a clock
	peak, _ := g.Peak(unit.FP8)
	share := float64(peak) / (float64(g.SMs) * float64(g.TensorClock)) / h200
	return max(1, onH200*min(1, share))
}

// tile sets the tiles of a part's GEMMs, whose rows are known.
func (e *graphed) tile(l *analytic.Lowering) {
	for i := range l.Kernels {
		k := &l.Kernels[i].Kernel
		if e.setTile(l.GPU, k); k.Class == roofline.GroupedGEMM && k.Tile.Rows > 0 {
			k.Shape.Tiles = l.Step.Tiles(&k.Shape, k.Tile.Rows)
		}
	}
}

func (e *graphed) setTile(g *hardware.GPU, k *roofline.Kernel) {
	switch {
	case k.Class == roofline.GroupedGEMM && e.grouped != nil:
		if e.grain != nil {
			padExperts(k, e.grain(g, k.Scheme))
		}
		if e.untuned != nil && e.untuned(g, k) {
			k.Scheme = roofline.Untuned
		}
		k.Tile = roofline.Tile{Rows: e.grouped(g, k)}
		k.Reread = k.Work.Weights.Times(halfLines(g, k))
		if e.foreign != nil && e.foreign(g, k.Scheme) {
			k.Work.FLOPs = k.Work.FLOPs.Times(max(1, k.Shape.Ranks))
		}
	case k.Class == roofline.GEMM && e.tiles != nil:
		k.Tile = e.tiles(g, k)
	}
}

// SetTile sets the tile that a kernel of an engine has on a GPU, where it is known. How many tiles a grouped GEMM has
// follows from the tokens of each expert, which the kernel does not know.
func SetTile(name string, g *hardware.GPU, k *roofline.Kernel) {
	if e, err := Parse(name); err == nil {
		if e, ok := e.(*graphed); ok {
			e.setTile(g, k)
		}
	}
}

// vllmExpertTile is the rows of a tile of vLLM's grouped GEMMs: of the Triton kernels that run experts in MXFP4 on Hopper, of Marlin, and
// of FlashInfer's.
func vllmExpertTile(g *hardware.GPU, k *roofline.Kernel) float64 {
	switch {
	case tritonMXFP4(g, k.Scheme):
		return ragged(k)
	case k.Scheme == roofline.WeightINT4:
		return marlinRows(g, k)
	case k.Scheme == roofline.FP8 && g.Vendor == nvidia && int(capability(g)) == 9:
		// CUTLASS by FlashInfer: in the operator tables experts of up to 128 pairs take as long as each other, and those of 192 and 256 twice as
		// long.
		return 128
	}
	return flashInferRows(g, k)
}

// sglangExpertTile is the rows of a tile of SGLang's grouped GEMMs: of its Triton kernel in 16 bits, which it runs on all GPUs but
// Blackwell's of data centres, by the default that it takes for shapes without a tuned configuration (get_default_config of
// fused_moe_triton_config.py), and of Marlin. A tuned configuration has tiles for each number of tokens.
func sglangExpertTile(g *hardware.GPU, k *roofline.Kernel) float64 {
	switch {
	case dataCentreBlackwell(g):
		return flashInferRows(g, k)
	case k.Scheme == roofline.WeightINT4:
		return marlinRows(g, k)
	case g.Vendor != nvidia || k.Scheme != roofline.Untuned && (k.Scheme != roofline.Unquantized || int(capability(g)) == 9):
		return 0
	}
	if k.Shape.Tokens <= k.Shape.Experts/max(1, k.Shape.Ranks) {
		return 16
	}
	return 64
}

// halfLines is the share of an expert's weights that SGLang's tiles of 64 rows read again. They load 32 inputs at a time, which are half
// of a line of 128 bytes, and on boards with graphics memory some lines are gone before their other half is asked for: the operator tables
// have 0.44 on an L40S and 0.42 on an RTX PRO 6000, and on Hopper, between shapes with a tuned configuration, none that could be told.
func halfLines(g *hardware.GPU, k *roofline.Kernel) float64 {
	if c := capability(g); k.Scheme == roofline.Unquantized && k.Tile.Rows == 64 && (c == 8.9 || c >= 12) {
		return 0.43
	}
	return 0
}

// tritonMXFP4 reports whether vLLM runs experts of a scheme by OpenAI's Triton kernels.
func tritonMXFP4(g *hardware.GPU, s roofline.Scheme) bool {
	return g.Vendor == nvidia && int(capability(g)) == 9 && s == roofline.WeightMXFP4
}

// dataCentreBlackwell reports whether a GPU has Blackwell's tensor memory, for which TensorRT-LLM's generated kernels are compiled.
func dataCentreBlackwell(g *hardware.GPU) bool {
	return g.Vendor == nvidia && int(capability(g)) == 10
}

// generatedRows is the power of two from 8 to most above the pairs of an expert: the middle one of the tiles that TensorRT-LLM's generated
// kernels may take (computeSelectedTileN of blockScaleMoe/runner.h). A rank of EP counts the pairs of all ranks among its own experts, so
// that most rows of its tiles are empty.
func generatedRows(k *roofline.Kernel, most float64) float64 {
	rows := 8.0
	for rows < pairsOfAll(k) && rows < most {
		rows *= 2
	}
	return rows
}

// flashInferRows is the rows of a tile of the generated kernels that vLLM and SGLang call by FlashInfer: half of generatedRows, the
// smallest that may be taken (selectDefaultTileN of trtllm_fused_moe_kernel_launcher.cu). The largest tiles of a scheme are those that
// FlashInfer lists there.
func flashInferRows(g *hardware.GPU, k *roofline.Kernel) float64 {
	if !dataCentreBlackwell(g) {
		return 0
	}
	most := 128.0
	switch k.Scheme {
	case roofline.WeightMXFP4:
		most = 64
	case roofline.MXFP4, roofline.NVFP4:
		most = 256
	}
	return max(8, generatedRows(k, most)/2)
}

// vllmExpertGrain is that of vLLM for FlashInfer's kernels in MXFP4 (mxfp4_round_up_hidden_size_and_intermediate_size of oracle/mxfp4.py).
func vllmExpertGrain(g *hardware.GPU, s roofline.Scheme) operator.Grain {
	if dataCentreBlackwell(g) && (s == roofline.MXFP4 || s == roofline.WeightMXFP4) {
		return operator.Grain{Hidden: 256, Width: 256}
	}
	return operator.Grain{}
}

// sglangExpertGrain is that of SGLang for FlashInfer's kernels: in MXFP4 by its own code (create_weights of quantization/mxfp4.py), in
// other formats by its operator tables, whose experts of 16 to 96 wide take as long as those of 128, and those of 192 as those of 256.
func sglangExpertGrain(g *hardware.GPU, s roofline.Scheme) operator.Grain {
	if dataCentreBlackwell(g) && s != roofline.MXFP4 && s != roofline.WeightMXFP4 {
		return operator.Grain{Width: 128}
	}
	return vllmExpertGrain(g, s)
}

// vllmPadding is what mxfp4_round_up_hidden_size_and_intermediate_size rounds to for FlashInfer's kernels and AMD's, for
// Triton's on Hopper, and for Marlin's on other GPUs. What padding costs in time is known of FlashInfer alone: the times of
// the others are fitted to widths without it.
func vllmPadding(g *hardware.GPU) operator.Grain {
	switch {
	case dataCentreBlackwell(g) || g.Vendor == amd:
		return operator.Grain{Hidden: 256, Width: 256}
	case g.Vendor == nvidia && int(capability(g)) == 9:
		return operator.Grain{Width: 64}
	case g.Vendor == nvidia:
		return operator.Grain{Hidden: 256, Width: 128}
	}
	return operator.Grain{}
}

// sglangPadding is that of FlashInfer's and of Triton's kernels.
func sglangPadding(g *hardware.GPU) operator.Grain {
	if g.Vendor == nvidia && capability(g) >= 9 && capability(g) < 11 {
		return vllmPadding(g)
	}
	return operator.Grain{}
}

// padExperts adds the work of the rows and columns of experts' weights that a grain adds.
func padExperts(k *roofline.Kernel, n operator.Grain) {
	more := n.Pads(k.Shape.K, k.Shape.N/max(1, k.Shape.Matrices))
	k.Work.Weights, k.Work.FLOPs = k.Work.Weights.Times(more), k.Work.FLOPs.Times(more)
}

// pairsOfAll is the pairs of a token and an expert of all ranks of EP, for each expert of one rank: kernels choose tiles
// by it, as if all pairs were the rank's.
func pairsOfAll(k *roofline.Kernel) float64 {
	return k.Shape.Tokens * k.Shape.TopK * max(1, k.Shape.Ranks) / k.Shape.Experts
}

// ragged is the rows of a tile of OpenAI's Triton kernels, the power of two from 16 to 128 above the pairs of an expert
// (opt_flags.py of triton_kernels).
func ragged(k *roofline.Kernel) float64 {
	pairs := math.Floor(pairsOfAll(k))
	rows := 16.0
	for rows < pairs && rows < 128 {
		rows *= 2
	}
	return rows
}

// marlinRows is the rows of a tile of Marlin's grouped GEMM, the least that nine tenths hold the pairs of a mean expert
// (marlin_moe.py of vLLM). On an L40S and an RTX PRO 6000 whole tiles fit the operator tables no better than rows do.
func marlinRows(g *hardware.GPU, k *roofline.Kernel) float64 {
	if c := capability(g); g.Vendor != nvidia || c == 8.9 || c >= 12 {
		return 0
	}
	for _, rows := range [...]float64{8, 16, 32, 48} {
		if pairsOfAll(k) < 0.9*rows {
			return rows
		}
	}
	return 64
}

// mapLaunches is the kernels by which a rank of EP of vLLM finds its own experts ahead of Triton's grouped GEMMs in MXFP4,
// where other ranks take the choice of experts as it is: the choice is widened, mapped and narrowed; a bit matrix is
// cleared and packed; the weights of other ranks' experts are masked by a comparison, a constant and a selection; and
// sums are cleared (triton_kernel_moe_forward and make_routing_data of gpt_oss_triton_kernels_moe.py).
const mapLaunches = 9

// mapped is the launches that tell a rank's own experts from others.
func (e *graphed) mapped(l *analytic.Lowering, experts *operator.Op) float64 {
	if e.triton && l.Step.Par.EP > 1 && tritonMXFP4(l.GPU, experts.Scheme) {
		return mapLaunches
	}
	return 0
}
