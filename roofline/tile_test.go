package roofline

import (
	"math"
	"math/rand/v2"
	"testing"

	"llmprof/unit"
)

// The tiles of GEMMs on 132 SMs, counted by hand.
func TestTileWaste(t *testing.T) {
	for _, c := range []struct {
		name        string
		m, n        float64
		tile        Tile
		empty, idle float64
	}{
		{"64 blocks, each on an SM", 17, 4096, Tile{Rows: 64, Columns: 64, Blocks: 1}, 47, 68},
		{"all rows of the tile", 64, 8448, Tile{Rows: 64, Columns: 64, Blocks: 1}, 0, 0},
		{"the second 132 SMs have 28 blocks", 16, 10240, Tile{Rows: 16, Columns: 64, Blocks: 1}, 0, 16 * (264.0/160 - 1)},
		{"two blocks a cluster, 3 × 32 clusters", 513, 4096, Tile{Rows: 256, Columns: 128, Blocks: 2}, 255, 768 * (264.0/192 - 1)},
		{"a library chooses", 17, 4096, Tile{}, 0, 0},
	} {
		empty, idle := c.tile.waste(&Shape{M: c.m, N: c.n}, 132)
		if math.Abs(empty-c.empty) > 1e-9 || math.Abs(idle-c.idle) > 1e-9 {
			t.Errorf("%s: %v rows beyond the last one, %v of idle SMs, not %v and %v", c.name, empty, idle, c.empty, c.idle)
		}
	}
}

// A GEMM bound by arithmetic takes the time of its rows, of tile_empty times the rows beyond the last one, and of
// tile_idle times the rows of idle SMs.
func TestTiledGEMM(t *testing.T) {
	var c Constants
	c[GEMMCompute], c[GEMMMemory], c[TileEmpty], c[TileIdle] = 0.5, 1, 2, 0.25
	p := peaks()
	p.Memory = 1e18
	m := NewMachine(p, &c)
	k := Kernel{Class: GEMM, Format: unit.BF16, Count: 1, Shape: Shape{M: 17, N: 4096, K: 4096}, Work: Work{FLOPs: 2 * 17 * 4096 * 4096}}
	untiled := m.Time(&k)
	k.Tile = Tile{Rows: 64, Columns: 64, Blocks: 1}
	if got, want := m.Time(&k), untiled.Times((17+2*47+0.25*68)/17); math.Abs(float64(got/want-1)) > 1e-9 {
		t.Errorf("%v, not %v", got, want)
	}
}

// The experts of a grouped GEMM take a time for each tile where tiles are known, and for each expert with rows where they are not;
// arithmetic counts whole tiles.
func TestTiledExperts(t *testing.T) {
	var c Constants
	c[GroupedCompute], c[GroupedMemory], c[GroupedFixed], c[GroupedExpert] = 0.5, 1, 1e-5, 1e-7
	p := peaks()
	p.Memory = 1e18
	m := NewMachine(p, &c)
	k := Kernel{Class: GroupedGEMM, Format: unit.BF16, Launches: 2, Count: 1, Shape: Shape{Hit: 8, Pairs: 200}, Work: Work{FLOPs: 1e12}}
	arithmetic := float64(k.Work.FLOPs) / float64(p.matrix(unit.BF16)) / 0.5
	if got, want := float64(m.Time(&k)), 2e-5+2*8*1e-7+arithmetic; math.Abs(got/want-1) > 1e-9 {
		t.Errorf("tiles not known: %v, not %v", got, want)
	}
	k.Tile.Rows, k.Shape.Tiles = 16, 20
	if got, want := float64(m.Time(&k)), 2e-5+2*20*1e-7+arithmetic*16*20/200; math.Abs(got/want-1) > 1e-9 {
		t.Errorf("20 tiles of 16 rows: %v, not %v", got, want)
	}
}

// A GEMM in 16 bits takes the time of the fastest of all tiles and splits that a library takes, each tried by itself.
func TestLibraryTakesTheFastestWay(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	p, split := peaks(), 0
	p.SMs = 132
	for range 20000 {
		var c Constants
		c[GEMMCompute], c[GEMMMemory], c[GEMMFixed] = 0.7, 0.8, 3e-6
		c[ElementwiseFixed], c[GEMMDepth] = 3e-6*random.Float64(), 8e-9*random.Float64()
		c[GEMMExposed], c[GEMMIdle] = float64(random.IntN(2))*random.Float64(), float64(random.IntN(3))/2
		m := NewMachine(p, &c)
		s := Shape{M: float64(1 + random.IntN(1<<random.IntN(14))), N: math.Ldexp(64, random.IntN(9)), K: math.Ldexp(256, random.IntN(8))}
		k := Kernel{
			Class: GEMM, Format: unit.BF16, Count: 1, Launches: 1, Shape: s,
			Work: Work{FLOPs: unit.FLOPs(2 * s.M * s.N * s.K), Weights: unit.BF16.Bytes(s.N * s.K), Acts: unit.BF16.Bytes(s.M * (s.N + s.K))},
		}
		terms := listed(&laws[GEMM], &k, p)
		alone := m.times(&terms)
		least := alone.overlapped(c[GEMMExposed]) // where the law has no waves, and no tile has to be split
		tiles := blockTiles[:1]
		if c[GEMMIdle] > 0 {
			least, tiles = unit.Seconds(math.Inf(1)), blockTiles[:]
		}
		for _, tile := range tiles {
			for splits := 1.0; splits == 1 || splits <= mostSplits && s.K >= splits*splitInputs; splits++ {
				blocks := math.Ceil(s.M/tile.Rows) * math.Ceil(s.N/tile.Columns) * splits
				if c[GEMMIdle] > 0 && !tile.tiled(&s, blocks, p.SMs) || c[GEMMIdle] == 0 && splits > 1 && blocks > p.SMs {
					break
				}
				way := alone
				if c[GEMMIdle] > 0 {
					idle := max(0, 2*s.K/splits*math.Ceil(blocks/p.SMs)*p.SMs*tile.Rows*tile.Columns-float64(k.Work.FLOPs))
					way[Matrix] += unit.Seconds(idle / float64(p.matrix(k.Format)) * c[GEMMIdle] / c[GEMMCompute])
				}
				if splits > 1 {
					way[Chain] = way[Chain].Times(1 / splits)
					way[Memory] += unit.FP32.Bytes(s.M * s.N * splits).Over(p.Memory).Times(1 / c[GEMMMemory])
					way[Fixed] += unit.Seconds(c[ElementwiseFixed])
				}
				least = min(least, way.overlapped(c[GEMMExposed]))
			}
		}
		got := m.Time(&k)
		if math.Abs(float64(got/least-1)) > 1e-9 {
			t.Fatalf("%v takes %v, the fastest way %v, with tile_idle %v and %v exposed", s, got, least, c[GEMMIdle], c[GEMMExposed])
		}
		if got < alone.overlapped(c[GEMMExposed]) {
			split++
		}
	}
	if split < 100 {
		t.Errorf("only %d of the GEMMs are split", split)
	}
}

// Matrix units draw power for data: rows and tiles without any take time alone. Attention's tiles on the diagonal multiply data that the
// mask discards, half a tile of keys for each query, which no ramp takes less for.
func TestUsefulIsOfData(t *testing.T) {
	var c Constants
	c[GEMMCompute], c[GEMMMemory], c[TileEmpty], c[TileIdle] = 0.5, 1, 2, 0.25
	c[GroupedCompute], c[GroupedMemory], c[AttentionCompute], c[AttentionMemory] = 0.5, 1, 0.5, 1
	for _, x := range []struct {
		Kernel
		ramp, flops float64 // of data
	}{
		{Kernel{Class: GEMM, Shape: Shape{M: 17, N: 4096, K: 4096}, Tile: Tile{Rows: 64, Columns: 64, Blocks: 1}}, 0, 1e12},
		{Kernel{Class: GroupedGEMM, Shape: Shape{Hit: 8, Pairs: 200, Tiles: 20}, Tile: Tile{Rows: 16}}, 0, 1e12},
		{Kernel{Class: AttentionPrefill, Shape: Shape{M: 1024, K: 8192}}, 768, 1e12 + 2*1024*8192*64},
		{Kernel{Class: AttentionPrefill, Shape: Shape{M: 1024, K: 8192}}, 100, 1e12 + 2*1024*8192*50},
	} {
		c[AttentionRamp] = x.ramp
		m := NewMachine(peaks(), &c)
		k := &x.Kernel
		k.Format, k.Count, k.Launches, k.Work = unit.BF16, 3, 1, Work{FLOPs: 1e12}
		want := unit.Seconds(3 * x.flops / float64(m.Peaks.matrix(unit.BF16)) / 0.5)
		if cost := m.Cost(k); math.Abs(float64(cost.Useful/want-1)) > 1e-9 || cost.Times[Matrix] < cost.Useful {
			t.Errorf("class %d, ramp %v: %v of %v are of data, want %v", k.Class, x.ramp, cost.Useful, cost.Times[Matrix], want)
		}
	}
}
