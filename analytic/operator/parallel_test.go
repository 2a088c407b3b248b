package operator_test

import (
	"slices"
	"strings"
	"testing"

	"llmprof/analytic/operator"
	"llmprof/internal/testkit/casetest"
)

// Hops within a node and between nodes follow from where the stages of the pipeline lie.
func TestHops(t *testing.T) {
	for _, x := range []struct {
		p         operator.Parallelism
		near, far float64
	}{
		{operator.Parallelism{TP: 16, GPUsPerNode: 8}, 0, 0},
		{operator.Parallelism{TP: 4, PP: 4, GPUsPerNode: 8}, 2, 1},
		{operator.Parallelism{TP: 8, PP: 3, GPUsPerNode: 8}, 0, 2},
		{operator.Parallelism{TP: 1, PP: 8, GPUsPerNode: 8}, 7, 0},
	} {
		w := x.p.Whole()
		if near, far := w.Hops(); near != x.near || far != x.far {
			t.Errorf("%+v: %v borders within nodes and %v between, want %v and %v", x.p, near, far, x.near, x.far)
		}
	}
}

// Every degree of a Parallelism counts GPUs, except EP, whose ranks are those of TP and DP.
func TestGPUsAndNodes(t *testing.T) {
	for _, x := range []struct {
		p           operator.Parallelism
		gpus, nodes int
	}{
		{operator.Parallelism{}, 1, 1},
		{operator.Parallelism{TP: 4, PP: 2, DP: 3, EP: 12, GPUsPerNode: 8}, 24, 3},
		{operator.Parallelism{TP: 8, PP: 3, GPUsPerNode: 16}, 24, 2},
		{operator.Parallelism{TP: 16}, 16, 1},
	} {
		if gpus, nodes := x.p.GPUs(), x.p.Nodes(); gpus != x.gpus || nodes != x.nodes {
			t.Errorf("%+v: %d GPUs in %d nodes, want %d in %d", x.p, gpus, nodes, x.gpus, x.nodes)
		}
	}
}

// An expert is split over the TP ranks that EP leaves, and replicas share experts if EP exceeds TP.
func TestExperts(t *testing.T) {
	for _, x := range []struct {
		p            operator.Parallelism
		tp, replicas int
	}{
		{operator.Parallelism{TP: 8}, 8, 1},
		{operator.Parallelism{TP: 8, EP: 4}, 2, 1},
		{operator.Parallelism{TP: 8, EP: 8}, 1, 1},
		{operator.Parallelism{TP: 2, DP: 4, EP: 8}, 1, 4},
		{operator.Parallelism{DP: 8}, 1, 1},
		{operator.Parallelism{DP: 8, MoETP: 8}, 8, 8},
		{operator.Parallelism{TP: 2, DP: 8, MoETP: 8}, 8, 4},
		{operator.Parallelism{TP: 2, DP: 4, EP: 2, MoETP: 4}, 4, 4},
		{operator.Parallelism{TP: 8, EP: 4, MoETP: 2}, 2, 1},
	} {
		w := x.p.Whole()
		if tp, replicas := w.ExpertTP(), w.ExpertReplicas(); tp != x.tp || replicas != x.replicas {
			t.Errorf("%+v: experts over %d ranks and %d replicas, want %d and %d", x.p, tp, replicas, x.tp, x.replicas)
		}
	}
}

// A split that is impossible, by itself or for a model, is an error that says why.
func TestImpossibleSplits(t *testing.T) {
	m := casetest.Model(t, "llama3.1-8b")
	for _, bad := range []struct {
		p    operator.Parallelism
		want string
	}{
		{operator.Parallelism{TP: 3}, "does not divide"},
		{operator.Parallelism{TP: 7}, "does not divide"},
		{operator.Parallelism{PP: 33}, "only 32 layers"},
		{operator.Parallelism{EP: 2, DP: 2}, "has no experts"},
		{operator.Parallelism{SP: true}, "needs tp above 1"},
		{operator.Parallelism{MoETP: 2, DP: 2}, "has no experts"},
		{operator.Parallelism{MoETP: 2, TP: 4}, "tp 4 or a multiple of it"},
		{operator.Parallelism{MoETP: 4, DP: 6}, "does not divide tp × dp = 6"},
		{operator.Parallelism{MoETP: -1}, "must be from 1"},
		{operator.Parallelism{MicroBatches: 2}, "pp above 1"},
		{operator.Parallelism{TP: -1}, "must be from 1"},
		{operator.Parallelism{TP: 1 << 19, PP: 1 << 19}, "at most"},
	} {
		err := bad.p.Check()
		if err == nil {
			w := bad.p.Whole()
			err = w.CheckModel(m)
		}
		if err == nil || !strings.Contains(err.Error(), bad.want) {
			t.Errorf("%+v: error %v, want one with %q", bad.p, err, bad.want)
		}
	}
	for _, good := range []operator.Parallelism{{}, {TP: 8}, {TP: 16}, {PP: 32}, {TP: 2, SP: true}, {PP: 4, MicroBatches: 3}, {DP: 64}} {
		w := good.Whole()
		if err := good.Check(); err != nil {
			t.Errorf("%+v: %v", good, err)
		} else if err := w.CheckModel(m); err != nil {
			t.Errorf("%+v: %v", good, err)
		}
	}
}

// The groups of a split are those whose operators go over the wire within a node.
func TestGroups(t *testing.T) {
	for _, x := range []struct {
		p    operator.Parallelism
		want []int
	}{
		{operator.Parallelism{}, []int{1}},
		{operator.Parallelism{TP: 4, GPUsPerNode: 8}, []int{4}},
		{operator.Parallelism{TP: 16, GPUsPerNode: 8}, []int{8}},
		{operator.Parallelism{TP: 2, PP: 2, GPUsPerNode: 8}, []int{2, 2}},
		{operator.Parallelism{PP: 2, GPUsPerNode: 1}, []int{1}},
		{operator.Parallelism{DP: 4, GPUsPerNode: 8}, []int{1}},
		{operator.Parallelism{DP: 4, EP: 4, GPUsPerNode: 8}, []int{1, 4}},
		{operator.Parallelism{TP: 4, EP: 4, GPUsPerNode: 8}, []int{4}},
	} {
		if got := x.p.Groups(); !slices.Equal(got, x.want) {
			t.Errorf("%+v: %v, want %v", x.p, got, x.want)
		}
	}
}
