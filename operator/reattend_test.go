package operator_test

import (
	"reflect"
	"testing"

	"llmprof/analytic/casetest"
	"llmprof/internal/testkit"
	"llmprof/models"
	"llmprof/operator"
	"llmprof/parallel"
)

// The operators of a layer that are rewritten for another context are those that the step lists.
func TestReattend(t *testing.T) {
	scheme, err := models.ParseScheme("w16a16")
	testkit.Must(t, err)
	for _, m := range casetest.Models(t) {
		shard := operator.NewShard(m, parallel.Parallelism{TP: 2, PP: 2, EP: 2}, scheme, nil)
		for _, fresh := range []float64{1, 100} {
			first, then := shard.Step(8, fresh, 10, 1), shard.Step(8, fresh, 7000, 1)
			for i := range m.Layers {
				l := &m.Layers[i]
				ops, want := first.AppendLayer(nil, l), then.AppendLayer(nil, l)
				if then.Reattend(ops, l, l); !reflect.DeepEqual(ops, want) {
					t.Errorf("%s, %s, %v new tokens: rewritten operators are\n%+v\nwant\n%+v", m.Name, l.Name, fresh, ops, want)
				}
			}
		}
	}
}

// The operators of layers that differ in their windows alone follow from each other, of decodes beside a prompt too.
func TestReattendTwins(t *testing.T) {
	scheme, err := models.ParseScheme("w16a16")
	testkit.Must(t, err)
	twins := 0
	for _, m := range casetest.Models(t) {
		shard := operator.NewShard(m, parallel.Parallelism{TP: 2, PP: 2, EP: 2}, scheme, nil)
		decodes, prompt := operator.Group{Batch: 7, New: 1, Past: 5000, Logits: 1}, operator.Group{Batch: 1, New: 900, Past: 300, Logits: 1}
		for _, s := range []operator.Step{shard.Step(8, 1, 7000, 1), shard.Mixed([]operator.Group{decodes, prompt}), shard.Mixed([]operator.Group{decodes, decodes, prompt})} {
			for i := 1; i < len(m.Layers); i++ {
				before, l := &m.Layers[i-1], &m.Layers[i]
				if !before.AlikeButWindows(l) {
					continue
				}
				twins++
				ops, want := s.AppendLayer(nil, before), s.AppendLayer(nil, l)
				if s.Reattend(ops, before, l); !reflect.DeepEqual(ops, want) {
					t.Errorf("%s, %s after %s: rewritten operators are\n%+v\nwant\n%+v", m.Name, l.Name, before.Name, ops, want)
				}
			}
		}
	}
	if twins < 10 {
		t.Errorf("%d kinds of layers differ in their windows alone from those before", twins)
	}
}
