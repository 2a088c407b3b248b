package roofline

import (
	"math"

	"llmprof/unit"
)

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
// which takes longer the more of them there are, however few tiles there are. In 16 bits a library splits the inputs of a tile
// among thread blocks where that is faster (library). The first
// loads of a wave of tiles have no arithmetic beside them, and its last sums no loads, so that arithmetic
// and memory traffic hide each other in part. Where
// a kernel of its own quantizes the activations, each row with a maximum of its own, it
// does so ahead of the product; most engines let the norm or the activation before do it.
var gemm = Law{
	Equation: "fixed + √(greater² + exposed × lesser² + (inputs × depth)²) of (FLOPs + tile_empty × FLOPs of rows beyond the last one + tile_idle × FLOPs that SMs without a tile could do, where tiles are known) / (compute × peak) and bytes / (memory × bandwidth) + quantize × bytes of quantized inputs / bandwidth + quantized rows × row; in 16 bits by whole waves of tiles, tile_idle × FLOPs that SMs without results could do, and where that is faster with split inputs: inputs / s, bytes of s sums, and element.fixed",
	List: func(t *Terms, k *Kernel, p *Peaks) {
		c := of(&gemmOf, k.Scheme)
		t.once(k, p, c[0], c[1], c[2])
		t.add(Chain, c[3], None, k.Launches*k.Shape.K)
		t.add(Serial, c[4], None, seconds(k.Format.Bytes(k.Quantized*k.Shape.K), p.Memory))
		t.add(Serial, c[5], None, k.Quantized)
		t.exposed = c[6]
		if empty, idle := k.Tile.waste(&k.Shape, p.SMs); empty+idle > 0 {
			row := seconds(k.Work.FLOPs, p.matrix(k.Format)) / k.Shape.M
			t.waste(c[0], TileEmpty, empty*row, 0)
			t.waste(c[0], TileIdle, idle*row, 0)
		}
	},
	Choose: fastestAlgorithm,
	Power:  PowerMemory,
	ByByte: true,
}

// How a library runs a GEMM in 16 bits.
const (
	splitInputs = 1024      // least inputs that are left to a thread block
	mostSplits  = 16        // most blocks that share a tile
	oneWave     = 128 * 128 // most results of a tile of which a library takes no second wave
	largest     = 256 * 128 // results of the tiles that it takes then
)

// blockTiles are the tiles of thread blocks.
var blockTiles = [...]Tile{{128, 128, 1}, {64, 64, 1}, {64, 128, 1}, {128, 64, 1}, {64, 256, 1}, {128, 256, 1}, {256, 128, 1}}

// tiled reports whether a library takes a tile for a GEMM of a shape where so many thread blocks run: a small tile whose blocks all run
// at once; else as many rows as the GEMM has, or the largest tiles, even where the last wave has few of them.
func (t *Tile) tiled(s *Shape, blocks, sms float64) bool {
	switch {
	case blocks <= sms && t.Rows*t.Columns <= oneWave:
		return true
	case s.M <= 64:
		return t.Rows == 64
	case s.M <= 128:
		return t.Rows == 128
	}
	return t.Rows*t.Columns == largest
}

// mayRun reports whether a library may take a tile for a GEMM of a shape: where there are more results than its blocks have at once, it takes
// none of the small ones beyond 128 rows.
func (t *Tile) mayRun(s *Shape, sms float64) bool {
	results := t.Rows * t.Columns
	return s.M <= 128 || results == largest || s.M*s.N <= sms*results
}

// An algorithm is how a library runs a GEMM, as cuBLASLt uses the word, and how long that takes.
type algorithm struct {
	splits float64    // blocks that share the inputs of a tile
	idle   unit.FLOPs // what SMs without a tile and tiles without results could do
	time   unit.Seconds
}

// fastestAlgorithm changes the terms of a GEMM in 16 bits to those of the algorithm that is the fastest of a library's. The thread blocks of SMs without a tile share the inputs of the tiles
// (split-K): each writes sums in FP32, which a kernel of their own adds up out of the L2 cache. Kernels of quantized products do not split.
// Kernels for mma run whole waves of tiles. Those of Hopper and of Blackwell's tensor memory have tiles of more sizes, and their tables show no waves; where
// tile_idle is 0, the law has none.
func fastestAlgorithm(m *Machine, t *Terms, k *Kernel) {
	if k.Scheme != Unquantized || k.Tile.Rows != 0 || m.Peaks.SMs == 0 {
		return
	}
	t.chosen = true
	h := heuristic{Kernel: k, alone: m.times(t), element: unit.Seconds(k.Launches * m.stretch[ElementwiseFixed]), best: algorithm{time: unit.Seconds(math.Inf(1))}}
	tiles := blockTiles[:]
	if m.stretch[GEMMIdle] == 0 {
		if h.alone[Chain] <= h.element { // no split saves more than its kernel takes
			return
		}
		tiles = tiles[:1]
	}
	sums := seconds(unit.FP32.Bytes(k.Shape.M*k.Shape.N), m.Peaks.Memory)
	h.exposed, h.sums, h.sms, h.peak, h.idle = m.stretch[t.exposed], unit.Seconds(sums*m.stretch[GEMMMemory]), m.Peaks.SMs, m.Peaks.matrix(k.Format), m.stretch[GEMMIdle]
	h.stretch = h.idle * m.stretch[GEMMCompute]
	h.shared = h.leastShared()
	for i := range tiles {
		h.try(&tiles[i])
	}
	t.waste(GEMMCompute, GEMMIdle, seconds(h.best.idle, h.peak), 0)
	if h.best.splits > 1 {
		t.divide(Chain, h.best.splits)
		t.add(Memory, GEMMMemory, None, h.best.splits*sums)
		t.add(Fixed, ElementwiseFixed, None, k.Launches)
	}
}

// A heuristic searches the algorithms of a library for the fastest one of a GEMM.
type heuristic struct {
	*Kernel
	alone   Times        // times without idle SMs and without splits of K
	exposed float64      // how far arithmetic and memory traffic hide each other
	element unit.Seconds // fixed time of the kernel that adds sums up
	sums    unit.Seconds // time of the sums in FP32 of one of the blocks that share the tiles
	shared  unit.Seconds // least time of all algorithms with split-K
	sms     float64
	peak    unit.FLOPsPerSec
	idle    float64 // share of the time of idle SMs that shows
	stretch float64 // factor of the time that SMs idle at the peak rate
	best    algorithm
	largest float64 // blocks of the largest tiles that were tried; 0 before that
}

// leastShared is no more than the time of any algorithm with split-K: no SM idles, as few blocks as can be write their
// sums, and as many as may be share the steps of a tile. A time falls with none of its parts, rounded or not.
func (h *heuristic) leastShared() unit.Seconds {
	times := h.alone
	times[Chain] = times[Chain].Times(1.0 / mostSplits)
	times[Memory] += h.sums.Times(2)
	times[Fixed] += h.element
	return times.overlapped(h.exposed)
}

// slower reports whether no algorithm with so many splits or more is faster than the best one: no SM idles, so many blocks
// write their sums, and as many as may be share the steps of a tile. Squares are compared, with more room than rounding takes.
func (h *heuristic) slower(splits float64) bool {
	const room = 1 + 1e-9
	compute, memory := float64(h.alone.Compute()), float64(h.alone[Memory]+h.sums.Times(splits))
	chain := float64(h.alone[Chain]) / mostSplits
	left := float64(h.best.time - (h.alone[Fixed] + h.element + h.alone[Serial]))
	greater, lesser := unit.Larger(compute, memory), unit.Smaller(compute, memory)
	return left <= 0 || greater*greater+h.exposed*lesser*lesser+chain*chain > room*left*left
}

// try takes the algorithms with a tile that are faster than the best one. Of two with as many splits that which idles more is no faster.
func (h *heuristic) try(tile *Tile) {
	s := &h.Shape
	if h.idle > 0 && !tile.mayRun(s, h.sms) {
		return
	}
	blocks, results := math.Ceil(s.M/tile.Rows)*math.Ceil(s.N/tile.Columns), tile.Rows*tile.Columns
	if results == largest && h.largest > 0 && blocks >= h.largest {
		return // a tile of as many results with more blocks idles no less
	}
	for splits := 1.0; splits == 1 || splits <= mostSplits && s.K >= splits*splitInputs; splits++ {
		if splits > 1 && (h.shared >= h.best.time || h.slower(splits)) {
			return
		}
		next, all := algorithm{splits: splits}, blocks*splits
		if h.idle > 0 {
			if !tile.tiled(s, all, h.sms) {
				return
			}
			next.idle = max(0, unit.FLOPs(2*s.K/splits*math.Ceil(all/h.sms)*h.sms*tile.Rows*tile.Columns)-h.Work.FLOPs)
		} else if splits > 1 && all > h.sms {
			return
		}
		if splits == h.best.splits && next.idle >= h.best.idle && (splits > 1 || h.shared >= h.best.time) {
			continue
		}
		times := h.alone
		times[Matrix] += next.idle.Over(h.peak).Times(h.stretch)
		if splits > 1 {
			times[Chain] = times[Chain].Times(1 / splits)
			times[Memory] += h.sums.Times(splits)
			times[Fixed] += h.element
		}
		if next.time = times.overlapped(h.exposed); next.time < h.best.time {
			h.best = next
		}
		if splits == 1 && next.time-h.alone.least() <= h.element { // no split saves more than its kernel takes
			return
		}
		if results == largest {
			h.largest = blocks
		}
	}
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
// popular experts take several tiles, and rare ones a part of one. Each tile takes a time, or each expert with at least
// one row where the size of a tile is not known. Separate kernels gather the inputs and sum the results of all token-expert
// pairs of the layer, including those of other ranks.
var groupedGEMM = Law{
	Equation: "fixed + (tiles, or experts with rows where tiles are not known) × expert + √(C² + M²) + permute × bytes of the inputs of all pairs / bandwidth, C = FLOPs / (compute × peak), of whole tiles where their rows are known, M = bytes of weights, and of those that are read again / (memory × bandwidth)",
	List: func(t *Terms, k *Kernel, p *Peaks) {
		c := groupedOf[k.Scheme]
		t.arithmetic(k, p, c[0])
		t.waste(c[0], None, k.padding()*seconds(k.Work.FLOPs, p.matrix(k.Format)), 0)
		t.add(Memory, c[1], None, seconds(k.Work.Weights+k.Reread, p.Memory))
		t.add(Fixed, c[2], None, k.Launches)
		t.add(Serial, c[3], None, seconds(k.Permuted, p.Memory))
		t.add(Fixed, c[4], None, k.Launches*max(k.Shape.Hit, k.Shape.Tiles))
	},
	Exposed: 1,
	Power:   PowerMemory,
	ByByte:  true,
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
	Power: PowerWGMMA,
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
