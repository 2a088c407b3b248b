package native

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"llmprof"
	"llmprof/analytic"
	"llmprof/analytic/breakdown"
	"llmprof/analytic/engine"
	"llmprof/analytic/operator"
	"llmprof/hardware"
	"llmprof/internal/testkit"
	"llmprof/measure/native/cuda"
	"llmprof/models"
)

// standIn opens an engine on a GPU that computes nothing.
func standIn(t testing.TB, config string, opt Options) (*Engine, *cuda.StandIn) {
	t.Helper()
	s := cuda.NewStandIn()
	e := ready(t, modelOf(t, config, opt), func(o Options) (*Engine, error) { return OnStandIn(o, s) })
	testkit.Must(t, e.SetPrompts(randomPrompts(1, opt.Batch, opt.PromptLen, e.shape.vocab)))
	s.Queued = nil
	return e, s
}

// queued returns the launches that work queues.
func queued(t testing.TB, s *cuda.StandIn, work func() error) []string {
	t.Helper()
	s.Queued = nil
	testkit.Must(t, work())
	return slices.Clone(s.Queued)
}

// kernel returns the kernel's name of a recorded line; a GEMM and a fill have names too.
func kernel(line string) string {
	f := strings.Fields(line)
	if f[0] == "kernel" {
		return f[1]
	}
	return f[0]
}

func kernelsOf(lines []string) (names []string) {
	for _, l := range lines {
		names = append(names, kernel(l))
	}
	return names
}

// windowed is a Mistral whose layers have a window of so many tokens.
const windowed = `{"model_type":"mistral","hidden_size":512,"intermediate_size":1024,"num_hidden_layers":2,"num_attention_heads":4,
	"num_key_value_heads":1,"head_dim":128,"vocab_size":776,"max_position_embeddings":4096,"hidden_act":"silu",
	"rms_norm_eps":1e-5,"rope_theta":10000.0,"tie_word_embeddings":false,"sliding_window":4096}`

// partlyWindowedQwen2 is a Qwen2 of which one layer has a window and one has none.
const partlyWindowedQwen2 = `{"model_type":"qwen2","hidden_size":448,"intermediate_size":1216,"num_hidden_layers":2,"num_attention_heads":7,
	"num_key_value_heads":1,"vocab_size":1001,"max_position_embeddings":4096,"hidden_act":"silu","rms_norm_eps":1e-6,
	"rope_theta":1000000.0,"tie_word_embeddings":true,"use_sliding_window":true,"sliding_window":2048,"max_window_layers":1}`

// The operators of a step are those of the estimate. Each is named once, either alone or as an
// operator that another operator's kernel does too.
func TestOperatorsAreTheEstimates(t *testing.T) {
	configs := tiny()
	configs["windowed"], configs["partly windowed"] = windowed, partlyWindowedQwen2
	for name, config := range shareable() {
		configs["shared "+name] = config
	}
	for name, config := range configs {
		for _, opt := range []Options{
			{Workload: operator.Workload{Batch: 1, PromptLen: 30, GenLen: 8}}, {Workload: operator.Workload{Batch: 33, PromptLen: 1000, GenLen: 8}},
			{Workload: operator.Workload{Batch: 2, PromptLen: 8, GenLen: 2}, GEMM: CublasGEMM},
			{Workload: operator.Workload{Batch: 1, PromptLen: 30, GenLen: 8}, TP: 2},
			{Workload: operator.Workload{Batch: 33, PromptLen: 1000, GenLen: 8}, TP: 2},
			{Workload: operator.Workload{Batch: 1, PromptLen: 30, GenLen: 8}, FP16: true},
			{Workload: operator.Workload{Batch: 8, PromptLen: 30, GenLen: 8}, Quantization: FP8},
			{Workload: operator.Workload{Batch: 33, PromptLen: 30, GenLen: 8}, Quantization: FP8},
		} {
			if opt.TP > 1 && !divides(t, config, opt.TP) {
				continue
			}
			e, _ := standIn(t, config, opt)
			prefill, decode := estimated(t, e)
			kinds := len(e.attentionNames())
			for what, c := range map[string]struct {
				s    sequence
				want map[string]int
			}{"prefill": {e.prefill, prefill}, "decode": {e.decode, decode}} {
				got := map[string]int{}
				for _, o := range c.s.operators() {
					layers := c.s.of(o.name).layers()
					for _, n := range append([]string{o.name}, o.includes...) {
						if _, twice := got[n]; twice {
							t.Errorf("%s, batch %d: %s: %s stands twice", name, opt.Batch, what, n)
						}
						got[n] = layers
						if strings.HasSuffix(n, "_attention") && kinds > 1 || n == "norm" {
							got[n] = c.want[n] // done with others, of which there are more or fewer
						}
					}
				}
				if kinds > 1 {
					got["attention"] = c.want["attention"]
				}
				if diff := cmp.Diff(c.want, got); diff != "" {
					t.Errorf("%s, batch %d: %s: layers of each operator (-estimate +engine):\n%s", name, opt.Batch, what, diff)
				}
			}
		}
	}
}

// The engine fuses the operators that its profile (analytic/engine) says it fuses, at the
// batches around the limits too, and launches a kernel for each of the others.
func TestProfileIsTheEngine(t *testing.T) {
	configs := maps.Clone(tiny())
	for name, config := range shareable() {
		configs["shared "+name] = config
	}
	for name, config := range configs {
		for _, opt := range []Options{
			{Workload: operator.Workload{Batch: 1}}, {Workload: operator.Workload{Batch: 16}}, {Workload: operator.Workload{Batch: 17}},
			{Workload: operator.Workload{Batch: 64}}, {Workload: operator.Workload{Batch: 65}}, {Workload: operator.Workload{Batch: 16}, TP: 2},
			{Workload: operator.Workload{Batch: 17}, TP: 2}, {Workload: operator.Workload{Batch: 64}, TP: 4},
			{Workload: operator.Workload{Batch: 65}, TP: 2},
			{Workload: operator.Workload{Batch: 16}, Quantization: FP8}, {Workload: operator.Workload{Batch: 17}, Quantization: FP8},
			{Workload: operator.Workload{Batch: 32}, Quantization: FP8}, {Workload: operator.Workload{Batch: 33}, Quantization: FP8},
		} {
			opt.PromptLen, opt.GenLen = 30, 8
			if opt.TP > 1 && !divides(t, config, opt.TP) {
				continue
			}
			e, _ := standIn(t, config, opt)
			r := estimate(t, &e.opt)
			for what, c := range map[string]struct {
				s     sequence
				lines []breakdown.Operator
			}{"prefill": {e.prefill, r.PrefillOps}, "decode": {e.decode, r.DecodeOps}} {
				want := map[string]string{}
				for i := range c.lines {
					if l := &c.lines[i]; l.In != "" {
						want[l.Name] = l.In
					}
				}
				for k, v := range want { // kinds of attention are one kernel, under the name of the first
					if slices.Contains(e.attentionNames(), v) {
						want[k] = e.attentionNames()[0]
					}
				}
				if diff := cmp.Diff(want, e.fusedOperators(c.s)); diff != "" {
					t.Errorf("%s, %+v: %s: what is done in which kernel (-profile +engine):\n%s", name, opt, what, diff)
				}
			}
		}
	}
}

// fusedOperators returns the operators of a sequence that another operator's kernel does. The
// estimate has all-reduces as separate operators.
func (e *Engine) fusedOperators(s sequence) map[string]string {
	got := map[string]string{}
	for _, o := range s.operators() {
		for _, n := range o.includes {
			switch {
			case slices.Contains(o.includes, "all_reduce"): // a block's product with its sum over the ranks; one name for both blocks' products
			case n == "embedding_all_reduce" || n == "logits_all_gather" ||
				slices.Contains(e.attentionNames(), n) && slices.Contains(e.attentionNames(), o.name):
			default:
				got[n] = o.name
			}
		}
	}
	return got
}

// divides reports whether so many GPUs can share a model.
func divides(t *testing.T, config string, ranks int) bool {
	t.Helper()
	_, s := shapeOf(t, config)
	return s.indivisible(ranks) == ""
}

// estimate estimates what an engine runs.
func estimate(t *testing.T, o *Options) breakdown.Report {
	t.Helper()
	g, err := hardware.Find(llmprof.HardwareTOML, "h200")
	testkit.Must(t, err)
	profile, err := engine.Parse("native")
	testkit.Must(t, err)
	cal, err := analytic.Constants(&g, profile, nil)
	testkit.Must(t, err)
	machine, err := analytic.NewMachine(&g, cal, profile)
	testkit.Must(t, err)
	scheme := models.StoredScheme(o.Model)
	if name := formats(o); name != "" {
		if scheme, err = models.ParseScheme(name); err != nil {
			t.Fatal(err)
		}
	}
	r, err := breakdown.Explain(&analytic.Case{
		Model: o.Model, Machine: machine, Scheme: scheme.For(&g),
		Workload: analytic.Workload{Batch: o.Batch, PromptLen: o.PromptLen, GenLen: o.GenLen},
		Parallel: analytic.Parallelism{TP: o.ranks()},
	})
	testkit.Must(t, err)
	return r
}

// formats returns the estimate's name of the options' formats, "" for the model's format.
func formats(o *Options) string {
	switch {
	case o.Quantization == FP8:
		return "w8a16-fp8"
	case o.Quantization == INT4:
		return "w4a16-g128"
	case o.FP16:
		return "fp16"
	}
	return ""
}

// theory returns the estimated memory of one GPU.
func theory(t *testing.T, o *Options) *analytic.Memory {
	t.Helper()
	r := estimate(t, o)
	return &r.Memory
}

// estimated returns the layers of each operator of the estimate.
func estimated(t *testing.T, e *Engine) (prefill, decode map[string]int) {
	t.Helper()
	r := estimate(t, &e.opt)
	layers := func(lines []breakdown.Operator) map[string]int {
		out := map[string]int{}
		for i := range lines {
			if lines[i].Name != "host" {
				out[lines[i].Name] += int(lines[i].Layers)
			}
		}
		return out
	}
	return layers(r.PrefillOps), layers(r.DecodeOps)
}

// The test lists the kernels of a step in the order that was measured on a GPU.
func TestLaunchOrder(t *testing.T) {
	repeat := func(n int, names ...string) (all []string) {
		for range n {
			all = append(all, names...)
		}
		return all
	}
	join := func(parts ...[]string) []string { return slices.Concat(parts...) }
	prefillLayer := []string{"rms_norm", "gemm", "rotary", "attention_prefill_hopper", "gemm", "rms_norm", "gemm", "activation", "gemm"}
	e, s := standIn(t, tinyLlama, Options{Workload: operator.Workload{Batch: 1, PromptLen: 30, GenLen: 8}})
	group := join([]string{"embedding"}, repeat(2, prefillLayer...), []string{"rms_norm"})
	tail := []string{"gemm", "fill", "sampling"}
	if diff := cmp.Diff(join(group, tail), kernelsOf(queued(t, s, e.queuePrefill))); diff != "" {
		t.Errorf("prefill (-want +got):\n%s", diff)
	}
	layer := []string{"skinny_norm_1", "attention_decode", "skinny_residual_1", "skinny_swiglu_1", "skinny_residual_1"}
	want := join([]string{"embedding"}, repeat(2, layer...), []string{"skinny_norm_1", "sampling"})
	if diff := cmp.Diff(want, kernelsOf(queued(t, s, e.queueStep))); diff != "" {
		t.Errorf("decode (-want +got):\n%s", diff)
	}
	e, s = standIn(t, tinyLlama, Options{Workload: operator.Workload{Batch: 3, PromptLen: 30, GenLen: 8}, Quantization: FP8})
	layer = []string{"quantized_norm_8", "attention_decode", "quantized_residual_8", "quantized_swiglu_8", "quantized_residual_8"}
	want = join([]string{"embedding"}, repeat(2, layer...), []string{"skinny_norm_8", "sampling"})
	if diff := cmp.Diff(want, kernelsOf(queued(t, s, e.queueStep))); diff != "" {
		t.Errorf("decode with fp8 weights (-want +got):\n%s", diff)
	}
	layer = []string{"rms_norm", "dequantize", "gemm", "rotary", "attention_prefill_hopper", "dequantize", "gemm", "rms_norm", "dequantize",
		"gemm", "activation", "dequantize", "gemm"}
	want = join([]string{"embedding"}, repeat(2, layer...), []string{"rms_norm"}, tail)
	if diff := cmp.Diff(want, kernelsOf(queued(t, s, e.queuePrefill))); diff != "" {
		t.Errorf("prefill with fp8 weights (-want +got):\n%s", diff)
	}
	e, s = standIn(t, tinyLlama, Options{Workload: operator.Workload{Batch: 33, PromptLen: 30, GenLen: 8}})
	layer = []string{"wgmma_norm_64", "attention_decode", "wgmma_residual_64", "wgmma_swiglu_64", "wgmma_residual_64"}
	want = join([]string{"embedding"}, repeat(2, layer...), []string{"wgmma_head_64", "sampling"})
	if diff := cmp.Diff(want, kernelsOf(queued(t, s, e.queueStep))); diff != "" {
		t.Errorf("decode by wgmma GEMMs (-want +got):\n%s", diff)
	}
	e, s = standIn(t, shareable()["llama"], Options{Workload: operator.Workload{Batch: 17, PromptLen: 30, GenLen: 8}, TP: 2})
	layer = []string{"wgmma_norm_32", "attention_decode", "wgmma_all_reduce_32", "wgmma_swiglu_32", "wgmma_all_reduce_32"}
	want = join([]string{"embedding_shared"}, repeat(2, layer...), []string{"wgmma_head_32", "sampling_shared"})
	if diff := cmp.Diff(want, kernelsOf(queued(t, s, e.queueStep))); diff != "" {
		t.Errorf("decode of a rank by wgmma GEMMs (-want +got):\n%s", diff)
	}
	e, s = standIn(t, tinyLlama, Options{Workload: operator.Workload{Batch: 65, PromptLen: 500, GenLen: 8}})
	if diff := cmp.Diff(join(repeat(3, group...), tail), kernelsOf(queued(t, s, e.queuePrefill))); diff != "" {
		t.Errorf("prefill of three groups (-want +got):\n%s", diff)
	}
	layer = []string{"rms_norm", "gemm", "attention_decode", "gemm", "rms_norm", "gemm", "activation", "gemm"}
	want = join([]string{"embedding"}, repeat(2, layer...), []string{"rms_norm", "gemm", "sampling"})
	if diff := cmp.Diff(want, kernelsOf(queued(t, s, e.queueStep))); diff != "" {
		t.Errorf("decode by cuBLASLt (-want +got):\n%s", diff)
	}
}

// All kernels of a step but the first start early (PDL) if the engine does the GEMMs. What they
// read before they wait (weights, the cache, positions) was written by the previous step.
func TestStepsStartLate(t *testing.T) {
	configs := maps.Clone(tiny())
	configs["windowed"], configs["partly windowed"] = windowed, partlyWindowedQwen2
	for name, config := range configs {
		for _, opt := range []Options{{Workload: operator.Workload{Batch: 1, PromptLen: 30, GenLen: 8}},
			{Workload: operator.Workload{Batch: 16, PromptLen: 30, GenLen: 8}},
			{Workload: operator.Workload{Batch: 1, PromptLen: 30, GenLen: 8}, TP: 2},
			{Workload: operator.Workload{Batch: 33, PromptLen: 30, GenLen: 8}},
			{Workload: operator.Workload{Batch: 33, PromptLen: 30, GenLen: 8}, TP: 2}} {
			if opt.TP > 1 && !divides(t, config, opt.TP) {
				continue
			}
			e, s := standIn(t, config, opt)
			for i, line := range queued(t, s, e.decode.queue) {
				if early := strings.Contains(line, " early "); early != (i > 0) && (i == 0 || opt.Batch <= 16) {
					t.Errorf("%s, batch %d, TP %d: kernel %d starts early: %v: %s", name, opt.Batch, opt.ranks(), i, early, line)
				}
			}
		}
	}
}

// The graphs of the operators have the launches of the step, to the last argument, and no others.
// Those of a megakernel's step have the launches of the separate kernels.
func TestReplaysMakeUpTheStep(t *testing.T) {
	for name, config := range tiny() {
		for _, opt := range []Options{
			{Workload: operator.Workload{Batch: 1, PromptLen: 30, GenLen: 9}},
			{Workload: operator.Workload{Batch: 40, PromptLen: 900, GenLen: 4}, Eager: true},
			{Workload: operator.Workload{Batch: 2, PromptLen: 8, GenLen: 2}, GEMM: CublasGEMM},
			{Workload: operator.Workload{Batch: 5, PromptLen: 30, GenLen: 9}, Quantization: FP8},
			{Workload: operator.Workload{Batch: 40, PromptLen: 8, GenLen: 4}, Quantization: FP8},
		} {
			e, s := standIn(t, config, opt)
			first, err := e.Prefill()
			testkit.Must(t, err)
			step, err := e.ReplayStep(first)
			testkit.Must(t, err)
			if want := opt.PromptLen + (opt.GenLen-2)/2; step.Context != want {
				t.Errorf("the step is at context %d, want %d", step.Context, want)
			}
			whole, parts := queued(t, s, e.decode.queue), queued(t, s,
				func() error { return errors.Join(e.decode[:1].queue(), e.decode[1:].queue()) })
			if one := []string{"mixture_step"}; e.decode.one() && !slices.Equal(kernelsOf(whole), one) {
				t.Errorf("%s: a step in one kernel queues %v", name, kernelsOf(whole))
			} else if !e.decode.one() && len(whole) != len(parts) {
				t.Errorf("%s: %d kernels are queued at once, %d in parts", name, len(whole), len(parts))
			}
			if want := e.usesMegakernel() && e.shape.vocab%8 == 0; e.decode.one() != want {
				t.Errorf("%s: a step is one kernel: %v", name, !want)
			}
			compareReplay(t, name, s, step, whole, parts)
			prefill, err := e.ReplayPrefill()
			testkit.Must(t, err)
			whole = queued(t, s, e.queuePrefill)
			compareReplay(t, name, s, prefill, whole, whole)
		}
	}
}

// compareReplay compares a replay with the launches of its step, as it runs and in parts.
func compareReplay(t *testing.T, name string, s *cuda.StandIn, r *Replay, whole, separate []string) {
	t.Helper()
	var parts []string
	for _, o := range r.Operators {
		gemm := queued(t, s, o.run)
		if o.Kernels != len(gemm) {
			t.Errorf("%s: %s: %d kernels, its graph has %d", name, o.Name, o.Kernels, len(gemm))
		}
		parts = append(parts, gemm...)
	}
	if r.Whole.Kernels != len(whole) {
		t.Errorf("%s: the whole has %d kernels, %d are queued", name, r.Whole.Kernels, len(whole))
	}
	if diff := cmp.Diff(slices.Sorted(slices.Values(separate)), slices.Sorted(slices.Values(parts))); diff != "" {
		t.Errorf("%s: -step +operators:\n%s", name, diff)
	}
	const rounds = 3
	for range rounds {
		testkit.Must(t, r.Round())
	}
	var sum float64
	for _, o := range r.Operators {
		if len(o.Times) != rounds {
			t.Fatalf("%s: %d times of %s, want %d", name, len(o.Times), o.Name, rounds)
		}
		sum += float64(o.Times[rounds-1])
	}
	// Each kernel takes a microsecond on a stand-in, so the times of the parts add up to the whole.
	if want := float64(r.Whole.Times[0]) * float64(len(separate)) / float64(len(whole)); sum < 0.999*want || sum > 1.001*want {
		t.Errorf("%s: the operators take %v s, want %v s", name, sum, want)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}

// A replay does not change the prompt in the cache: the next Rewind and Step queue what they queued
// before, and a Step without Rewind is refused.
func TestStepAfterReplay(t *testing.T) {
	e, s := standIn(t, tinyLlama, Options{Workload: operator.Workload{Batch: 2, PromptLen: 30, GenLen: 9}})
	first, err := e.Prefill()
	testkit.Must(t, err)
	step := func() error {
		if err := e.Rewind(first); err != nil {
			return err
		}
		_, err := e.Step()
		return err
	}
	before := queued(t, s, step)
	r, err := e.ReplayStep(first)
	testkit.Must(t, err)
	testkit.Must(t, r.Round())
	testkit.Must(t, r.Close())
	if _, err := e.Step(); err == nil || !strings.Contains(err.Error(), "is full, or no prompt") {
		t.Errorf("a step without a Rewind: %v", err)
	}
	if diff := cmp.Diff(before, queued(t, s, step)); diff != "" {
		t.Errorf("-before +after:\n%s", diff)
	}
	if _, err := e.ReplayStep(first[:1]); err == nil {
		t.Error("one token was taken for a batch of two")
	}
}

// A traced step queues the launches of the step, and its spans cover it without gaps.
func TestTracer(t *testing.T) {
	e, s := standIn(t, tinyQwen3, Options{Workload: operator.Workload{Batch: 2, PromptLen: 30, GenLen: 9}, Eager: true})
	ns := int64(0)
	tracer, err := e.NewTracer(func() int64 { ns += 1e6; return ns })
	testkit.Must(t, err)
	defer tracer.Close()
	for _, c := range []struct {
		trace func() (*TracedStep, error)
		seq   sequence
	}{{tracer.Prefill, e.prefill}, {tracer.Step, e.decode}} {
		want := queued(t, s, c.seq.queue)
		var got *TracedStep
		lines := queued(t, s, func() (err error) { got, err = c.trace(); return err })
		if diff := cmp.Diff(want, lines); diff != "" {
			t.Errorf("-step +traced:\n%s", diff)
		}
		if len(got.Spans) != len(c.seq) || got.EndNS <= got.BeginNS {
			t.Fatalf("%d spans of %d calls, %d to %d ns", len(got.Spans), len(c.seq), got.BeginNS, got.EndNS)
		}
		last := 0.0
		for i, span := range got.Spans {
			if float64(span.Begin) != last || span.End < span.Begin || span.Name != c.seq[i].name || span.Layer != c.seq[i].layer {
				t.Errorf("span %d: %+v, want it to begin at %v", i, span, last)
			}
			last = float64(span.End)
		}
		if float64(got.Device) != last {
			t.Errorf("the device took %v, the spans %v", got.Device, last)
		}
	}
	testkit.Must(t, e.Rewind([]int32{0, 0}))
	for i := range 9 {
		if _, err := tracer.Step(); (err != nil) != (i == 8) {
			t.Errorf("step %d of 8: %v", i, err)
		}
	}
}

// Every operator of the table in docs/native.md is one that the engine has.
func TestOperatorNames(t *testing.T) {
	e, _ := standIn(t, tinyQwen3, Options{Workload: operator.Workload{Batch: 1, PromptLen: 30, GenLen: 9}})
	var got []string
	for _, o := range e.decode.operators() {
		got = append(got, strings.Join(append([]string{o.name}, o.includes...), " + "))
	}
	want := []string{
		"embedding", "qkv_proj + input_layernorm", "attention + qk_norm_rotary + kv_write", "o_proj",
		"gate_up_proj + post_attention_layernorm + activation", "down_proj", "lm_head + norm", "sampling",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if layers := e.decode.of("qkv_proj").layers(); layers != 3 {
		t.Errorf("qkv_proj is in %d layers, want 3", layers)
	}
}
