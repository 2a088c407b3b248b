package sweep_test

import (
	"math/rand/v2"
	"testing"

	"llmprof"
	"llmprof/analytic"
	"llmprof/hardware"
	"llmprof/internal/testkit/casetest"
	"llmprof/plan/sweep"
)

// calibrated is a case with the built-in calibration of its GPU, if there is one.
func calibrated(t *testing.T, model, gpu, engine string, tp int) (*analytic.Case, *analytic.Machine) {
	t.Helper()
	c := casetest.Case(t, model, gpu, 1, tp)
	f, err := hardware.BuiltIn(llmprof.Calibrations, c.Machine.GPU, engine)
	if err != nil {
		t.Fatal(err)
	}
	all, err := analytic.Calibrated(c.Machine.GPU, casetest.Engine(t, engine), f)
	if err != nil {
		t.Fatal(err)
	}
	return c, all
}

// alone is the figures of a row that is estimated alone, as a command of one estimate does.
func alone(t *testing.T, c *analytic.Case, all *analytic.Machine, row *sweep.Row) (f sweep.Figures) {
	t.Helper()
	one := *c
	one.Workload = analytic.Workload{Batch: row.Batch, PromptLen: row.Prompt, CachedPrefix: row.CachedPrefix, Chunk: row.Chunk,
		GenLen: row.Gen}
	one.Machine = all
	e, err := analytic.Predict(&one)
	if err != nil {
		t.Fatal(err)
	}
	m := &e.Memory
	f = sweep.Figures{Fits: m.Fits(), Total: float64(m.Total), Capacity: float64(m.Capacity), MaxBatch: m.MaxBatch}
	if !f.Fits {
		return f
	}
	f.TTFT, f.TTFTLow, f.TTFTHigh, f.TTFTFloor, f.TTFTBound = float64(e.TTFT.Expected), float64(e.TTFT.Low), float64(e.TTFT.High),
		float64(e.TTFT.Floor), e.Prefill.Bound.String()
	if row.Gen > 1 {
		f.TPOT, f.TPOTLow, f.TPOTHigh, f.TPOTFloor, f.TPOTBound = float64(e.TPOT.Expected), float64(e.TPOT.Low), float64(e.TPOT.High),
			float64(e.TPOT.Floor), e.Decode.Bound.String()
	}
	f.TTLT, f.TTLTLow, f.TTLTHigh, f.Throughput = float64(e.TTLT.Expected), float64(e.TTLT.Low), float64(e.TTLT.High), e.Throughput
	f.ThroughputLow, f.ThroughputHigh, f.PerGPU = f.Throughput*(f.TTLT/f.TTLTHigh), f.Throughput*(f.TTLT/f.TTLTLow),
		f.Throughput/float64(e.GPUs)
	f.FLOPsToken, f.KVToken = float64(e.FLOPsPerToken), float64(e.KVPerToken)
	f.PrefillW, f.DecodeW = float64(e.Energy.Prefill), float64(e.Energy.Decode)
	f.JToken, f.JRequest, f.PerMillion = float64(e.Energy.PerToken), float64(e.Energy.PerRequest), float64(e.Money.PerMillionGenerated)
	f.PerMillionLow, f.PerMillionHigh = f.PerMillion/(f.TTLT/f.TTLTLow), f.PerMillion/(f.TTLT/f.TTLTHigh)
	return f
}

// numbersOf is a few multiples of a number at random.
func numbersOf(random *rand.Rand, of, most int) (all []int) {
	for range 1 + random.IntN(6) {
		all = append(all, of*(1+random.IntN(most/of)))
	}
	return all
}

// A point of a grid has the figures of an estimate of the point alone, whatever was kept of its neighbours.
func TestGridsAreEstimates(t *testing.T) {
	random := rand.New(rand.NewPCG(8, 15))
	for _, x := range []struct {
		model, gpu, engine string
		tp, pp, micro      int
	}{
		{"llama3.1-8b", "a100", "vllm", 1, 1, 1}, {"llama3.1-8b", "h200", "vllm", 1, 1, 1}, {"llama3.1-8b", "h100", "native", 1, 1, 1},
		{"deepseek-v3", "h200", "vllm", 8, 1, 1},
		{"qwen3-30b-a3b", "h200", "sglang", 2, 1, 1}, {"gemma3-27b", "h200", "vllm", 1, 2, 4}, {"gemma2-9b", "h100", "llama.cpp", 1, 1, 1},
		{"nemotron-h-8b", "h200", "tensorrt-llm", 1, 1, 1},
		{"mistral-7b-v0.1", "h100", "native", 1, 1, 1}, {"llama3.1-8b", "h200", "transformers-graph", 1, 1, 1},
	} {
		c, all := calibrated(t, x.model, x.gpu, x.engine, x.tp)
		c.Parallel.PP, c.Parallel.MicroBatches = x.pp, x.micro
		for range 4 {
			g := &sweep.Grid{Workload: [sweep.NumNumbers][]int{numbersOf(random, x.micro, 300), numbersOf(random, 101, 6000), {0, 100}, {0, 512},
				numbersOf(random, 1, 400)}}
			var rows []sweep.Row
			_, err := sweep.Run(t.Context(), g, sweep.Options{Format: sweep.CSV, Keep: true, Workers: 2, See: func(some []sweep.Row) {
				rows = append(rows, some...)
			}, Source: func() (sweep.Source, error) {
				one := *c
				one.Machine = all
				p, err := analytic.NewPredictor(&one)
				return fixed{&sweep.Setup{Case: p}}, err
			}})
			if err != nil {
				t.Fatal(err)
			}
			for range 12 {
				row := rows[random.IntN(len(rows))]
				if want := alone(t, c, all, &row); row.Figures != want {
					t.Fatalf("%+v: a grid has %+v, alone it is %+v", x, row, want)
				}
			}
		}
	}
}
