package analytic

import (
	"math"
	"testing"

	"llmprof/unit"
)

// Over two nodes of 8, an all-reduce runs within each node and an eighth of it
// between them.
func TestAllReduceOverNodes(t *testing.T) {
	par := Parallelism{TP: 16, GPUsPerNode: 8}.Whole()
	st := Step{Par: &par}
	o := st.ring(Reduce, "all_reduce", 1e6, 2)
	for what, x := range map[string][2]unit.Bytes{"within a node": {o.Work.Wire, 2 * 7.0 / 8 * 1e6}, "between nodes": {o.Work.NodeWire, 2 * 1.0 / 2 * 1e6 / 8}} {
		if math.Abs(float64(x[0]/x[1])-1) > 1e-12 {
			t.Errorf("%s: %v, want %v", what, x[0], x[1])
		}
	}
	if near, far := par.hops(); near != 0 || far != 0 {
		t.Errorf("one stage has %v and %v borders", near, far)
	}
	for _, x := range []struct {
		p         Parallelism
		near, far float64
	}{
		{Parallelism{TP: 4, PP: 4, GPUsPerNode: 8}, 2, 1},
		{Parallelism{TP: 8, PP: 3, GPUsPerNode: 8}, 0, 2},
		{Parallelism{TP: 1, PP: 8, GPUsPerNode: 8}, 7, 0},
	} {
		w := x.p.Whole()
		if near, far := w.hops(); near != x.near || far != x.far {
			t.Errorf("%+v: %v borders within nodes and %v between, want %v and %v", x.p, near, far, x.near, x.far)
		}
	}
}
