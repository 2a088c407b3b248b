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
				if then.Reattend(ops, l); !reflect.DeepEqual(ops, want) {
					t.Errorf("%s, %s, %v new tokens: rewritten operators are\n%+v\nwant\n%+v", m.Name, l.Name, fresh, ops, want)
				}
			}
		}
	}
}
