package page_test

import (
	"encoding/json"
	"maps"
	"reflect"
	"testing"

	"llmprof/cmd/llmprof/internal/page"
)

// What the page keeps of requests changes none of the answers to later ones: they are those of a page that has kept nothing, to the last digit.
func TestAnswersUnderLoadDependOnNoEarlierOnes(t *testing.T) {
	kept := page.New()
	for _, model := range []map[string]string{
		{"model": "deepseek-v3", "gpu": "h200", "tp": "8"}, {"model": "gemma2-9b", "gpu": "a100", "engine": "sglang"}, {"model": "llama3.1-8b", "gpu": "h100", "dp": "2", "price": "3"},
	} {
		for _, change := range []map[string]string{
			{"do": "load"}, {"do": "under", "rate": "0.5"}, {"do": "under", "concurrency": "9"}, {"do": "load", "prompt-len": "300"}, {"do": "load", "prompt-len": "301"}, {"do": "under", "rate": "0.7", "prompt-len": "301"},
			{"do": "under", "concurrency": "10", "prompt-len": "301"}, {"do": "under", "concurrency": "9", "prompt-len": "301", "gen-len": "7"}, {"do": "load", "max-num-batched-tokens": "512"}, {"do": "under", "rate": "0.5", "prefix-hit-rate": "0.5"},
			{"do": "under", "rate": "1e6"}, {"do": "under", "concurrency": "0"}, {"do": "under", "rate": "1", "batch": "3"}, {"do": "under", "rate": "1", "prefill-replicas": "1"},
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

// The parts of the chart over the rate, which two workers have, are those of the whole chart.
func TestPartsOfRates(t *testing.T) {
	for _, flags := range []map[string]string{
		{"model": "deepseek-v3", "gpu": "h200", "tp": "8"}, {"model": "deepseek-v3", "gpu": "h200", "tp": "8", "prompt-len": "100"}, {"model": "gemma2-9b", "gpu": "a100", "engine": "sglang", "gen-len": "1"},
		{"model": "llama3.1-8b", "gpu": "l4-24gb", "prefill-replicas": "1"}, {"model": "llama3.1-8b", "gpu": "h100", "speculative-tokens": "3", "acceptance": "1.5"},
	} {
		points := func(part string) (all []map[string]any) {
			request, err := json.Marshal(page.Request{Do: "load", Part: part, Flags: flags})
			if err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(page.New().Handle(t.Context(), request), &struct{ Data any }{&all}); err != nil {
				t.Fatal(err)
			}
			return all
		}
		whole, top, others := points(""), points("top"), points("others")
		for i := range others {
			maps.Copy(others[i], top[i])
		}
		if !reflect.DeepEqual(whole, others) {
			t.Errorf("%v: %v, in parts %v", flags, whole, others)
		}
		for i, p := range top[:max(len(top)-1, 0)] {
			if p["ttft_s"] != nil {
				t.Errorf("%v: the part of the highest rate has the state of rate %d: %v", flags, i, p)
			}
		}
	}
}
