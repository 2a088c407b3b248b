package operator

import (
	"math"
	"testing"

	"llmprof/footprint"
	"llmprof/parallel"
	"llmprof/unit"
)

// Over two nodes of 8, an all-reduce runs within each node and an eighth of it
// between them.
func TestAllReduceOverNodes(t *testing.T) {
	par := parallel.Parallelism{TP: 16, GPUsPerNode: 8}.Whole()
	st := Step{Shard: Shard{Rank: footprint.Rank{Par: &par}}}
	o := st.ring(nil, Reduce, "all_reduce", 1e6, 2)[0]
	for what, x := range map[string][2]unit.Bytes{"within a node": {o.Work.Wire, 2 * 7.0 / 8 * 1e6}, "between nodes": {o.Work.NodeWire, 2 * 1.0 / 2 * 1e6 / 8}} {
		if math.Abs(float64(x[0]/x[1])-1) > 1e-12 {
			t.Errorf("%s: %v, want %v", what, x[0], x[1])
		}
	}
}
