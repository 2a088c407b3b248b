package plan

import (
	"slices"
	"strings"
	"testing"

	"llmprof/internal/testkit"
	"llmprof/unit"
)

// Every row with a part of the model in host memory has the figures of the estimate that it names, which fits both memories, and starts
// with the placement of that estimate.
func TestRowsAtHome(t *testing.T) {
	ram := unit.Bytes(64e9)
	for _, x := range []struct {
		asked   Options
		without bool // nothing lies in host memory
	}{
		{asked: Options{Models: []string{"gpt-oss-120b"}, GPUs: []string{"rtx-4090"}, MaxGPUs: new(2), Host: "ddr5-6000x2", RAM: &ram}},
		{asked: Options{Models: []string{"gpt-oss-120b"}, GPUs: []string{"rtx-3060-12gb"}, MaxGPUs: new(1), Concurrency: new(1)}},
		{asked: Options{Models: []string{"llama3.3-70b"}, GPUs: []string{"rtx-4090"}, MaxGPUs: new(2)}},
		{asked: Options{Models: []string{"gpt-oss-120b"}, GPUs: []string{"rtx-4090"}, MaxGPUs: new(8), By: "latency"}, without: true},
	} {
		x.asked.Engines, x.asked.Top, x.asked.PerGPU, x.asked.Expected = []string{"llama.cpp"}, new(0), new(0), true
		q, err := x.asked.Request(t.Context(), library())
		testkit.Must(t, err)
		found, err := Search(t.Context(), q)
		testkit.Must(t, err)
		if len(found.Rows) == 0 {
			t.Fatalf("%v: %+v", x.asked.Models, found.Rejected)
		}
		hosted := 0
		for i := range found.Rows {
			r := &found.Rows[i]
			if r.Split.EP > 1 || r.Split.MoETP > 0 {
				t.Errorf("%v: llama.cpp has no such split", r)
			}
			if !r.inHost() {
				continue
			}
			hosted++
			ans, err := library().Answer(t.Context(), r.Same(q))
			testkit.Must(t, err)
			if !ans.Memory.Fits() || ans.Home == nil || ans.Home.Weights+ans.Home.KV > ans.Home.RAM {
				t.Errorf("%v: it does not fit: %v, %+v", r, ans.Memory.Total, ans.Home)
			}
			if !r.loaded() && (ans.TTFT != r.Estimate.TTFT || ans.TPOT != r.Estimate.TPOT) {
				t.Errorf("%v: TTFT %v, TPOT %v; its request has %v, %v", r, r.Estimate.TTFT, r.Estimate.TPOT, ans.TTFT, ans.TPOT)
			}
			all := Launches(r, q, "model")
			at := slices.IndexFunc(all, func(l Launch) bool { return l.Engine == "llama.cpp" })
			if at < 0 || !strings.Contains(strings.Join(all[at].Args, " "), r.Placement.Flags()) {
				t.Errorf("%v: it starts as %v, want %s", r, all, r.Placement.Flags())
			}
		}
		if best := found.Rows[0].inHost(); best == x.without || hosted == 0 && !x.without {
			t.Errorf("%v: the best row is %v, %d of %d in host memory", x.asked.Models, &found.Rows[0], hosted, len(found.Rows))
		}
	}
}

// Replicas of llama.cpp neither hand caches over nor gain by longer steps, whose passes are as long as --ubatch says.
func TestSlotsStayTogether(t *testing.T) {
	asked := Options{Models: []string{"qwen3-30b-a3b"}, GPUs: []string{"rtx-3070-8gb"}, Engines: []string{"llama.cpp"}, TTFT: "2s",
		Rate: new(0.2), Top: new(0), PerGPU: new(0)}
	q, err := asked.Request(t.Context(), library())
	testkit.Must(t, err)
	found, err := Search(t.Context(), q)
	testkit.Must(t, err)
	if len(found.Rows) == 0 {
		t.Fatal(found.Rejected)
	}
	for i := range found.Rows {
		if r := &found.Rows[i]; r.Prefill > 0 || r.Budget > 0 {
			t.Errorf("%v", r)
		}
	}
}
