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
var blockTiles = [...]Tile{
	{Rows: 128, Columns: 128, Blocks: 1}, {Rows: 64, Columns: 64, Blocks: 1}, {Rows: 64, Columns: 128, Blocks: 1},
	{Rows: 128, Columns: 64, Blocks: 1}, {Rows: 64, Columns: 256, Blocks: 1}, {Rows: 128, Columns: 256, Blocks: 1},
	{Rows: 256, Columns: 128, Blocks: 1},
}

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
	s := algorithms{m: m, k: k, whole: m.times(t), exposed: m.stretch[t.exposed],
		sum: seconds(unit.FP32.Bytes(k.Shape.M*k.Shape.N), m.Peaks.Memory)}
	best := s.fastest()
	t.waste(GEMMCompute, GEMMIdle, seconds(best.idle, m.Peaks.matrix(k.Format)), 0)
	if best.splits > 1 {
		t.divide(Chain, best.splits)
		t.add(Memory, GEMMMemory, best.splits*s.sum)
		t.add(Fixed, ElementwiseFixed, k.Launches)
	}
}

// An algorithms is the algorithms that a library has for a GEMM.
type algorithms struct {
	m       *Machine
	k       *Kernel
	whole   Times   // times without idle SMs and without split-K
	exposed float64 // how far arithmetic and memory traffic hide each other
	sum     float64 // seconds at the data-sheet bandwidth in which one of the blocks that share a tile moves its sums
}

// fastest is the fastest algorithm: of all tiles, with the inputs of a tile split in every way that is allowed.
func (a *algorithms) fastest() algorithm {
	best := algorithm{time: unit.Seconds(math.Inf(1))}
	tiles := blockTiles[:]
	if a.m.stretch[GEMMIdle] == 0 {
		tiles = tiles[:1]
	}
	for i := range tiles {
		for splits := 1.0; splits == 1 || splits <= mostSplits && a.k.Shape.K >= splits*splitInputs; splits++ {
			next, runs := a.of(&tiles[i], splits)
			if !runs {
				break // nor does it run with more thread blocks
			}
			if next.time < best.time {
				best = next
			}
		}
	}
	return best
}

// of is the algorithm with a tile whose inputs so many blocks share, if a library has it.
func (a *algorithms) of(tile *Tile, splits float64) (x algorithm, runs bool) {
	s, sms, idle := &a.k.Shape, a.m.Peaks.SMs, a.m.stretch[GEMMIdle]
	blocks := math.Ceil(s.M/tile.Rows) * math.Ceil(s.N/tile.Columns) * splits
	x.splits = splits
	switch {
	case idle > 0:
		if !tile.tiled(s, blocks, sms) {
			return x, false
		}
		x.idle = max(0, unit.FLOPs(2*s.K/splits*math.Ceil(blocks/sms)*sms*tile.Rows*tile.Columns)-a.k.Work.FLOPs)
	case splits > 1 && blocks > sms:
		return x, false
	}
	times := a.whole
	times[Matrix] += x.idle.Over(a.m.Peaks.matrix(a.k.Format)).Times(idle * a.m.stretch[GEMMCompute])
	if splits > 1 {
		times[Chain] = times[Chain].Times(1 / splits)
		times[Memory] += unit.Seconds(splits * a.sum * a.m.stretch[GEMMMemory])
		times[Fixed] += unit.Seconds(a.k.Launches * a.m.stretch[ElementwiseFixed])
	}
	x.time = times.overlapped(a.exposed)
	return x, true
}
