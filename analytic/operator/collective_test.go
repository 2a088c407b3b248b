package operator

import (
	"math"
	"math/rand/v2"
	"testing"

	"llmprof/models"
	"llmprof/roofline"
	"llmprof/unit"
)

// Over two nodes of 8, an all-reduce runs within each node and an eighth of it
// between them.
func TestAllReduceOverNodes(t *testing.T) {
	par := Parallelism{TP: 16, GPUsPerNode: 8}.Whole()
	st := Step{Rank: Rank{Par: &par}}
	o := st.ring(nil, Reduce, "all_reduce", 1e6, 2)[0]
	for what, x := range map[string][2]unit.Bytes{"within a node": {o.Work.Wire, 2 * 7.0 / 8 * 1e6},
		"between nodes": {o.Work.NodeWire, 2 * 1.0 / 2 * 1e6 / 8}} {
		if math.Abs(float64(x[0]/x[1])-1) > 1e-12 {
			t.Errorf("%s: %v, want %v", what, x[0], x[1])
		}
	}
}

// An all-gather among ranks of EP or replicas sends what one among ranks of TP does: rings pass through all GPUs.
func TestAllGatherOverNodes(t *testing.T) {
	for _, n := range []int{8, 16, 64} {
		par := Parallelism{TP: n, GPUsPerNode: 8}.Whole()
		st := Step{Rank: Rank{Par: &par}}
		want := st.allGather(nil, "all_gather", unit.Bytes(n)*1e6)[0].Work
		var w roofline.Work
		AllGather(&w, 1e6, float64(n), 8)
		if math.Abs(float64(w.Wire/want.Wire)-1) > 1e-12 || math.Abs(float64(w.NodeWire-want.NodeWire)) > 1e-3 {
			t.Errorf("%d ranks send %v and %v between nodes, want %v and %v", n, w.Wire, w.NodeWire, want.Wire, want.NodeWire)
		}
	}
}

// Of drawn experts, those on other ranks and nodes are counted: a token goes to a rank once and to a node once.
func TestAllToAllDraws(t *testing.T) {
	const tokens = 20000
	for _, x := range []struct{ experts, k, ranks int }{{128, 8, 4}, {256, 8, 8}, {256, 8, 32}, {64, 6, 64}, {16, 1, 16}} {
		par := Parallelism{TP: 1, DP: x.ranks, EP: x.ranks, GPUsPerNode: 8}.Whole()
		st := Step{Rank: Rank{Par: &par}}
		w := st.allToAll(nil, "", &models.Experts{Count: x.experts, TopK: x.k}, 1)[0].Work
		r := rand.New(rand.NewPCG(1, 2))
		links, networks := 0, 0
		for range tokens { // of rank 0
			ranks, nodes := map[int]bool{}, map[int]bool{}
			for _, e := range r.Perm(x.experts)[:x.k] {
				rank := e * x.ranks / x.experts
				ranks[rank], nodes[rank/8] = true, true
			}
			delete(ranks, 0)
			delete(nodes, 0)
			links += len(ranks) - len(nodes) // the rank that receives a token for its node is one of those that need it
			networks += len(nodes)
		}
		for what, y := range map[string][2]float64{"links": {float64(w.Wire), float64(links)},
			"networks": {float64(w.NodeWire), float64(networks)}} {
			if math.Abs(y[0]-y[1]/tokens) > 0.03*math.Max(y[0], 0.1) {
				t.Errorf("%+v: a token is sent over %s %v times, drawn %v", x, what, y[0], y[1]/tokens)
			}
		}
	}
}
