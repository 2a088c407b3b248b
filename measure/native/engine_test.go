package native

import (
	"fmt"
	"slices"
	"testing"

	"llmprof/analytic/operator"
	"llmprof/internal/testkit"
	"llmprof/measure/native/cuda"
	"llmprof/measure/native/internal/emulate"
)

// TestAgainstReference runs prefill and decode of each family and compares the
// scores of every step with those of the plain reference, which is given the
// tokens that the engine chose.
func TestAgainstReference(t *testing.T) {
	emulate.Device(t)
	type variant struct {
		batch, prompt, gen int
		gemm               GEMM
	}
	all := []variant{
		{1, 1, 24, EngineGEMM}, {1, 130, 8, EngineGEMM}, {3, 63, 6, EngineGEMM}, {8, 64, 4, EngineGEMM}, {16, 65, 4, EngineGEMM},
		{17, 5, 4, EngineGEMM}, {32, 9, 4, EngineGEMM}, {33, 4, 4, EngineGEMM}, {2, 20, 4, CublasGEMM},
	}
	if slow() { // the processor takes its time
		all = []variant{
			{1, 1, 4, EngineGEMM}, {1, 130, 2, EngineGEMM}, {3, 63, 2, EngineGEMM}, {9, 12, 2, EngineGEMM}, {17, 5, 2, EngineGEMM},
			{33, 4, 2, EngineGEMM}, {2, 20, 2, CublasGEMM},
		}
	}
	for name, config := range tiny() {
		for i, c := range all {
			if name != "llama" && i%2 == 0 && slow() {
				continue // An emulated GPU is slow: one prompt, a few, and more than the skinny GEMMs take are enough.
			}
			t.Run(fmt.Sprintf("%s/%dx%d/%d", name, c.batch, c.prompt, c.gemm), func(t *testing.T) {
				t.Parallel()
				if !slices.Contains([]string{"llama/1", "llama/9", "llama/33", "qwen3_moe/9"}, fmt.Sprintf("%s/%d", name, c.batch)) || c.prompt == 1 {
					emulate.Long(t) // skinny, wider and wgmma GEMMs, and experts, are enough
				}
				if c.batch == 33 && slow() {
					testkit.Long(t, "wgmma GEMMs of whole steps; TestWgmmaAgainstReference runs one")
				}
				e := open(t, config, Options{Seed: 7, Workload: operator.Workload{Batch: c.batch, PromptLen: c.prompt, GenLen: c.gen}, GEMM: c.gemm})
				compare(t, e, newReference(t, config, 7), c.gen)
			})
		}
	}
}

// Kernels compiled for compute-sanitizer's racecheck compute the same results.
func TestSanitizedAgainstReference(t *testing.T) {
	emulate.Device(t)
	for name, batches := range map[string][]int{"llama": {9}, "qwen3_moe": {1, 3}} {
		for _, batch := range batches {
			t.Run(fmt.Sprintf("%s/%d", name, batch), func(t *testing.T) {
				t.Parallel()
				emulate.Long(t)
				opt := Options{Seed: 7, Workload: operator.Workload{Batch: batch, PromptLen: 12, GenLen: 2}, defines: []string{cuda.Sanitizer}}
				compare(t, open(t, tiny()[name], opt), newReference(t, tiny()[name], 7), opt.GenLen)
			})
		}
	}
}

// Split-K GEMMs compute the same results. No tiny model has them by default.
func TestCutsAgainstReference(t *testing.T) {
	emulate.Device(t)
	rings := skinnyGEMMs()
	for i := range rings {
		rings[i].depth, rings[i].minStages = 256, 1
	}
	batches, gen := []int{1, 5, 16}, 4
	if slow() { // the processor takes its time
		batches, gen = []int{5, 16}, 2
	}
	for name, config := range tiny() {
		if !slices.Contains([]string{"llama", "gemma2", "mixtral"}, name) && slow() {
			continue // these have every kernel that is cut
		}
		for _, batch := range batches {
			t.Run(fmt.Sprintf("%s/%d", name, batch), func(t *testing.T) {
				t.Parallel()
				emulate.Long(t)
				e := open(t, config, Options{Seed: 7, Workload: operator.Workload{Batch: batch, PromptLen: 9, GenLen: gen}, skinny: rings, sms: 132})
				if gemm := e.stepGEMM(); gemm.splitKFor(e.shape.hidden, max(e.shape.inner, e.shape.attWidth()), residualEpilogue,
					e.opt.sms).parts < 2 && e.shape.experts == 0 {
					t.Fatal("no product is cut")
				}
				compare(t, e, newReference(t, config, 7), gen)
			})
		}
	}
}

// compare runs all steps and checks the first, the last and one more sequence.
func compare(t *testing.T, e *Engine, r *reference, gen int) {
	t.Helper()
	compareRun(t, e, e.opt, r, gen, func() error { return poison(e) })
}

// A runner is an engine, or a team of them.
type runner interface {
	SetPrompts([][]int) error
	Prefill() ([]int32, error)
	Step() ([]int32, error)
	Logits() ([][]float32, error)
}

// compareRun compares the scores of e with those of r.
func compareRun(t *testing.T, e runner, opt Options, r *reference, gen int, poison func() error) {
	t.Helper()
	prompts := randomPrompts(3, opt.Batch, opt.PromptLen, r.s.vocab)
	testkit.Must(t, e.SetPrompts(prompts))
	testkit.Must(t, poison())
	chosen := make([][]int32, gen)
	logits := make([][][]float32, gen)
	for i := range gen {
		var err error
		if i == 0 {
			chosen[i], err = e.Prefill()
		} else {
			chosen[i], err = e.Step()
		}
		testkit.Must(t, err)
		if logits[i], err = e.Logits(); err != nil {
			t.Fatal(err)
		}
	}
	for _, seq := range slices.Compact([]int{0, opt.Batch / 2, opt.Batch - 1}) {
		r.reset()
		want := r.after(prompts[seq])
		for i := range gen {
			limit := r.limit()
			if d := relativeError(logits[i][seq], want); d > limit {
				t.Fatalf("sequence %d, step %d: scores are %.2e from the reference, want %.2e", seq, i, d, limit)
			}
			if limit < afterTie && !sameChoice(want, chosen[i][seq], limit) {
				t.Fatalf("sequence %d, step %d: token %d is not the best", seq, i, chosen[i][seq])
			}
			want = r.next(int(chosen[i][seq]))
		}
	}
}

// poison fills with NaN all buffers that the engine writes before it reads them.
func poison(e *Engine) error {
	skip := map[*cuda.Ptr]bool{
		&e.b.tokens: true, &e.b.arrived: true, &e.b.splitArrived: true, &e.b.routed: true, &e.b.stepEpochs: true, &e.b.layerTable: true,
		&e.b.sampled: true, &e.b.best: true, &e.b.frequencies: true, &e.b.localFrequencies: true,
	}
	for _, p := range []*cuda.Ptr{&e.b.flags, &e.b.counts, &e.b.epochs, &e.b.packetsOf, &e.b.bestEpochs, &e.b.exchanges[0], &e.b.exchanges[1],
		&e.b.bestsOf, &e.b.flagsOf, &e.b.embeddings} {
		skip[p] = true
	}
	for _, r := range e.b.want {
		if skip[r.p] {
			continue
		}
		if err := e.dev.Fill(*r.p, 0xff, r.bytes); err != nil {
			return err
		}
	}
	return e.dev.Sync()
}

// TestSameAgain runs a request twice: sums are in a fixed order, so tokens and
// scores are equal to the bit.
func TestSameAgain(t *testing.T) {
	emulate.Device(t)
	emulate.Long(t)
	gen, runs := 40, 3
	if emulate.RealGPU() != nil {
		gen, runs = 4, 2
	}
	e := open(t, tinyLlama, Options{Seed: 1, Workload: operator.Workload{Batch: 5, PromptLen: 70, GenLen: gen}})
	testkit.Must(t, e.SetPrompts(randomPrompts(9, 5, 70, e.shape.vocab)))
	var before []string
	for range runs {
		var now []string
		first, err := e.Prefill()
		testkit.Must(t, err)
		for range gen - 1 {
			tok, err := e.Step()
			testkit.Must(t, err)
			l, err := e.Logits()
			testkit.Must(t, err)
			now = append(now, fmt.Sprint(first, tok, l[4][:50]))
		}
		for i := range before {
			if now[i] != before[i] {
				t.Fatalf("step %d differs between two runs:\n%s\n%s", i, before[i], now[i])
			}
		}
		before = now
	}
}
