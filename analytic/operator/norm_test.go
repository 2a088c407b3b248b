package operator

import (
	"testing"

	"llmprof/models"
	"llmprof/unit"
)

// TestVarianceSum holds that ranks sum the variances of norms that all heads share, and of no other norm: not of
// DeepSeek-V4's vector that queries are made of, which every rank has whole.
func TestVarianceSum(t *testing.T) {
	attention := &models.Attention{Heads: 8, KVHeads: 8, KeyDim: 64, ValueDim: 64}
	for _, c := range []struct {
		tp      int
		perHead bool
		want    unit.Bytes // sent by a rank
	}{{1, false, 0}, {4, true, 0}, {4, false, 2 * 3 / 4.0 * 2 * 4 * 16}} {
		s := Step{Batch: 16, New: 1}
		par := Parallelism{TP: c.tp, GPUsPerNode: 8}
		s.Par = &par
		b := &models.Block{Attention: attention, Norms: []models.Norm{
			{Name: "input_norm", Width: 512}, {Name: "q_a_norm", Width: 96}, {Name: "q_norm", Width: 512, PerHead: c.perHead},
			{Name: "k_norm", Width: 512, PerHead: c.perHead},
		}}
		sent := unit.Bytes(0)
		for _, o := range s.varianceSum(nil, b) {
			sent += o.Work.Wire
		}
		if sent != c.want {
			t.Errorf("TP %d, norms of each head %v: a rank sends %v bytes, want %v", c.tp, c.perHead, sent, c.want)
		}
	}
}
