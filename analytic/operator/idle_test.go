package operator_test

import (
	"testing"

	"llmprof/analytic/operator"
	"llmprof/internal/testkit/casetest"
	"llmprof/models"
	"llmprof/unit"
)

// A step of text does in Llama 3.2 11B Vision what it does in Llama 3.1 8B: layers with cross-attention are skipped.
func TestTextSkipsLayersOfImages(t *testing.T) {
	scheme, err := models.ParseScheme("w16a16")
	if err != nil {
		t.Fatal(err)
	}
	work := func(name string) (flops unit.FLOPs, kv, wire unit.Bytes) {
		shard := operator.NewRank(casetest.Model(t, name), operator.Parallelism{TP: 2, GPUsPerNode: 8}, scheme, nil)
		step := shard.Step(4, 1, 2000, 1)
		for _, o := range step.AppendOps(nil) {
			flops, kv, wire = flops+o.Work.FLOPs.Times(o.Count), kv+o.Work.KV.Times(o.Count), wire+o.Work.Wire.Times(o.Count)
		}
		return flops, kv, wire
	}
	flops, kv, wire := work("llama3.2-11b-vision")
	if f, k, w := work("llama3.1-8b"); flops != f || kv != k || wire != w {
		t.Errorf("%g FLOPs, %g and %g bytes; without cross-attention %g, %g and %g", float64(flops), float64(kv), float64(wire), float64(f),
			float64(k), float64(w))
	}
}
