package roofline

import (
	"math"

	"llmprof/unit"
)

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

// mayRun reports whether a library may take a tile for a GEMM of a shape: where there are more results than its blocks have at once, it
// takes none of the small ones beyond 128 rows.
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

// fastestAlgorithm changes the terms of a GEMM in 16 bits to those of the algorithm that is the fastest of a
// library's. The thread blocks of SMs without a tile share the inputs of the tiles (split-K): each writes sums in
// FP32, which a kernel of their own adds up out of the L2 cache. Kernels of quantized products do not split.
// Kernels for mma run whole waves of tiles. Those of Hopper and of Blackwell's tensor memory have tiles of more
// sizes, and their tables show no waves; where tile_idle is 0, the law has none.
func fastestAlgorithm(m *Machine, t *Terms, k *Kernel) {
	if k.Scheme != Unquantized || k.Tile.Rows != 0 || m.Peaks.SMs == 0 {
		return
	}
	h := heuristic{Kernel: k, alone: m.times(t), element: unit.Seconds(k.Launches * m.stretch[ElementwiseFixed]),
		best: algorithm{time: unit.Seconds(math.Inf(1))}}
	tiles := blockTiles[:]
	if m.stretch[GEMMIdle] == 0 {
		if h.alone[Chain] <= h.element { // no split saves more than its kernel takes
			return
		}
		tiles = tiles[:1]
	}
	sums := seconds(unit.FP32.Bytes(k.Shape.M*k.Shape.N), m.Peaks.Memory)
	h.exposed, h.sums, h.sms, h.peak, h.idle = m.stretch[t.exposed], unit.Seconds(sums*m.stretch[GEMMMemory]), m.Peaks.SMs,
		m.Peaks.matrix(k.Format), m.stretch[GEMMIdle]
	h.stretch = h.idle * m.stretch[GEMMCompute]
	h.shared = h.leastShared()
	for i := range tiles {
		h.try(&tiles[i])
	}
	t.waste(GEMMCompute, GEMMIdle, seconds(h.best.idle, h.peak), 0)
	if h.best.splits > 1 {
		t.divide(Chain, h.best.splits)
		t.add(Memory, GEMMMemory, h.best.splits*sums)
		t.add(Fixed, ElementwiseFixed, k.Launches)
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
