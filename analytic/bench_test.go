package analytic_test

import (
	"testing"

	"llmprof/analytic"
	"llmprof/analytic/breakdown"
	"llmprof/analytic/operator"
	"llmprof/hardware"
	"llmprof/internal/testkit/casetest"
)

// BenchmarkEstimate is a full estimate of a dense model from nothing but its shape and a
// GPU's constants: TTFT, TPOT over 128 tokens, memory, energy.
func BenchmarkEstimate(b *testing.B) {
	c := testCase(b, "llama3.1-8b", "h200", 1, 1)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := analytic.Predict(c); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkPrepared is an estimate of one more workload.
func BenchmarkPrepared(b *testing.B) {
	for _, x := range []struct {
		model, gpu string
		tp         int
	}{{"llama3.1-8b", "h200", 1}, {"llama2-70b", "a100", 8}, {"gemma2-9b", "h200", 1}, {"qwen3-30b-a3b", "a100", 1},
		{"deepseek-v3", "h200", 8}, {"nemotron-h-8b", "a6000", 1}} {
		b.Run(x.model, func(b *testing.B) {
			c := testCase(b, x.model, x.gpu, 1, x.tp)
			p, err := analytic.NewPredictor(c)
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

// BenchmarkStep is the time of one decode step.
func BenchmarkStep(b *testing.B) {
	p, err := analytic.NewPredictor(testCase(b, "llama3.1-8b", "h200", 1, 1))
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		p.StepTime(1, 1, 1024, 1)
	}
}

// BenchmarkNewPredictor is what a change of model, machine, split or scheme costs.
func BenchmarkNewPredictor(b *testing.B) {
	c := testCase(b, "llama3.1-8b", "h200", 1, 1)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := analytic.NewPredictor(c); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkNewMachine is what a change of a GPU or of its constants costs.
func BenchmarkNewMachine(b *testing.B) {
	m := testCase(b, "llama3.1-8b", "h200", 1, 1).Machine
	cal := hardware.DefaultCalibration(m.GPU)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := analytic.NewMachine(m.GPU, cal, m.Engine); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkExplain is an estimate with the report of every operator.
func BenchmarkExplain(b *testing.B) {
	c := testCase(b, "llama3.1-8b", "h200", 1, 1)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := breakdown.Explain(c); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkStepCost is a step of a server with several groups of sequences, each unlike the one before.
func BenchmarkStepCost(b *testing.B) {
	for _, x := range []struct {
		name, model string
		decodes     bool
	}{{"decode", "gpt-oss-120b", true}, {"mixed", "gpt-oss-120b", false}, {"latent", "deepseek-v3", false}, {"dense", "llama3.1-8b", false}} {
		b.Run(x.name, func(b *testing.B) {
			c := testCase(b, x.model, "h200", 1, 8)
			c.Machine = casetest.Machine(b, "h200", "vllm")
			p, err := analytic.NewPredictor(c)
			if err != nil {
				b.Fatal(err)
			}
			i := 0
			b.ReportAllocs()
			for b.Loop() {
				i++
				groups := []operator.Group{{Batch: float64(1 + i%200), New: 1, Past: 2300, Logits: 1},
					{Batch: 1, New: float64(500 + i%1000), Logits: 1}}
				if x.decodes {
					groups = groups[:1]
				}
				p.StepCost(groups, 0)
			}
		})
	}
}
