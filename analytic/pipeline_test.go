package analytic_test

import (
	"testing"

	"llmprof/analytic"
	"llmprof/analytic/breakdown"
	"llmprof/internal/testkit/casetest"
	"llmprof/roofline"
	"llmprof/unit"
)

// inBursts is a case whose GPU no power limit slows.
func inBursts(t *testing.T, c *analytic.Case) *analytic.Case {
	return with(t, c, func(k *roofline.Constants) { k[roofline.GEMMSustained] = k[roofline.GEMMCompute] })
}

// stages are the times of the stages of a pipeline whose layers are all alike, by the
// operators of one micro-batch: the embedding in the first, the head in the last, so
// many layers in each. What passes between the stages is spread as the layers are.
func stages(lines []breakdown.Operator, layers []float64, time func(*breakdown.Operator) unit.Seconds) []unit.Seconds {
	all := make([]unit.Seconds, len(layers))
	sum := 0.0
	for _, n := range layers {
		sum += n
	}
	began := false
	for i := range lines {
		l := &lines[i]
		switch {
		case l.Name == "host":
		case l.Layer != "" || l.Name == "pipeline_send":
			began = true
			for s, n := range layers {
				all[s] += time(l).Times(n / sum)
			}
		case began:
			all[len(all)-1] += time(l)
		default:
			all[0] += time(l)
		}
	}
	return all
}

// A prefill of m micro-batches takes what the first takes through all stages and m-1
// turns of the longest stage; a decode step what one takes through all, or m turns of the
// longest, whichever is more. The layers go to the stages that have neither embedding nor
// head first.
func TestPipelineTurns(t *testing.T) {
	for _, x := range []struct {
		model  string
		layers []float64
	}{{"llama3.1-8b", []float64{8, 8, 8, 8}}, {"llama3.1-8b", []float64{11, 11, 10}}, {"qwen2.5-7b", []float64{5, 6, 6, 6, 5}},
		{"llama3.1-8b", []float64{16, 16}}} {
		one := inBursts(t, testCase(t, x.model, "h100", 2, 1)) // a micro-batch of those below
		one.Parallel.PP = len(x.layers)
		single := explain(t, one)
		host := unit.Seconds(one.Machine.Cal.Constants[roofline.HostStep])
		for _, m := range []int{1, 2, 4, 8} {
			c := *one
			c.Workload.Batch, c.Parallel.MicroBatches = 2*m, m
			r := explain(t, &c)
			expected := func(l *breakdown.Operator) unit.Seconds { return l.Expected }
			longest := func(lines []breakdown.Operator) (t unit.Seconds) {
				for _, s := range stages(lines, x.layers, expected) {
					t = max(t, s)
				}
				return t
			}
			near(t, x.model+" prefill", r.TTFT.Expected, single.TTFT.Expected+longest(single.PrefillOps).Times(float64(m-1)), 1e-9)
			near(t, x.model+" decode", r.TPOT.Expected, max(single.TPOT.Expected, longest(single.DecodeOps).Times(float64(m))), 1e-6)
			if r.TPOT.Expected < host.Times(float64(m)) {
				t.Errorf("%s: %d steps of the host take more than %v", x.model, m, r.TPOT.Expected)
			}
		}
	}
}

// The floor of a decode step of several micro-batches is no less than what its last stage
// has to read for each of them: Gemma 3 27B has 5376 × 262208 values in its head.
func TestPipelineFloorHasTheHead(t *testing.T) {
	c := testCase(t, "gemma3-27b", "h100", 8, 1)
	c.Parallel.PP, c.Parallel.MicroBatches = 4, 8
	r := explain(t, c)
	layers := 0.0
	for i := range r.DecodeOps {
		if l := &r.DecodeOps[i]; l.Layer != "" {
			layers += float64(l.Weights) / 8 // of all micro-batches
		}
	}
	const head = 2 * 5376 * 262208.0
	want := 8 * (layers*15/62 + head) / float64(c.Machine.GPU.Bandwidth)
	if got := float64(r.TPOT.Floor); got < want || float64(r.TPOT.Low) < want {
		t.Errorf("floor %v and low end %v, but the last of 4 stages reads for %v s", got, r.TPOT.Low, want)
	}
}

// Where the host takes longer for a step than any stage, micro-batches wait for it one
// after the other.
func TestPipelineWaitsForHost(t *testing.T) {
	c := testCase(t, "llama3.2-1b", "h100", 16, 1)
	c.Machine = casetest.Machine(t, "h100", "vllm-2024")
	c.Parallel.PP, c.Parallel.MicroBatches = 4, 16
	e := predict(t, c)
	near(t, "TPOT", e.TPOT.Expected, unit.Seconds(16*c.Machine.Cal.Constants[roofline.HostStep]), 1e-9)
	if e.Decode.Bound != roofline.ByLaunch {
		t.Errorf("decoding is %v-bound", e.Decode.Bound)
	}
}
