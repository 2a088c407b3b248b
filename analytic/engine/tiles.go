package engine

import (
	"math"

	"llmprof/analytic"
	"llmprof/analytic/operator"
	"llmprof/hardware"
	"llmprof/roofline"
	"llmprof/unit"
)

// setTiles sets the tiles of a part's GEMMs, whose rows are known.
func setTiles(e *Engine, l *analytic.Lowering) {
	for i := range l.Kernels {
		k := &l.Kernels[i].Kernel
		if e.tile(l.GPU, k); k.Class == roofline.GroupedGEMM && k.Tile.Rows > 0 {
			k.Shape.Tiles = l.Step.Tiles(&k.Shape, k.Tile.Rows)
		}
	}
}

// SetTile sets the tile that a kernel of an engine has on a GPU, where it is known. How many tiles a grouped GEMM has
// follows from the tokens of each expert, which the kernel does not know.
func SetTile(name string, g *hardware.GPU, k *roofline.Kernel) {
	if e, err := Parse(name); err == nil && e.(*Engine).tile != nil {
		e.(*Engine).tile(g, k)
	}
}

// emptyRow is how many rows of a tile an empty row takes on a GPU, and onH200 on an H200. The tensor memory accelerator fills a row as
// fast on every Hopper, but the tensor cores of an H20 do a quarter of the arithmetic, which an empty row has like any other.
func emptyRow(g *hardware.GPU, onH200 float64) float64 {
	const h200 = 8192 // FLOPs in FP8 of an SM in a clock
	peak, _ := g.Peak(unit.FP8)
	share := float64(peak) / (float64(g.SMs) * float64(g.TensorClock)) / h200
	return max(1, onH200*min(1, share))
}

// major reports whether a GPU is NVIDIA's, of a major compute capability.
func major(g *hardware.GPU, n int) bool { return g.Vendor == nvidia && int(capability(g)) == n }

// hopper reports whether a GPU is of NVIDIA's Hopper.
func hopper(g *hardware.GPU) bool { return major(g, 9) }

// dataCentreBlackwell reports whether a GPU has Blackwell's tensor memory, for which TensorRT-LLM's generated kernels are compiled.
func dataCentreBlackwell(g *hardware.GPU) bool { return major(g, 10) }

// tritonMXFP4 reports whether experts of a scheme run by OpenAI's Triton kernels.
func tritonMXFP4(g *hardware.GPU, s roofline.Scheme) bool {
	return hopper(g) && s == roofline.WeightMXFP4
}

// pairsOfAll is the pairs of a token and an expert of all ranks of EP, for each expert of one rank: kernels choose tiles
// by it, as if all pairs were the rank's.
func pairsOfAll(k *roofline.Kernel) float64 {
	return k.Shape.Tokens * k.Shape.TopK * max(1, k.Shape.Ranks) / k.Shape.Experts
}

// doubled is the least of least, 2·least, 4·least ... that is no less than n, and most if there is none.
func doubled(least, n, most float64) float64 {
	for least < n && least < most {
		least *= 2
	}
	return least
}

// ragged is the rows of a tile of OpenAI's Triton kernels, the power of two from 16 to 128 above the pairs of an expert
// (opt_flags.py of triton_kernels).
func ragged(k *roofline.Kernel) float64 { return doubled(16, math.Floor(pairsOfAll(k)), 128) }

// raggedTwice is ragged in newer releases of the kernels: up to 64 pairs of an expert twice as many rows, to load weights once, and 64 at
// most (opt_flags.py of triton_kernels as SGLang 0.5.23 has it).
func raggedTwice(k *roofline.Kernel) float64 {
	if pairs := math.Floor(pairsOfAll(k)); pairs <= 64 {
		return doubled(16, 2*pairs, 64)
	}
	return ragged(k)
}

// generatedRows is the power of two from 8 to most above the pairs of an expert: the middle one of the tiles that TensorRT-LLM's generated
// kernels may take (computeSelectedTileN of blockScaleMoe/runner.h). A rank of EP counts the pairs of all ranks among its own experts, so
// that most rows of its tiles are empty.
func generatedRows(k *roofline.Kernel, most float64) float64 { return doubled(8, pairsOfAll(k), most) }

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

// marlinRows is the rows of a tile of Marlin's grouped GEMM, the least that nine tenths hold the pairs of a mean expert
// (marlin_moe.py of vLLM). On an L40S and an RTX PRO 6000 whole tiles fit the operator tables no better than rows do.
func marlinRows(g *hardware.GPU, k *roofline.Kernel) float64 {
	if g.Vendor != nvidia || graphicsMemory(g) {
		return 0
	}
	for _, rows := range [...]float64{8, 16, 32, 48} {
		if pairsOfAll(k) < 0.9*rows {
			return rows
		}
	}
	return 64
}

// graphicsMemory reports whether NVIDIA's GPUs of a compute capability have graphics memory: Ada, and Blackwell's boards.
func graphicsMemory(g *hardware.GPU) bool { return capability(g) == 8.9 || capability(g) >= 12 }

// flashInferPadding is the multiples to which FlashInfer's kernels in MXFP4 have experts padded
// (mxfp4_round_up_hidden_size_and_intermediate_size of oracle/mxfp4.py of vLLM).
func flashInferPadding(g *hardware.GPU, s roofline.Scheme) operator.Padding {
	if dataCentreBlackwell(g) && (s == roofline.MXFP4 || s == roofline.WeightMXFP4) {
		return operator.Padding{Hidden: 256, Width: 256}
	}
	return operator.Padding{}
}

// generatedPadding is flashInferPadding in MXFP4. In other formats experts of 16 to 96 wide take as long as those of 128 in SGLang's
// operator tables, and those of 192 as those of 256.
func generatedPadding(g *hardware.GPU, s roofline.Scheme) operator.Padding {
	if dataCentreBlackwell(g) && s != roofline.MXFP4 && s != roofline.WeightMXFP4 {
		return operator.Padding{Width: 128}
	}
	return flashInferPadding(g, s)
}

// padExperts adds the work of the rows and columns of experts' weights that a padding adds.
func padExperts(k *roofline.Kernel, n operator.Padding) {
	more := n.Pads(k.Shape.K, k.Shape.N/max(1, k.Shape.Matrices))
	k.Work.Weights, k.Work.FLOPs = k.Work.Weights.Times(more), k.Work.FLOPs.Times(more)
}
