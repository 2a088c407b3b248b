package worker_test

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

	"llmprof/internal/testkit"
	"llmprof/measure/engine"
	"llmprof/measure/engine/native"
	"llmprof/measure/engine/native/worker"
	"llmprof/workload"
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
	serve := func() error { return worker.Serve(context.Background(), os.Stdin, os.Stdout, "test") }
	if os.Getenv(asWorker) == onStandIn {
		serve = func() error {
			return worker.ServeOn(context.Background(), os.Stdin, os.Stdout, "test", native.TeamOnStandIns)
		}
	}
	if err := serve(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// start starts a worker and ends it after the test.
func start(t *testing.T) *engine.Worker {
	t.Helper()
	return startAs(t, "1")
}

func startAs(t *testing.T, what string) *engine.Worker {
	t.Helper()
	t.Setenv(asWorker, what)
	w, err := worker.Start(t.Context(), worker.Options{Command: []string{os.Args[0]}})
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
func tinyLoad() engine.Load {
	return engine.Load{
		Model: "tiny", Config: json.RawMessage(tiny), RandomWeights: true, DType: "bf16", Graph: true, TP: 1,
		Workload: workload.Workload{Batch: 2, PromptLen: 12, GenLen: 6}, Seed: 3, SaveOutputs: true, Libraries: os.Getenv("LLMPROF_TEST_CUDA_LIBS"),
	}
}

// loadFails loads a model that is refused, and returns the failure.
func loadFails(t *testing.T, w *engine.Worker, l engine.Load) *engine.Failure {
	t.Helper()
	_, err := w.Load(t.Context(), l)
	var f *engine.Failure
	if !errors.As(err, &f) {
		t.Fatalf("%v is no failure that the worker told of", err)
	}
	return f
}

// One worker refuses everything that the engine does not have, and keeps running.
func TestRefused(t *testing.T) {
	w := start(t)
	if h := w.Hello(); h.Engine != worker.Name || h.Version != "test" || h.PID == os.Getpid() || h.Versions["go"] == "" {
		t.Errorf("hello %+v", h)
	}
	for name, c := range map[string]struct {
		change     func(*engine.Load)
		kind, want string
	}{
		"fp32":         {func(l *engine.Load) { l.DType = "fp32" }, engine.Unsupported, "bf16 or fp16"},
		"int8":         {func(l *engine.Load) { l.Quantization = "int8" }, engine.Unsupported, `"int8"`},
		"int4":         {func(l *engine.Load) { l.Quantization = "int4" }, engine.Unsupported, "groups of 128"}, // a feed-forward of 704
		"fp8 TP":       {func(l *engine.Load) { l.Quantization, l.TP = "fp8", 2 }, engine.Unsupported, "feed-forward of 352 and attention of 128 on each of 2 GPUs are no multiples"},
		"sdpa":         {func(l *engine.Load) { l.Attention = "sdpa" }, engine.Unsupported, "sdpa"},
		"cpu":          {func(l *engine.Load) { l.Device = "cpu" }, engine.Unsupported, "GPU"},
		"TP":           {func(l *engine.Load) { l.TP = 4 }, engine.Unsupported, "tp 4 cuts the feed-forward of 704 into parts that are no multiples of 32; it can be shared by 1, 2"},
		"compile":      {func(l *engine.Load) { l.Compile = true }, engine.Unsupported, "torch.compile"},
		"all logits":   {func(l *engine.Load) { l.AllLogits = true }, engine.Unsupported, "logits"},
		"frozen":       {func(l *engine.Load) { l.FrozenContext = true }, engine.Unsupported, "growing"},
		"text":         {func(l *engine.Load) { l.Texts = []string{"a"} }, engine.Unsupported, "token ids"},
		"no config":    {func(l *engine.Load) { l.Config = nil }, engine.Invalid, "config.json"},
		"no weights":   {func(l *engine.Load) { l.RandomWeights = false }, engine.Invalid, "random weights or a folder"},
		"both weights": {func(l *engine.Load) { l.Weights = "/x" }, engine.Invalid, "one of them"},
		"no batch":     {func(l *engine.Load) { l.Batch = 0 }, engine.Unsupported, "batch 0"},
		"no prompt":    {func(l *engine.Load) { l.PromptLen = 0 }, engine.Invalid, "length of 1"},
		"token":        {func(l *engine.Load) { l.Prompts, l.PromptLen = [][]int{{1, 1000}}, 2 }, engine.Invalid, "token 1000"},
		"short":        {func(l *engine.Load) { l.Prompts = [][]int{{1, 2}} }, engine.Invalid, "prompt 0 has 2 tokens, 12 are needed"},
		"unequal":      {func(l *engine.Load) { l.Prompts, l.PromptLen = [][]int{{1, 2}, {3}}, 0 }, engine.Invalid, "prompt 1 has 1 tokens"},
		"huge":         {func(l *engine.Load) { l.Batch, l.PromptLen = 65535, 1<<24 }, engine.Unsupported, "more than any GPU has"},
		"family": {func(l *engine.Load) {
			l.Config = json.RawMessage(`{"model_type":"gpt2","n_embd":64,"n_layer":2,"n_head":2,"n_positions":64,"vocab_size":100}`)
		}, engine.Unsupported, `"gpt2"`},
		"no JSON":   {func(l *engine.Load) { l.Config = json.RawMessage(`[]`) }, engine.Invalid, "tiny"},
		"no folder": {func(l *engine.Load) { l.RandomWeights, l.Weights = false, "/nowhere" }, engine.NotFound, "/nowhere"},
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
		func() error { return w.Prepare(t.Context(), engine.Decode) },
		func() error { _, err := w.Size(t.Context()); return err },
		func() error {
			_, err := w.Run(t.Context(), engine.Run{Phase: engine.Prefill, Passes: 1}, nil)
			return err
		},
		func() error {
			_, err := w.Ops(t.Context(), engine.Ops{Phase: engine.Decode, Rounds: 1})
			return err
		},
		func() error {
			_, err := w.Trace(t.Context(), engine.Trace{Phase: engine.Decode, Passes: 1, File: "t"})
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
	if f := loadFails(t, w, l); f.Kind != engine.Invalid || !strings.Contains(f.Message, "parameters") {
		t.Errorf("%+v", f)
	}
	write("config.json", tiny)
	if f := loadFails(t, w, l); f.Kind != engine.NotFound {
		t.Errorf("%+v, want %s", f, engine.NotFound)
	}
	header := `{"model.embed_tokens.weight":{"dtype":"F8_E4M3","shape":[1000,256],"data_offsets":[0,256000]}}`
	write("model.safetensors", string([]byte{byte(len(header)), 0, 0, 0, 0, 0, 0, 0})+header+strings.Repeat("x", 256000))
	if f := loadFails(t, w, l); f.Kind != engine.Unsupported || !strings.Contains(f.Message, "F8_E4M3") {
		t.Errorf("%+v, want %s", f, engine.Unsupported)
	}
	header = strings.Replace(header, "F8_E4M3", "I8", 1)
	header = strings.Replace(header, "embed_tokens", "embedding", 1)
	write("model.safetensors", string([]byte{byte(len(header)), 0, 0, 0, 0, 0, 0, 0})+header+strings.Repeat("x", 256000))
	if f := loadFails(t, w, l); f.Kind != engine.Invalid || !strings.Contains(f.Message, `no tensor "model.embed_tokens.weight" among its 1`) {
		t.Errorf("%+v, want %s", f, engine.Invalid)
	}
}

// A worker whose driver exits ends, in any state.
func TestDriverGone(t *testing.T) {
	in, commands := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- worker.Serve(t.Context(), in, io.Discard, "test") }()
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
