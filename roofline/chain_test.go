package roofline

import (
	"math"
	"math/rand/v2"
	"testing"
)

// A tile of a quantized GEMM adds up all inputs in one chain. In 16 bits the blocks of idle SMs share them, if that is faster: with 32
// tiles on 132 SMs up to four share a tile, each of which has 1024 inputs at least. The chain and the traffic hide each other but for the
// root of the sum of squares.
func TestSplitInputs(t *testing.T) {
	const element, depth = 2e-6, 1e-9
	var c Constants
	c[GEMMCompute], c[GEMMMemory], c[GEMMFixed], c[GEMMDepth], c[ElementwiseFixed] = 1, 1, 1e-9, depth, element
	p := peaks()
	p.SMs = 132
	m := NewMachine(p, &c)
	for _, x := range []struct {
		scheme    Scheme
		k, splits float64
	}{{Unquantized, 1000, 1}, {Unquantized, 2500, 1}, {Unquantized, 8192, 4}, {Unquantized, 50000, 4}, {FP8, 50000, 1}} {
		k := Kernel{Class: GEMM, Scheme: x.scheme, Launches: 1, Count: 1, Shape: Shape{M: 8, N: 4096, K: x.k}, Work: Work{Weights: 1e6}}
		bytes, more := 1e6, 0.0
		if x.splits > 1 {
			bytes, more = 1e6+x.splits*4*8*4096, element
		}
		want := 1e-9 + more + math.Hypot(x.k/x.splits*depth, bytes/float64(p.Memory))
		if got := float64(m.Time(&k)); math.Abs(got/want-1) > 1e-9 {
			t.Errorf("%v with %v inputs takes %v s, want %v", x.scheme, x.k, got, want)
		}
		if got := m.Cost(&k).Time; math.Abs(float64(got)/want-1) > 1e-9 {
			t.Errorf("%v with %v inputs costs %v, want %v s", x.scheme, x.k, got, want)
		}
	}
}

// A library that splits a GEMM takes no longer than without.
func TestSplitIsFastest(t *testing.T) {
	trials(func(_ *rand.Rand, m *Machine, k *Kernel) {
		if k.Class != GEMM || k.Scheme != Unquantized {
			return
		}
		terms := listed(LawOf(GEMM), k, &m.Peaks)
		whole := m.times(&terms)
		if got, want := m.Time(k), whole.overlapped(m.exposed(GEMM, &terms)); got > want.Times(1+1e-12) {
			t.Errorf("%+v takes %v split, %v whole", k.Shape, got, want)
		}
	})
}
