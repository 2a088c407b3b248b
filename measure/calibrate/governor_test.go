package calibrate

import (
	"math"
	"strings"
	"testing"
	"time"

	"llmprof/hardware"
	"llmprof/roofline"
	"llmprof/unit"
)

// called is the mean time of the timed calls of a table, counted call by call: each runs at the rate of a burst that
// begins before the board has been busy for governorDelay.
func called(copies int, burst, held float64) float64 {
	busy, timed := 0.0, 0.0
	for call := range 2 * governorCalls * copies {
		time := burst
		if busy >= governorDelay {
			time = held
		}
		if busy += time; call >= governorCalls*copies {
			timed += time
		}
	}
	return timed / float64(governorCalls*copies)
}

// TestGovernor finds what products sustain in rows whose calls were counted one by one, leaves a table alone that no limit slows,
// and reads nothing of it off weights that were not random.
func TestGovernor(t *testing.T) {
	g := board(t, "h200")
	peaks, err := g.Peaks()
	if err != nil {
		t.Fatal(err)
	}
	rows := func(held float64, random bool) (rows []Row) {
		c := hardware.DefaultCalibration(g).Constants
		c[roofline.GEMMCompute], c[roofline.GEMMMemory], c[roofline.GEMMFixed] = 0.75, 0.85, 4e-6
		burst := roofline.NewMachine(peaks, &c)
		c[roofline.GEMMCompute] = held
		late := roofline.NewMachine(peaks, &c)
		for _, m := range []int{1, 8, 64, 512, 2048, 4096, 8192, 16384, 32768} {
			for _, n := range []int{1024, 4096, 8192, 28672} {
				for _, k := range []int{1024, 4096, 14336} {
					r := Row{Kind: GEMM, Shape: Shape{M: m, N: n, K: k}, DType: unit.BF16, Ranks: 1, Copies: 6, Random: random}
					p := r.Point()
					kernel := p.kernel(g, 0)
					r.Median = called(r.Copies, float64(burst.Time(&kernel)), float64(late.Time(&kernel)))
					rows = append(rows, r)
				}
			}
		}
		return rows
	}
	for _, x := range []struct {
		held   float64
		random bool
		want   float64 // 0 for none
	}{{0.6, true, 0.6}, {0.75, true, 0}, {0.6, false, 0}} {
		f, err := FitImport(&Import{
			Rows: rows(x.held, x.random), Engine: "sglang", Kernels: "sglang 0.5.14", Device: "NVIDIA H200", Name: "invented", Version: "v0.1.0", Made: time.Now(),
			Tables: hardware.Tables{Package: "invented", Version: "1", Licence: "Apache-2.0", Files: []hardware.TableFile{{Path: "gemm.csv", SHA256: strings.Repeat("0", 64), Rows: 1}}},
		}, g)
		if err != nil {
			t.Fatal(err)
		}
		v, known := f.Values["gemm.sustained"]
		if known != (x.want > 0) || math.Abs(v.Value-x.want) > 0.03*x.want {
			t.Errorf("random %v: sustains %v (%s), want %v", x.random, v.Value, v.From, x.want)
		}
		if x.want > 0 {
			if got := f.Values["gemm.compute"].Value; math.Abs(got/0.75-1) > 0.03 {
				t.Errorf("bursts reach %v, want 0.75", got)
			}
			if o := f.Operators["gemm"]; o.HeldOut.Median > 0.02 {
				t.Errorf("rows held out are %v off", o.HeldOut.Median)
			}
		}
	}
}
