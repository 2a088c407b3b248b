package serving

import (
	"context"
	"testing"
)

// BenchmarkSimulate is a closed loop of 64 clients; the metric is how much faster than the
// real server it is.
func BenchmarkSimulate(b *testing.B) {
	for _, x := range []struct{ name, model, gpu string }{{"dense", "llama3.1-8b", "h200"}, {"windows", "gemma2-9b", "h200"},
		{"mixture", "qwen3-30b-a3b", "h200"}} {
		b.Run(x.name, func(b *testing.B) {
			s := server(b, x.model, x.gpu, 1, "vllm")
			l := Load{
				Arrival: Arrival{Kind: "closed", Concurrency: 64}, Requests: 5000, Seed: 1,
				Prompt: Lengths{Kind: "lognormal", Mean: 1000, Spread: 0.8}, Gen: Lengths{Kind: "lognormal", Mean: 250, Spread: 0.8},
			}
			var simulated, steps float64
			b.ReportAllocs()
			for b.Loop() {
				source, err := l.Source()
				if err != nil {
					b.Fatal(err)
				}
				r, err := Simulate(context.Background(), s, source, Options{})
				if err != nil {
					b.Fatal(err)
				}
				simulated += float64(r.Duration)
				steps += float64(r.Steps)
			}
			b.ReportMetric(simulated/b.Elapsed().Seconds(), "x-realtime")
			b.ReportMetric(b.Elapsed().Seconds()/steps*1e9, "ns/step")
		})
	}
}
