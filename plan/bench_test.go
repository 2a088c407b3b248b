package plan

import (
	"testing"

	"llmprof/internal/testkit/casetest"
	"llmprof/serving"
)

// BenchmarkLoads are searches of every card of the table, and of two, for the ten rows that "llmprof plan" shows.
func BenchmarkLoads(b *testing.B) {
	for _, x := range []struct {
		name, model string
		gpus        []string
		set         func(q *Request)
	}{
		{"throughput", "gpt-oss-120b", nil, func(q *Request) { q.Load.Throughput = 5000 }},
		{"energy", "gpt-oss-120b", nil, func(q *Request) { q.Load.Throughput, q.By = 5000, Energy }},
		{"latency", "gpt-oss-120b", nil, func(q *Request) { q.Load.Throughput, q.By = 5000, Latency }},
		{"targets", "qwen3-32b", nil, func(q *Request) {
			q.Prompt, q.Gen = serving.Fixed(2048), serving.Fixed(512)
			q.Load.Throughput, q.Budget, q.Targets = 2000, 8, means(0.5, 0.03, 0)
		}},
		{"two cards", "deepseek-v3", []string{"h200", "b200"}, func(q *Request) { q.Load.Rate, q.Targets = 10, means(2, 0, 0) }},
		{"rate", "qwen3-235b-a22b", nil, func(q *Request) { q.Load.Rate = 5 }},
		{"many clients", "llama3.1-70b", nil, func(q *Request) { q.Load.Concurrency, q.Targets = 300, means(0, 0.04, 0) }},
		{"percentiles", "llama3.1-8b", nil, func(q *Request) {
			q.Prompt, q.Load.Rate = serving.Lengths{Kind: "lognormal", Mean: 1024, Spread: 0.8}, 4
			q.Targets = []Target{{TTFT, 0.99, 2}, {TPOT, 0, 0.03}}
		}},
		{"99th percentiles", "qwen3-32b", nil, func(q *Request) {
			q.Prompt, q.Gen, q.Load.Rate = serving.Lengths{Kind: "lognormal", Mean: 2000, Spread: 1.176067}, serving.Fixed(300), 12
			q.Targets = []Target{{TTFT, 0.99, 1}, {TPOT, 0.99, 0.04}}
		}},
		{"concurrency", "llama3.1-70b", nil, func(q *Request) { q.Load.Concurrency = 64 }},
	} {
		b.Run(x.name, func(b *testing.B) {
			gpus := x.gpus
			if gpus == nil {
				gpus = casetest.GPUs(b)
			}
			q := request(b, x.model, gpus...)
			for i := range q.Cards {
				q.Cards[i].Formats = DefaultFormats(q.Cards[i].Model, q.Cards[i].GPU, DefaultWeights("vllm"), 8)
			}
			x.set(q)
			q.Top, q.PerGPU = 10, 1
			b.ReportAllocs()
			for b.Loop() {
				r, err := Search(b.Context(), q)
				if err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(r.Searched), "estimates")
			}
		})
	}
}
