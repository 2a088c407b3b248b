package page_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"reflect"
	"testing"

	"llmprof/cmd/llmprof/internal/page"
	"llmprof/deployment"
	"llmprof/internal/testkit"
)

// What the page keeps of requests changes none of the answers to later ones: they are those of a page that has kept nothing, to the last
// digit.
func TestAnswersUnderLoadDependOnNoEarlierOnes(t *testing.T) {
	kept := page.New()
	for _, model := range []map[string]string{
		{"model": "llama3.1-8b", "gpu": "h100", "dp": "2", "price": "3"},
		{"model": "deepseek-v3", "gpu": "h200", "tp": "8"}, {"model": "gemma2-9b", "gpu": "a100", "engine": "sglang"},
	}[:testkit.Cases(1, 3)] {
		for _, change := range []map[string]string{
			{"do": "load"}, {"do": "under", "rate": "0.5"}, {"do": "under", "concurrency": "9"}, {"do": "load", "prompt-len": "300"},
			{"do": "load", "prompt-len": "301"}, {"do": "under", "rate": "0.7", "prompt-len": "301"},
			{"do": "under", "concurrency": "10", "prompt-len": "301"}, {"do": "under", "concurrency": "9", "prompt-len": "301", "gen-len": "7"},
			{"do": "load", "max-num-batched-tokens": "512"}, {"do": "under", "rate": "0.5", "prefix-hit-rate": "0.5"},
			{"do": "under", "rate": "1e6"}, {"do": "under", "concurrency": "0"}, {"do": "under", "rate": "1", "batch": "3"},
			{"do": "under", "rate": "1", "prefill-replicas": "1"},
		} {
			r := page.Request{Do: change["do"], Flags: maps.Clone(model)}
			maps.Copy(r.Flags, change)
			delete(r.Flags, "do")
			request, err := json.Marshal(r)
			if err != nil {
				t.Fatal(err)
			}
			if got, want := kept.Handle(t.Context(), request), page.New().Handle(t.Context(), request); string(got) != string(want) {
				t.Errorf("%s: after other requests the answer is %.300s, else %.300s", request, got, want)
			}
		}
	}
}

// The slow end of the interval at a rate is the state that the chart over the rate has at a rate as many times as high as everything takes
// longer there, stretched by as much: the page draws it so.
func TestSlowEndsOfRates(t *testing.T) {
	for _, flags := range []map[string]string{
		{"model": "deepseek-v3", "gpu": "h200", "tp": "8"}, {"model": "deepseek-v3", "gpu": "h200", "tp": "8", "prompt-len": "100"},
		{"model": "gemma2-9b", "gpu": "a100", "engine": "sglang", "gen-len": "1"},
		{"model": "llama3.1-8b", "gpu": "l4-24gb", "prefill-replicas": "1"},
	} {
		p := page.New()
		ask := func(to any, do string, flags map[string]string) {
			request, err := json.Marshal(page.Request{Do: do, Flags: flags})
			if err != nil {
				t.Fatal(err)
			}
			if answer := p.Handle(t.Context(), request); json.Unmarshal(answer, &struct{ Data any }{to}) != nil {
				t.Fatalf("%s", answer)
			}
		}
		var chart page.Rates
		if ask(&chart, "load", flags); chart.Slower <= 1 || len(chart.Points) < 9 {
			t.Fatalf("%v: %+v", flags, chart)
		}
		for _, point := range chart.Points {
			var state struct {
				Load struct {
					High struct {
						TTFT float64 `json:"ttft_s"`
						TPOT float64 `json:"tpot_s"`
					}
				}
			}
			flags := maps.Clone(flags)
			flags["rate"] = fmt.Sprint(point.Rate / chart.Slower)
			ask(&state, "under", flags)
			for _, v := range [][2]float64{{state.Load.High.TTFT, float64(point.TTFT)}, {state.Load.High.TPOT, float64(point.TPOT)}} {
				if want := v[1] * chart.Slower; math.Abs(v[0]-want) > 1e-6*want {
					t.Errorf("%v: the slow end is %g s, by the chart %g s", flags, v[0], want)
				}
			}
		}
	}
}

// Workers that share a chart over the rate answer together what one answers alone.
func TestPartsOfRates(t *testing.T) {
	points := map[deployment.ChartPart][]any{}
	for _, part := range []deployment.ChartPart{"", deployment.PartBelow, deployment.PartTop} {
		request, err := json.Marshal(page.Request{Do: "load", Part: part, Flags: map[string]string{
			"model": "deepseek-v3", "gpu": "h200", "tp": "8"}})
		if err != nil {
			t.Fatal(err)
		}
		var answer struct{ Data struct{ Points []any } }
		if err := json.Unmarshal(page.New().Handle(t.Context(), request), &answer); err != nil {
			t.Fatal(err)
		}
		points[part] = answer.Data.Points
	}
	top := points[deployment.PartTop]
	if both := append(points[deployment.PartBelow], top...); len(top) == 0 || !reflect.DeepEqual(both, points[""]) {
		t.Errorf("in parts %v, as a whole %v", both, points[""])
	}
}
