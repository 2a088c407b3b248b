package process_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"llmprof/analytic/operator"
	"llmprof/internal/testkit"
	"llmprof/measure/native"
	"llmprof/measure/native/process"
	"llmprof/measure/worker"
)

// The test binary also runs as the worker, on a GPU or on one that computes nothing.
const (
	asWorker  = "LLMPROF_TEST_NATIVE_WORKER"
	onStandIn = "stand-in"
)

func TestMain(m *testing.M) {
	if os.Getenv(asWorker) == "" {
		os.Exit(m.Run())
	}
	serve := func() error { return process.Serve(context.Background(), os.Stdin, os.Stdout, "test") }
	if os.Getenv(asWorker) == onStandIn {
		serve = func() error {
			return process.ServeOn(context.Background(), os.Stdin, os.Stdout, "test", native.TeamOnStandIns)
		}
	}
	if err := serve(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// start starts a worker and ends it after the test.
func start(t *testing.T) *worker.Worker {
	t.Helper()
	return startAs(t, "1")
}

func startAs(t *testing.T, what string) *worker.Worker {
	t.Helper()
	t.Setenv(asWorker, what)
	w, err := process.Start(t.Context(), process.Options{Command: []string{os.Args[0]}})
	testkit.Must(t, err)
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

const tiny = `{"model_type":"llama","hidden_size":256,"intermediate_size":704,"num_hidden_layers":2,"num_attention_heads":4,
	"num_key_value_heads":2,"head_dim":64,"vocab_size":1000,"rms_norm_eps":1e-5,"rope_theta":500000.0}`

// tinyLoad returns a small load that the engine runs if there is a GPU.
func tinyLoad() worker.Load {
	return worker.Load{
		Model: "tiny", Config: json.RawMessage(tiny), RandomWeights: true, DType: "bf16", Graph: true, TP: 1,
		Workload: operator.Workload{Batch: 2, PromptLen: 12, GenLen: 6}, Seed: 3, SaveOutputs: true,
		Libraries: os.Getenv("LLMPROF_TEST_CUDA_LIBS"),
	}
}

// loadFails loads a model that is refused, and returns the failure.
func loadFails(t *testing.T, w *worker.Worker, l worker.Load) *worker.Failure {
	t.Helper()
	_, err := w.Load(t.Context(), l)
	var f *worker.Failure
	if !errors.As(err, &f) {
		t.Fatalf("%v is no failure that the worker told of", err)
	}
	return f
}

// One worker refuses everything that the engine does not have, and keeps running.
func TestRefused(t *testing.T) {
	w := start(t)
	if h := w.Hello(); h.Engine != process.Name || h.Version != "test" || h.PID == os.Getpid() || h.Versions["go"] == "" {
		t.Errorf("hello %+v", h)
	}
	for name, c := range map[string]struct {
		change     func(*worker.Load)
		kind, want string
	}{
		"fp32": {func(l *worker.Load) { l.DType = "fp32" }, worker.Unsupported, "bf16 or fp16"},
		"int8": {func(l *worker.Load) { l.Quantization = "int8" }, worker.Unsupported, `"int8"`},
		"int4": {func(l *worker.Load) { l.Quantization = "int4" }, worker.Unsupported, "groups of 128"}, // a feed-forward of 704
		"fp8 TP": {func(l *worker.Load) { l.Quantization, l.TP = "fp8", 2 }, worker.Unsupported,
			"feed-forward of 352 and attention of 128 on each of 2 GPUs are no multiples"},
		"sdpa": {func(l *worker.Load) { l.Attention = "sdpa" }, worker.Unsupported, "sdpa"},
		"cpu":  {func(l *worker.Load) { l.Device = "cpu" }, worker.Unsupported, "GPU"},
		"TP": {func(l *worker.Load) { l.TP = 4 }, worker.Unsupported,
			"tp 4 cuts the feed-forward of 704 into parts that are no multiples of 32; it can be shared by 1, 2"},
		"compile":      {func(l *worker.Load) { l.Compile = true }, worker.Unsupported, "torch.compile"},
		"all logits":   {func(l *worker.Load) { l.AllLogits = true }, worker.Unsupported, "logits"},
		"frozen":       {func(l *worker.Load) { l.FrozenContext = true }, worker.Unsupported, "growing"},
		"text":         {func(l *worker.Load) { l.Texts = []string{"a"} }, worker.Unsupported, "token ids"},
		"no config":    {func(l *worker.Load) { l.Config = nil }, worker.Invalid, "config.json"},
		"no weights":   {func(l *worker.Load) { l.RandomWeights = false }, worker.Invalid, "random weights or a folder"},
		"both weights": {func(l *worker.Load) { l.Weights = "/x" }, worker.Invalid, "one of them"},
		"no batch":     {func(l *worker.Load) { l.Batch = 0 }, worker.Unsupported, "batch 0"},
		"no prompt":    {func(l *worker.Load) { l.PromptLen = 0 }, worker.Invalid, "length of 1"},
		"token":        {func(l *worker.Load) { l.Prompts, l.PromptLen = [][]int{{1, 1000}}, 2 }, worker.Invalid, "token 1000"},
		"short":        {func(l *worker.Load) { l.Prompts = [][]int{{1, 2}} }, worker.Invalid, "prompt 0 has 2 tokens, 12 are needed"},
		"unequal":      {func(l *worker.Load) { l.Prompts, l.PromptLen = [][]int{{1, 2}, {3}}, 0 }, worker.Invalid, "prompt 1 has 1 tokens"},
		"huge":         {func(l *worker.Load) { l.Batch, l.PromptLen = 65535, 1<<24 }, worker.Unsupported, "more than any GPU has"},
		"family": {func(l *worker.Load) {
			l.Config = json.RawMessage(`{"model_type":"gpt2","n_embd":64,"n_layer":2,"n_head":2,"n_positions":64,"vocab_size":100}`)
		}, worker.Unsupported, `"gpt2"`},
		"no JSON":   {func(l *worker.Load) { l.Config = json.RawMessage(`[]`) }, worker.Invalid, "tiny"},
		"no folder": {func(l *worker.Load) { l.RandomWeights, l.Weights = false, "/nowhere" }, worker.NotFound, "/nowhere"},
	} {
		t.Run(name, func(t *testing.T) {
			l := tinyLoad()
			c.change(&l)
			if f := loadFails(t, w, l); f.Kind != c.kind || f.Fatal || !strings.Contains(f.Message, c.want) {
				t.Errorf("%+v, want %s with %q", f, c.kind, c.want)
			}
		})
	}
	for _, do := range []func() error{
		func() error { return w.Prepare(t.Context(), worker.Decode) },
		func() error { _, err := w.Size(t.Context()); return err },
		func() error {
			_, err := w.Run(t.Context(), worker.Run{Phase: worker.Prefill, Passes: 1}, nil)
			return err
		},
		func() error {
			_, err := w.Ops(t.Context(), worker.Ops{Phase: worker.Decode, Rounds: 1})
			return err
		},
		func() error {
			_, err := w.Trace(t.Context(), worker.Trace{Phase: worker.Decode, Passes: 1, File: "t"})
			return err
		},
	} {
		if err := do(); err == nil || !strings.Contains(err.Error(), "came before load") {
			t.Errorf("%v, want that it came before load", err)
		}
	}
}

// A checkpoint that is not the model's is refused before a GPU is looked for.
func TestCheckpointRefused(t *testing.T) {
	w := start(t)
	dir := t.TempDir()
	write := func(name, text string) {
		testkit.Must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	l := tinyLoad()
	l.RandomWeights, l.Weights = false, dir
	write("config.json", strings.Replace(tiny, "1000", "2000", 1))
	if f := loadFails(t, w, l); f.Kind != worker.Invalid || !strings.Contains(f.Message, "parameters") {
		t.Errorf("%+v", f)
	}
	write("config.json", tiny)
	if f := loadFails(t, w, l); f.Kind != worker.NotFound {
		t.Errorf("%+v, want %s", f, worker.NotFound)
	}
	header := `{"model.embed_tokens.weight":{"dtype":"F8_E4M3","shape":[1000,256],"data_offsets":[0,256000]}}`
	write("model.safetensors", string([]byte{byte(len(header)), 0, 0, 0, 0, 0, 0, 0})+header+strings.Repeat("x", 256000))
	if f := loadFails(t, w, l); f.Kind != worker.Unsupported || !strings.Contains(f.Message, "F8_E4M3") {
		t.Errorf("%+v, want %s", f, worker.Unsupported)
	}
	header = strings.Replace(header, "F8_E4M3", "I8", 1)
	header = strings.Replace(header, "embed_tokens", "embedding", 1)
	write("model.safetensors", string([]byte{byte(len(header)), 0, 0, 0, 0, 0, 0, 0})+header+strings.Repeat("x", 256000))
	if f := loadFails(t, w, l); f.Kind != worker.Invalid || !strings.Contains(f.Message, `no tensor "model.embed_tokens.weight" among its 1`) {
		t.Errorf("%+v, want %s", f, worker.Invalid)
	}
}

// A worker whose driver exits ends, in any state.
func TestDriverGone(t *testing.T) {
	in, commands := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- process.Serve(t.Context(), in, io.Discard, "test") }()
	testkit.Must(t, commands.Close())
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("it waits for a driver that is gone")
	}
}
