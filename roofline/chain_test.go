package roofline

import (
	"math"
	"testing"
)

// A GEMM in 16 bits adds up no more than splitInputs inputs in one chain, a quantized one all of them, and the chain
// and the traffic hide each other but for the root of the sum of squares.
func TestChainOfInputs(t *testing.T) {
	var c Constants
	c[GEMMCompute], c[GEMMMemory], c[GEMMFixed], c[GEMMDepth] = 1, 1, 1e-9, 1e-9
	m := NewMachine(peaks(), &c)
	for _, x := range []struct {
		scheme          Scheme
		inputs, chained float64
	}{{Unquantized, 1000, 1000}, {Unquantized, 50000, splitInputs}, {FP8, 50000, 50000}} {
		k := Kernel{Class: GEMM, Scheme: x.scheme, Launches: 1, Count: 1, Shape: Shape{K: x.inputs}, Work: Work{Weights: 30e6}}
		want := 1e-9 + math.Hypot(x.chained*1e-9, 30e6/float64(m.Peaks.Memory))
		if got := float64(m.Time(&k)); math.Abs(got/want-1) > 1e-9 {
			t.Errorf("%v with %v inputs takes %v s, want %v", x.scheme, x.inputs, got, want)
		}
	}
}
