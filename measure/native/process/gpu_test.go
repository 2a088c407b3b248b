package process_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"llmprof/internal/testkit"
	"llmprof/measure/native/internal/emulate"
	"llmprof/measure/worker"
)

// onGPU runs the test on a GPU or, if there is none, on the processor, or skips it.
func onGPU(t *testing.T) {
	t.Helper()
	libraries := emulate.Device(t)
	t.Setenv("LLMPROF_TEST_CUDA_LIBS", libraries)
	if emulate.RealGPU() != nil {
		t.Setenv("LD_LIBRARY_PATH", libraries) // where the worker's process finds the driver
	}
}

func load(t *testing.T, w *worker.Worker, l worker.Load) *worker.Ready {
	t.Helper()
	ready, err := w.Load(t.Context(), l)
	testkit.Must(t, err)
	return ready
}

// repeat runs passes of a phase and checks the result of each.
func repeat(t *testing.T, w *worker.Worker, l worker.Load, phase worker.Phase, passes int) []worker.Pass {
	t.Helper()
	var all []worker.Pass
	done, err := w.Run(t.Context(), worker.Run{Phase: phase, Passes: passes}, func(p worker.Pass) { all = append(all, p) })
	testkit.Must(t, err)
	steps := map[worker.Phase]int{worker.Prefill: 1, worker.Decode: l.GenLen - 1, worker.Request: l.GenLen}[phase]
	if done.Passes != passes || len(all) != passes {
		t.Fatalf("%d passes done, %d handed on, want %d", done.Passes, len(all), passes)
	}
	for _, p := range all {
		if len(p.Steps) != steps || len(p.Tokens) != steps {
			t.Fatalf("%s: %d steps, %d tokens, want %d", phase, len(p.Steps), len(p.Tokens), steps)
		}
		for _, s := range p.Steps {
			want := 0
			if s.Index > 0 {
				want = l.PromptLen + s.Index - 1
			}
			if host := float64(s.EndNS-s.StartNS) / 1e9; s.Context != want || s.DeviceS == nil || *s.DeviceS <= 0 || *s.DeviceS > host {
				t.Errorf("%s: step %+v: context %d, %v s on the device, %v s on the host; want context %d", phase, s, s.Context, *s.DeviceS, host, want)
			}
		}
	}
	return all
}

func ids(p worker.Pass) [][]int {
	var all [][]int
	for _, token := range p.Tokens {
		all = append(all, token.IDs)
	}
	return all
}

// Every phase gives the same tokens, with a graph and without, and after another load.
func TestGPUPhasesAgree(t *testing.T) {
	emulate.Long(t)
	onGPU(t)
	w := start(t)
	var want [][]int
	for _, graph := range []bool{true, false, true} {
		l := tinyLoad()
		l.Graph = graph
		ready := load(t, w, l)
		if len(ready.Devices) != 1 || ready.Devices[0].UUID == "" ||
			ready.Options["graph"] != map[bool]string{true: "true", false: "false"}[graph] || ready.PromptLen != 12 {
			t.Errorf("ready %+v", ready)
		}
		for range 2 {
			request := repeat(t, w, l, worker.Request, 2)
			if want == nil {
				want = ids(request[0])
			}
			prefill, decode := repeat(t, w, l, worker.Prefill, 2), repeat(t, w, l, worker.Decode, 2)
			for what, got := range map[string][][]int{
				"first request": ids(request[0]), "second request": ids(request[1]),
				"parts": append(ids(prefill[1]), ids(decode[0])...), "second decode": append(ids(prefill[0]), ids(decode[1])...),
			} {
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("graph %v, %s (-want +got):\n%s", graph, what, diff)
				}
			}
		}
		sizes, err := w.Size(t.Context())
		testkit.Must(t, err)
		const kv = 2 * 2 * 2 * 2 * 2 * 17 * 64 // bytes, K and V, layers, sequences, heads, tokens, width
		if sizes.ParamsBytes != 2*ready.Params || sizes.KVBytes != kv || sizes.KVTokens != 17 || *sizes.Activations <= 0 ||
			*sizes.PeakBytes < sizes.ParamsBytes+sizes.KVBytes+*sizes.Activations {
			t.Errorf("sizes %+v, %d parameters, want %d bytes of cache", sizes, ready.Params, kv)
		}
	}
	other := tinyLoad()
	other.Seed++
	load(t, w, other)
	if cmp.Equal(want, ids(repeat(t, w, other, worker.Request, 1)[0])) {
		t.Error("another seed gave the same tokens")
	}
}

// The worker accepts the formats, and reports them and the sizes of the weights and cache. The
// tokens of a request are those of its prefill and decode.
func TestGPUFormats(t *testing.T) {
	emulate.Long(t)
	onGPU(t)
	w := start(t)
	const linear, rows = 2 * 737280, 2 * 2432 // weights and outputs of the blocks' layers
	for _, c := range []struct {
		dtype, kept string
		saved       int64 // bytes, of two for each parameter
	}{{"fp16", "", 0}, {"bf16", "fp8", linear - 4*rows}, {"fp16", "fp8", linear - 4*rows}} {
		l := tinyLoad()
		l.DType, l.Quantization = c.dtype, c.kept
		ready := load(t, w, l)
		if ready.Options["dtype"] != c.dtype || ready.Options["quantization"] != c.kept {
			t.Errorf("%+v: ready %v", c, ready.Options)
		}
		request := ids(repeat(t, w, l, worker.Request, 1)[0])
		prefill, decode := repeat(t, w, l, worker.Prefill, 1), repeat(t, w, l, worker.Decode, 1)
		if diff := cmp.Diff(request, append(ids(prefill[0]), ids(decode[0])...)); diff != "" {
			t.Errorf("%+v: parts (-want +got):\n%s", c, diff)
		}
		sizes, err := w.Size(t.Context())
		testkit.Must(t, err)
		if want := 2*ready.Params - c.saved; sizes.ParamsBytes != want {
			t.Errorf("%+v: %d bytes of parameters, want %d", c, sizes.ParamsBytes, want)
		}
	}
}

// The worker uses given prompts in turn.
func TestGPUPromptsInTurn(t *testing.T) {
	emulate.Long(t)
	onGPU(t)
	w := start(t)
	l := tinyLoad()
	l.Batch, l.PromptLen, l.Prompts = 1, 3, [][]int{{1, 2, 3, 4}, {7, 8, 9}}
	load(t, w, l)
	passes := repeat(t, w, l, worker.Request, 4)
	if !cmp.Equal(ids(passes[0]), ids(passes[2])) || !cmp.Equal(ids(passes[1]), ids(passes[3])) || cmp.Equal(ids(passes[0]), ids(passes[1])) {
		t.Errorf("tokens %v, %v, %v, %v", ids(passes[0]), ids(passes[1]), ids(passes[2]), ids(passes[3]))
	}
}

// A model that does not fit is refused before memory is allocated, and a missing library is named.
// The worker keeps running after both.
func TestGPUErrors(t *testing.T) {
	emulate.Long(t)
	onGPU(t)
	w := start(t)
	l := tinyLoad()
	l.Batch, l.PromptLen = 60000, 20000
	if f := loadFails(t, w, l); f.Kind != worker.OutOfMemory || f.Fatal {
		t.Errorf("%+v, want %s", f, worker.OutOfMemory)
	}
	l = tinyLoad()
	l.Libraries = t.TempDir()
	if f := loadFails(t, w, l); f.Kind != worker.Missing || f.Fatal {
		t.Errorf("%+v, want %s", f, worker.Missing)
	}
	l = tinyLoad()
	l.GenLen = 1
	load(t, w, l)
	if _, err := w.Run(t.Context(), worker.Run{Phase: worker.Decode, Passes: 1}, nil); err == nil {
		t.Error("one token has decode steps")
	}
	repeat(t, w, l, worker.Request, 1)
}

// Stop ends a run after its current pass, and the worker accepts further commands.
func TestGPUStop(t *testing.T) {
	onGPU(t)
	w := start(t)
	l := tinyLoad()
	load(t, w, l)
	for _, phase := range []worker.Phase{worker.Decode, worker.Prefill, worker.Request} {
		seen := 0
		done, err := w.Run(t.Context(), worker.Run{Phase: phase, Passes: 1 << 30}, func(worker.Pass) {
			if seen++; seen == 3 {
				if err := w.Stop(); err != nil {
					t.Error(err)
				}
			}
		})
		if err != nil || done.Passes < 3 || done.Passes != seen {
			t.Fatalf("%s: done %+v after %d passes, %v", phase, done, seen, err)
		}
	}
	if !slices.Equal(w.Log(), nil) {
		t.Errorf("its log: %q", w.Log())
	}
}
