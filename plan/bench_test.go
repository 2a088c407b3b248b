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
			q.Load.Throughput, q.Budget, q.Targets = 2000, 8, Targets{TTFT: 0.5, TPOT: 0.03}
		}},
		{"two cards", "deepseek-v3", []string{"h200", "b200"}, func(q *Request) { q.Load.Rate, q.Targets.TTFT = 10, 2 }},
		{"rate", "qwen3-235b-a22b", nil, func(q *Request) { q.Load.Rate = 5 }},
		{"concurrency", "llama3.1-70b", nil, func(q *Request) { q.Load.Concurrency = 64 }},
	} {
		b.Run(x.name, func(b *testing.B) {
			gpus := x.gpus
			if gpus == nil {
				gpus = casetest.GPUs(b)
			}
			q := request(b, x.model, gpus...)
			for i := range q.Cards {
				q.Cards[i].Formats = DefaultFormats(q.Cards[i].Model, q.Cards[i].GPU, []string{"fp8", "w4a16-g128"}, 8)
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
