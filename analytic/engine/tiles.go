package engine

import (
	"llmprof/analytic"
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

// emptyRow is how many rows of a tile an empty row takes on a GPU, and onH200 on an H200. The tensor memory accelerator fills a row as fast on every
// Hopper, but the tensor cores of an H20 do a quarter of the arithmetic, which an empty row has like any other.
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
			e.grain(g, k.Scheme).pad(k)
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
