package roofline

import "llmprof/unit"

// seconds is the time of some FLOPs or bytes at a rate.
func seconds[W unit.FLOPs | unit.Bytes, R unit.FLOPsPerSec | unit.BytesPerSec](work W, rate R) float64 {
	if work == 0 {
		return 0
	}
	return float64(work) / float64(rate)
}

// arithmetic adds the terms of matrix and vector units.
func (t *Terms) arithmetic(k *Kernel, p *Peaks, share Constant) {
	t.add(Matrix, share, None, seconds(k.Work.FLOPs, p.matrix(k.Format)))
	t.add(Vector, ElementwiseCompute, None, seconds(k.Work.Vector, p.Vector))
}

// once adds the terms of a kernel that reads and writes everything once.
func (t *Terms) once(k *Kernel, p *Peaks, compute, memory, fixed Constant) {
	t.arithmetic(k, p, compute)
	t.add(Memory, memory, None, seconds(k.Work.Traffic(), p.Memory))
	t.add(Fixed, fixed, None, k.Launches)
}

// A GEMM computes whole tiles, and as many at a time as there are SMs. Hopper's tensor memory
// accelerator fills the rows of a tile beyond the last row of the inputs more slowly than it loads rows.
//
// A tile of a product adds up its products along the inputs, one step after the other,
// which takes longer the more of them there are, however few tiles there are. cuBLASLt splits
// longer chains than splitInputs among thread blocks; kernels of quantized products do not. The first
// loads of a wave of tiles have no arithmetic beside them, and its last sums no loads, so that arithmetic
// and memory traffic hide each other in part. Where
// a kernel of its own quantizes the activations, each row with a maximum of its own, it
// does so ahead of the product; most engines let the norm or the activation before do it.
var gemm = Law{
	Equation: "fixed + √(greater² + exposed × lesser² + (inputs × depth)²) of (FLOPs + tile_empty × FLOPs of rows beyond the last one + tile_idle × FLOPs that SMs without a tile could do, where tiles are known) / (compute × peak) and bytes / (memory × bandwidth), with at most 6144 inputs in 16 bits + quantize × bytes of quantized inputs / bandwidth + quantized rows × row",
	List: func(t *Terms, k *Kernel, p *Peaks) {
		c := gemmOf[k.Scheme]
		t.once(k, p, c[0], c[1], c[2])
		t.add(Chain, c[3], None, k.Launches*chained(k))
		t.add(Serial, c[4], None, seconds(k.Format.Bytes(k.Quantized*k.Shape.K), p.Memory))
		t.add(Serial, c[5], None, k.Quantized)
		t.exposed = c[6]
		if empty, idle := k.Tile.waste(&k.Shape, p.SMs); empty+idle > 0 {
			row := seconds(k.Work.FLOPs, p.matrix(k.Format)) / k.Shape.M
			t.add(Matrix, c[0], TileEmpty, empty*row)
			t.add(Matrix, c[0], TileIdle, idle*row)
		}
	},
	Power: PowerMemory,
}

// splitInputs is the inputs that a library's GEMM in 16 bits adds up in one chain at most. The operator tables of
// H100, H200, B200 and B300 fit 3500 to 7400 inputs (docs/calibration.md).
const splitInputs = 6144

// chained is the inputs that a tile of a GEMM adds up one after the other.
func chained(k *Kernel) float64 {
	if k.Scheme == Unquantized {
		return min(k.Shape.K, splitInputs)
	}
	return k.Shape.K
}

// A board of little power sustains a small share of its vector peak, and was timed where it does:
// the power limit does not slow it a second time.
var vectorGEMM = Law{
	Equation: "fixed + max(FLOPs / (compute × vector peak), bytes / (memory × bandwidth))",
	List: func(t *Terms, k *Kernel, p *Peaks) {
		t.once(k, p, VectorGEMMCompute, GEMMMemory, GEMMFixed)
	},
	Power:  PowerMemory,
	Steady: true,
}

// The experts of a layer are one grouped GEMM: each group of rows has the weights of one
// expert. Tiles have few stages of weights in flight, so that arithmetic and memory traffic hide
// each other only in part. A tile has rows of one expert alone: with n tokens it takes ⌈n / rows⌉ tiles, and
// the matrix units compute the rows without a token too. How many tokens each expert has decides, not their mean:
// popular experts take several tiles, and rare ones a part of one. Where the size of a tile is not known, each
// expert with at least one row takes a time. Separate kernels gather the inputs and sum the results of all token-expert
// pairs of the layer, including those of other ranks.
var groupedGEMM = Law{
	Equation: "fixed + experts with rows × expert + √(C² + M²) + permute × bytes of the inputs of all pairs / bandwidth, C = FLOPs / (compute × peak), of whole tiles where their rows are known, M = bytes of weights / (memory × bandwidth)",
	List: func(t *Terms, k *Kernel, p *Peaks) {
		c := groupedOf[k.Scheme]
		t.arithmetic(k, p, c[0])
		t.add(Matrix, c[0], None, k.padding()*seconds(k.Work.FLOPs, p.matrix(k.Format)))
		t.add(Memory, c[1], None, seconds(k.Work.Weights, p.Memory))
		t.add(Fixed, c[2], None, k.Launches)
		t.add(Serial, c[3], None, seconds(k.Permuted, p.Memory))
		t.add(Fixed, c[4], None, k.Launches*k.Shape.Hit)
	},
	Exposed: 1,
	Power:   PowerMemory,
}

// A skinny GEMM streams its weights. Each row's inputs are read again for every tile of
// weights, so the time grows with the rows, though next to nothing more comes from memory.
// On an H200 the law is within 3.0 % (median) of 60 GEMMs of 1 to 16 rows; with shares and
// a fixed time alone the error would be 5.2 %
// (go test ./measure/calibrate -run TestSkinnyRows -v).
var skinnyGEMM = Law{
	Equation: "fixed + bytes / (memory × bandwidth) + rows × row × bytes of weights / bandwidth",
	List: func(t *Terms, k *Kernel, p *Peaks) {
		t.arithmetic(k, p, GEMMCompute)
		t.add(Memory, SkinnyGEMMMemory, None, seconds(k.Work.Traffic(), p.Memory))
		t.add(Memory, SkinnyGEMMRow, None, k.Shape.M*seconds(k.Work.Weights, p.Memory))
		t.add(Fixed, SkinnyGEMMFixed, None, k.Launches)
	},
	Power: PowerSkinnyGEMM,
}

// A wgmma GEMM reads its weights once, and the inputs of all sequences again, out of the L2
// cache, for every tile of weights.
var wgmmaGEMM = Law{
	Equation: "fixed + bytes of weights / (memory × bandwidth) + reload × bytes of inputs and results / bandwidth",
	List: func(t *Terms, k *Kernel, p *Peaks) {
		t.arithmetic(k, p, GEMMCompute)
		t.add(Memory, WGMMAMemory, None, seconds(k.Work.Weights, p.Memory))
		t.add(Memory, WGMMAReload, None, seconds(k.Work.Acts, p.Memory))
		t.add(Fixed, WGMMAFixed, None, k.Launches)
	},
	Power: PowerMemory,
}

// A GEMM that unpacks its weights on the vector units spends more instructions on unpacking
// and on scaling the sums of each block than the matrix units take for the sums. Few loads
// are in flight meanwhile, so that arithmetic and memory traffic hide each other in part.
var unpackGEMM = Law{
	Equation: "launches × small_kernel + √(C² + M²), C = max(FLOPs / (gemm.compute × peak), vector operations / (element.compute × vector peak)), M = bytes / (gemm.memory × bandwidth)",
	List: func(t *Terms, k *Kernel, p *Peaks) {
		t.arithmetic(k, p, GEMMCompute)
		t.add(Memory, GEMMMemory, None, seconds(k.Work.Traffic(), p.Memory))
		t.add(Fixed, HostSmallKernel, None, k.Launches)
	},
	Exposed: 1,
	Power:   PowerMemory,
	Steady:  true,
}
