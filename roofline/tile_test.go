package roofline

import (
	"math"
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
		{"64 blocks, each on an SM", 17, 4096, Tile{64, 64, 1}, 47, 68},
		{"all rows of the tile", 64, 8448, Tile{64, 64, 1}, 0, 0},
		{"the second 132 SMs have 28 blocks", 16, 10240, Tile{16, 64, 1}, 0, 16 * (264.0/160 - 1)},
		{"two blocks a cluster, 3 × 32 clusters", 513, 4096, Tile{256, 128, 2}, 255, 768 * (264.0/192 - 1)},
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
	k.Tile = Tile{64, 64, 1}
	if got, want := m.Time(&k), untiled.Times((17+2*47+0.25*68)/17); math.Abs(float64(got/want-1)) > 1e-9 {
		t.Errorf("%v, not %v", got, want)
	}
}
