package page_test

import (
	"encoding/json"
	"maps"
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
