package native

import (
	"cmp"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"llmprof/analytic/operator"
	"llmprof/internal/testkit"
	"llmprof/measure/native/internal/emulate"
	"llmprof/unit"
)

// run returns the tokens of a request.
func run(t *testing.T, e *Engine) [][]int32 {
	t.Helper()
	first, err := e.Prefill()
	testkit.Must(t, err)
	all := [][]int32{first}
	for range e.opt.GenLen - 1 {
		next, err := e.Step()
		testkit.Must(t, err)
		all = append(all, next)
	}
	return all
}

// median returns the median of some times.
func median(ts []unit.Seconds) float64 {
	s := slices.Clone(ts)
	slices.SortFunc(s, cmp.Compare[unit.Seconds])
	return float64(s[len(s)/2])
}

// TestGPUReplay times the operators of small models, with poisoned buffers, and checks that the
// tokens afterwards are those from before.
func TestGPUReplay(t *testing.T) {
	gpu(t)
	for name, config := range tiny() {
		for _, opt := range []Options{
			{Seed: 7, Workload: operator.Workload{Batch: 1, PromptLen: 130, GenLen: 20}},
			{Seed: 7, Workload: operator.Workload{Batch: 33, PromptLen: 20, GenLen: 6}},
			{Seed: 7, Workload: operator.Workload{Batch: 2, PromptLen: 9000, GenLen: 4}},
			{Seed: 7, Workload: operator.Workload{Batch: 2, PromptLen: 30, GenLen: 8}, GEMM: CublasGEMM, Eager: true},
		} {
			e := open(t, config, opt)
			testkit.Must(t, e.SetPrompts(randomPrompts(3, opt.Batch, opt.PromptLen, e.shape.vocab)))
			testkit.Must(t, poison(e))
			before := run(t, e)
			for _, phase := range []string{"decode", "prefill"} {
				r, err := e.ReplayPrefill()
				if phase == "decode" {
					r, err = e.ReplayStep(before[0])
				}
				testkit.Must(t, err)
				for range 2 {
					testkit.Must(t, r.Round())
				}
				for _, o := range r.All() {
					if !(median(o.Times) > 0) {
						t.Errorf("%s, batch %d: %s took %v", name, opt.Batch, o.Name, o.Times)
					}
				}
				testkit.Must(t, r.Close())
			}
			if diff := gocmp.Diff(before, run(t, e)); diff != "" {
				t.Errorf("%s, batch %d: tokens before and after (-before +after):\n%s", name, opt.Batch, diff)
			}
		}
	}
}

// TestGPUReplayCloses checks for llama3.1-8b at batch 1 that the times of the operators add up to
// that of the step within 10 %, because each operator of a step begins while the previous one ends.
// It needs 17 GB.
func TestGPUReplayCloses(t *testing.T) {
	gpu(t)
	e := open(t, llama8B, Options{Seed: 1, Workload: operator.Workload{Batch: 1, PromptLen: 1024, GenLen: 32}})
	testkit.Must(t, e.SetPrompts(randomPrompts(1, 1, 1024, e.shape.vocab)))
	first, err := e.Prefill()
	testkit.Must(t, err)
	r, err := e.ReplayStep(first)
	testkit.Must(t, err)
	for range 20 {
		testkit.Must(t, r.Round())
	}
	sum, whole := 0.0, median(r.Whole.Times)
	for _, o := range r.Operators {
		m := median(o.Times)
		t.Logf("%-40s %8.4f ms", strings.Join(append([]string{o.Name}, o.Includes...), " + "), m*1e3)
		sum += m
	}
	t.Logf("sum %.4f ms, step %.4f ms: %+.1f %%", sum*1e3, whole*1e3, 100*(sum/whole-1))
	if sum < 0.9*whole || sum > 1.1*whole {
		t.Errorf("the operators sum to %v s, the step takes %v s: want them within 10 %%", sum, whole)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}

// TestGPUTracer checks that a traced request gives the tokens of one in a graph, and that its spans
// cover the steps.
func TestGPUTracer(t *testing.T) {
	emulate.Long(t)
	emulate.Device(t)
	t.Parallel()
	for name, config := range tiny() {
		if emulate.RealGPU() != nil && !slices.Contains([]string{"llama", "gemma2", "qwen3_moe"}, name) || emulate.Brief() && name != "llama" {
			continue // the processor takes its time
		}
		e := open(t, config, Options{Seed: 7, Workload: operator.Workload{Batch: 3, PromptLen: 63, GenLen: 6}})
		testkit.Must(t, e.SetPrompts(randomPrompts(3, 3, 63, e.shape.vocab)))
		want := run(t, e)
		ns := int64(0)
		tracer, err := e.NewTracer(func() int64 { ns++; return ns })
		testkit.Must(t, err)
		var got [][]int32
		for i := range want {
			trace := tracer.Step
			if i == 0 {
				trace = tracer.Prefill
			}
			step, err := trace()
			testkit.Must(t, err)
			got = append(got, slices.Clone(e.next.Data))
			for _, s := range step.Spans {
				if s.End < s.Begin {
					t.Errorf("%s: %+v ends before it begins", name, s)
				}
			}
		}
		if diff := gocmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-graph +traced):\n%s", name, diff)
		}
		if err := tracer.Close(); err != nil {
			t.Error(err)
		}
	}
}
