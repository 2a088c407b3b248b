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
		c := gemmOf[k.Scheme]
		t.once(k, p, c[0], c[1], c[2])
		t.add(Chain, c[3], None, k.Launches*k.Shape.K)
		t.add(Serial, c[4], None, seconds(k.Format.Bytes(k.Quantized*k.Shape.K), p.Memory))
		t.add(Serial, c[5], None, k.Quantized)
		t.exposed = c[6]
		if empty, idle := k.Tile.waste(&k.Shape, p.SMs); empty+idle > 0 {
			row := seconds(k.Work.FLOPs, p.matrix(k.Format)) / k.Shape.M
			t.add(Matrix, c[0], TileEmpty, empty*row)
			t.add(Matrix, c[0], TileIdle, idle*row)
		}
	},
	Ways:  library,
	Power: PowerMemory,
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

// A way is how a library runs a GEMM, and how long that takes.
type way struct {
	splits float64    // blocks that share the inputs of a tile
	idle   unit.FLOPs // what SMs without a tile and tiles without results could do
	time   unit.Seconds
}

// library lets a GEMM in 16 bits run as a library does that chooses the fastest of its ways. The thread blocks of SMs without a tile share the inputs of the tiles
// (split-K): each writes sums in FP32, which a kernel of their own adds up out of the L2 cache. Kernels of quantized products do not split.
// Kernels for mma run whole waves of tiles. Those of Hopper and of Blackwell's tensor memory have tiles of more sizes, and their tables show no waves; where
// tile_idle is 0, the law has none.
func library(m *Machine, t *Terms, k *Kernel) {
	if k.Scheme != Unquantized || k.Tile.Rows != 0 || m.Peaks.SMs == 0 {
		return
	}
	w := ways{Kernel: k, alone: m.times(t), element: unit.Seconds(k.Launches * m.stretch[ElementwiseFixed]), best: way{time: unit.Seconds(math.Inf(1))}}
	tiles := blockTiles[:]
	if m.stretch[GEMMIdle] == 0 {
		if w.alone[Chain] <= w.element { // no split saves more than its kernel takes
			return
		}
		tiles = tiles[:1]
	}
	sums := seconds(unit.FP32.Bytes(k.Shape.M*k.Shape.N), m.Peaks.Memory)
	w.exposed, w.sums, w.sms, w.peak, w.idle = m.stretch[t.exposed], unit.Seconds(sums*m.stretch[GEMMMemory]), m.Peaks.SMs, m.Peaks.matrix(k.Format), m.stretch[GEMMIdle]
	w.stretch = w.idle * m.stretch[GEMMCompute]
	w.shared = w.leastShared()
	for i := range tiles {
		w.try(&tiles[i])
	}
	t.add(Matrix, GEMMCompute, GEMMIdle, seconds(w.best.idle, w.peak))
	if w.best.splits > 1 {
		t.divide(Chain, w.best.splits)
		t.add(Memory, GEMMMemory, None, w.best.splits*sums)
		t.add(Fixed, ElementwiseFixed, None, k.Launches)
	}
}

// ways are the ways in which a library runs a GEMM, of which it takes the best.
type ways struct {
	*Kernel
	alone   Times        // times without idle SMs and without splits of K
	exposed float64      // how far arithmetic and memory traffic hide each other
	element unit.Seconds // fixed time of the kernel that adds sums up
	sums    unit.Seconds // time of the sums in FP32 of one of the blocks that share the tiles
	shared  unit.Seconds // least time of all ways in which blocks share tiles
	sms     float64
	peak    unit.FLOPsPerSec
	idle    float64 // share of the time of idle SMs that shows
	stretch float64 // factor of the time that SMs idle at the peak rate
	best    way
	largest float64 // blocks of the largest tiles that were tried; 0 before that
}

// leastShared is no more than the time of any way in which blocks share the inputs of a tile: no SM idles, as few blocks as can be write their
// sums, and as many as may be share the steps of a tile. A time falls with none of its parts, rounded or not.
func (w *ways) leastShared() unit.Seconds {
	times := w.alone
	times[Chain] = times[Chain].Times(1.0 / mostSplits)
	times[Memory] += w.sums.Times(2)
	times[Fixed] += w.element
	return times.overlapped(w.exposed)
}

// slower reports whether no way in which so many blocks or more share the inputs of a tile is faster than the best one: no SM idles, so many blocks
// write their sums, and as many as may be share the steps of a tile. Squares are compared, with more room than rounding takes.
func (w *ways) slower(splits float64) bool {
	const room = 1 + 1e-9
	compute, memory := float64(w.alone.Compute()), float64(w.alone[Memory]+w.sums.Times(splits))
	chain := float64(w.alone[Chain]) / mostSplits
	left := float64(w.best.time - (w.alone[Fixed] + w.element + w.alone[Serial]))
	greater, lesser := unit.Larger(compute, memory), unit.Smaller(compute, memory)
	return left <= 0 || greater*greater+w.exposed*lesser*lesser+chain*chain > room*left*left
}

// try takes the ways with a tile that are faster than the best one. Of two ways with as many splits that which idles more is no faster.
func (w *ways) try(tile *Tile) {
	s := &w.Shape
	if w.idle > 0 && !tile.mayRun(s, w.sms) {
		return
	}
	blocks, results := math.Ceil(s.M/tile.Rows)*math.Ceil(s.N/tile.Columns), tile.Rows*tile.Columns
	if results == largest && w.largest > 0 && blocks >= w.largest {
		return // a tile of as many results with more blocks idles no less
	}
	for splits := 1.0; splits == 1 || splits <= mostSplits && s.K >= splits*splitInputs; splits++ {
		if splits > 1 && (w.shared >= w.best.time || w.slower(splits)) {
			return
		}
		next, all := way{splits: splits}, blocks*splits
		if w.idle > 0 {
			if !tile.tiled(s, all, w.sms) {
				return
			}
			next.idle = max(0, unit.FLOPs(2*s.K/splits*math.Ceil(all/w.sms)*w.sms*tile.Rows*tile.Columns)-w.Work.FLOPs)
		} else if splits > 1 && all > w.sms {
			return
		}
		if splits == w.best.splits && next.idle >= w.best.idle && (splits > 1 || w.shared >= w.best.time) {
			continue
		}
		times := w.alone
		times[Matrix] += next.idle.Over(w.peak).Times(w.stretch)
		if splits > 1 {
			times[Chain] = times[Chain].Times(1 / splits)
			times[Memory] += w.sums.Times(splits)
			times[Fixed] += w.element
		}
		if next.time = times.overlapped(w.exposed); next.time < w.best.time {
			w.best = next
		}
		if splits == 1 && next.time-w.alone.least() <= w.element { // no split saves more than its kernel takes
			return
		}
		if results == largest {
			w.largest = blocks
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
		t.add(Matrix, c[0], None, k.padding()*seconds(k.Work.FLOPs, p.matrix(k.Format)))
		t.add(Memory, c[1], None, seconds(k.Work.Weights+k.Reread, p.Memory))
		t.add(Fixed, c[2], None, k.Launches)
		t.add(Serial, c[3], None, seconds(k.Permuted, p.Memory))
		t.add(Fixed, c[4], None, k.Launches*max(k.Shape.Hit, k.Shape.Tiles))
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
