package calibrate

import (
	"math"
	"testing"

	"llmprof/hardware"
	"llmprof/internal/testkit"
	"llmprof/roofline"
	"llmprof/unit"
)

// called is the mean time of the timed calls of a table, counted call by call: each runs at the rate of a burst that
// begins before the board has been busy for governorDelay. busy is the time that it has been so before and after.
func called(copies int, burst, held float64, busy *float64) float64 {
	timed := 0.0
	for call := range 2 * governorCalls * copies {
		time := burst
		if *busy >= governorDelay {
			time = held
		}
		if *busy += time; call >= governorCalls*copies {
			timed += time
		}
	}
	return timed / float64(governorCalls*copies)
}

// A timedTable is how an invented table of products was timed.
type timedTable struct {
	held   float64 // what the power limit sustains
	random bool
	rest   float64 // seconds of a burst that the board recovers between rows of one matrix; 0 where it recovers wholly
}

// rows are those of the table, of bursts at 0.75 of the peak.
func (x *timedTable) rows(t *testing.T, g *hardware.GPU) (rows []Row) {
	peaks, err := g.Peaks()
	if err != nil {
		t.Fatal(err)
	}
	c := hardware.DefaultCalibration(g).Constants
	c[roofline.GEMMCompute], c[roofline.GEMMMemory], c[roofline.GEMMFixed] = 0.75, 0.85, 4e-6
	burst := roofline.NewMachine(peaks, &c)
	c[roofline.GEMMCompute] = x.held
	late := roofline.NewMachine(peaks, &c)
	for _, n := range []int{1024, 4096, 8192, 28672} {
		for _, k := range []int{1024, 4096, 14336} {
			busy := 0.0
			for _, m := range []int{32768, 16384, 8192, 4352, 4096, 3840, 3584, 3072, 2048, 512, 64, 8, 1} {
				r := Row{Kind: GEMM, Shape: Shape{M: m, N: n, K: k}, DType: unit.BF16, Ranks: 1, Copies: 6, Random: x.random, InTurn: x.rest > 0}
				p := r.Point()
				kernel := p.kernel(g, 0)
				r.Median = called(r.Copies, float64(burst.Time(&kernel)), float64(late.Time(&kernel)), &busy)
				if busy = max(0, min(busy, governorDelay)-x.rest); x.rest == 0 {
					busy = 0
				}
				rows = append(rows, r)
			}
		}
	}
	return rows
}

// TestGovernor finds what products sustain in rows whose calls were counted one by one, one matrix after the other or not, leaves a table
// alone that no limit slows, and reads nothing of it off weights that were not random.
func TestGovernor(t *testing.T) {
	g := board(t, "h200")
	for _, x := range []struct {
		timedTable
		want float64 // 0 for none
	}{
		{timedTable{0.6, true, 0}, 0.6}, {timedTable{0.75, true, 0}, 0}, {timedTable{0.6, false, 0}, 0}, {timedTable{0.6, true, 0.004}, 0.6},
	}[:testkit.Cases(2, 4)] {
		f := ofTables(t, g, "sglang")
		testkit.Must(t, FitImport(f, g, x.rows(t, g), nil))
		v, known := f.Values["gemm.sustained"]
		if known != (x.want > 0) || math.Abs(v.Value-x.want) > 0.03*x.want {
			t.Errorf("%+v: sustains %v (%s), want %v", x.timedTable, v.Value, v.From, x.want)
		}
		if x.want > 0 {
			if got := f.Values["gemm.compute"].Value; math.Abs(got/0.75-1) > 0.03 {
				t.Errorf("%+v: bursts reach %v, want 0.75", x.timedTable, got)
			}
			if o := f.Operators["gemm"]; o.Median > 0.02 {
				t.Errorf("%+v: rows held out are %v off", x.timedTable, o.Median)
			}
		}
	}
}
