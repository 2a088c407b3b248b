package sweep

import (
	"testing"

	"llmprof/deployment"
	"llmprof/serving"
)

// Every metric of a steady state has its column, and no column of a load is left empty.
func TestMetricsOfLoad(t *testing.T) {
	st := &serving.Steady{Running: 1, Waiting: 2, TTFT: 3, TPOT: 4, E2E: 5, Rate: 6, Throughput: 7, Utilization: 8, Cache: 9, Energy: 10,
		Cost:     11,
		Capacity: serving.Capacity{Rate: 12, Bound: "steps"}}
	row := rowOf(&deployment.Load{Steady: st, High: &serving.Steady{TTFT: 13, TPOT: 14, E2E: 15}})
	want := Loaded{LoadTTFT: 3, LoadTTFTHigh: 13, LoadTPOT: 4, LoadTPOTHigh: 14, LoadE2E: 5, LoadE2EHigh: 15, Requests: 6, Generated: 7,
		Running: 1, Waiting: 2, Utilization: 8, KVShare: 9, LoadJ: 10, LoadUSD: 11, Most: 12, MostBound: "steps"}
	if row != want {
		t.Errorf("%+v, want %+v", row, want)
	}
	if alone := rowOf(&deployment.Load{Steady: st}); alone.LoadTTFTHigh != 0 || alone.LoadTTFT != 3 {
		t.Errorf("%+v", alone)
	}
}
