package analytic

import "testing"

// BenchmarkPredict is a full estimate of a dense model: TTFT, TPOT over 128
// generated tokens, memory, energy.
func BenchmarkPredict(b *testing.B) {
	for _, x := range []struct {
		model, gpu string
		tp         int
	}{{"llama3.1-8b", "h200", 1}, {"llama2-70b", "a100", 8}, {"gemma2-9b", "h200", 1}, {"qwen3-30b-a3b", "a100", 1}, {"deepseek-v3", "h200", 8}, {"nemotron-h-8b", "a6000", 1}} {
		b.Run(x.model, func(b *testing.B) {
			c := testCase(b, x.model, x.gpu, 1, x.tp)
			p, err := NewPredictor(c)
			if err != nil {
				b.Fatal(err)
			}
			w := c.Workload
			b.ReportAllocs()
			for b.Loop() {
				if _, err := p.Predict(&w); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkNewPredictor is what a change of model, machine, split or scheme costs.
func BenchmarkNewPredictor(b *testing.B) {
	c := testCase(b, "llama3.1-8b", "h200", 1, 1)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := NewPredictor(c); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkExplain is an estimate with the report of every operator.
func BenchmarkExplain(b *testing.B) {
	c := testCase(b, "llama3.1-8b", "h200", 1, 1)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Explain(c); err != nil {
			b.Fatal(err)
		}
	}
}
