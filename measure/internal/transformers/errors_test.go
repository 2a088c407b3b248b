package transformers_test

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"llmprof/internal/testkit"
	"llmprof/internal/testkit/pythontest"
	"llmprof/measure/internal/transformers"
	"llmprof/measure/worker"
)

func wantFailure(t *testing.T, what string, err error, kind, says string) {
	t.Helper()
	var failure *worker.Failure
	if !errors.As(err, &failure) || failure.Kind != kind || !strings.Contains(failure.Message, says) {
		t.Errorf("%s: got %v (%T), want %s with %q", what, err, err, kind, says)
	}
}

// What cannot be loaded says why, and the worker stays fit for what can.
func TestLoadRefuses(t *testing.T) {
	w := common(t)
	empty := t.TempDir()
	lone := filepath.Join(t.TempDir(), "config.json")
	testkit.Must(t, os.WriteFile(lone, tiny(t, "llama"), 0o600))
	remote := t.TempDir()
	custom := `{"model_type":"own","auto_map":{"AutoConfig":"own.Config","AutoModelForCausalLM":"own.Model"}}`
	testkit.Must(t, os.WriteFile(filepath.Join(remote, "config.json"), []byte(custom), 0o600))
	tests := map[string]struct {
		change     func(*worker.Load)
		kind, says string
	}{
		"unknown id":     {func(l *worker.Load) { l.Model, l.Config = "nobody/nothing", nil }, worker.NotFound, "nobody/nothing"},
		"empty folder":   {func(l *worker.Load) { l.Model, l.Config = empty, nil }, worker.NotFound, "no config.json"},
		"config alone":   {func(l *worker.Load) { l.Model, l.Config, l.RandomWeights = lone, nil, false }, worker.Invalid, "random weights"},
		"remote code":    {func(l *worker.Load) { l.Model, l.Config = remote, nil }, worker.Unsupported, "--trust-remote-code"},
		"unknown family": {func(l *worker.Load) { l.Config = json.RawMessage(`{"model_type":"lama"}`) }, worker.Unsupported, "lama"},
		"no family":      {func(l *worker.Load) { l.Config = json.RawMessage(`{"hidden_size":1}`) }, worker.Unsupported, "model_type"},
		"dtype":          {func(l *worker.Load) { l.DType = "fp9" }, worker.Invalid, "bf16, fp16, fp32"},
		"device":         {func(l *worker.Load) { l.Device = "tpu" }, worker.Invalid, "cuda and cpu"},
		"no GPU":         {func(l *worker.Load) { l.Device = "cuda" }, worker.Missing, "finds no GPU"},
		"graph on CPU":   {func(l *worker.Load) { l.Graph = true }, worker.Unsupported, "needs a GPU"},
		"flash on CPU":   {func(l *worker.Load) { l.Attention = "flash_attention_2" }, worker.Unsupported, "CUDA alone"},
		"attention":      {func(l *worker.Load) { l.Attention = "lightning" }, worker.Invalid, "sdpa, eager"},
		"bitsandbytes":   {func(l *worker.Load) { l.Quantization = "int4" }, worker.Missing, "bitsandbytes"},
		"quantization":   {func(l *worker.Load) { l.Quantization = "int3" }, worker.Invalid, "int8, int4, fp8"},
		"TP":             {func(l *worker.Load) { l.TP = 2 }, worker.Invalid, "torchrun started 1"},
		"batch":          {func(l *worker.Load) { l.Batch = 0 }, worker.Invalid, "batch 0"},
		"no prompt":      {func(l *worker.Load) { l.PromptLen = 0 }, worker.Invalid, "a length of 1"},
		"short prompt":   {func(l *worker.Load) { l.Prompts = [][]int{{1, 2}} }, worker.Invalid, "prompt 0 has 2 tokens, 24 are needed"},
		"ragged": {func(l *worker.Load) { l.Prompts, l.PromptLen = [][]int{{1, 2}, {3}}, 0 }, worker.Invalid,
			"prompt 1 has 1 tokens, prompt 0 has 2"},
		"vocabulary": {func(l *worker.Load) { l.Prompts, l.PromptLen = [][]int{{1, 2000}}, 0 }, worker.Invalid, "the token 2000"},
		"texts":      {func(l *worker.Load) { l.Texts = []string{"Once upon a time"} }, worker.NotFound, "tokenizer"},
	}
	for name, test := range tests {
		l := tinyLoad(t, "llama")
		test.change(&l)
		_, err := w.Load(t.Context(), l)
		wantFailure(t, name, err, test.kind, test.says)
	}
	l := tinyLoad(t, "llama")
	l.GenLen = 1
	load(t, w, l)
	_, err := w.Run(t.Context(), worker.Run{Phase: worker.Decode, Passes: 1}, nil)
	wantFailure(t, "decode of nothing", err, worker.Invalid, "ask for 2 or more")
	_, err = w.Ops(t.Context(), worker.Ops{Phase: worker.Prefill, Rounds: 1})
	wantFailure(t, "operators one by one", err, worker.Unsupported, "the native engine's can")
	repeat(t, w, worker.Request, 1)
}

// A model whose logits are no numbers is not measured: the weight that is none is named,
// or the module whose output outgrows its format.
func TestLogitsThatAreNoNumbers(t *testing.T) {
	const program = `import sys, torch
from transformers import AutoConfig, AutoModelForCausalLM
config, *rest = sys.argv[1:]
for folder, tensor, value, many in zip(*[iter(rest)] * 4):
    model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(config), dtype=torch.float32)
    dict(model.named_parameters())[tensor].data.view(-1)[:int(many)] = float(value)
    model.save_pretrained(folder)`
	cases := []struct{ tensor, value, many, want string }{
		{"model.layers.1.mlp.up_proj.weight", "nan", "1",
			"the logits of the prefill are NaN or infinite: the tensor model.layers.1.mlp.up_proj.weight has 1 such values of "},
		{"model.norm.weight", "inf", "2", "the tensor model.norm.weight has 2 such values of "},
		{"model.layers.1.input_layernorm.weight", "3e38", "1000", "outgrows fp32; model.layers.1.input_layernorm is the first module"},
		{"model.norm.weight", "1", "1", ""},
	}
	var folders []string
	arguments := []string{"-c", program, "testdata/llama.json"}
	for _, c := range cases {
		folders = append(folders, t.TempDir())
		arguments = append(arguments, folders[len(folders)-1], c.tensor, c.value, c.many)
	}
	if out, err := exec.Command(pythontest.Find(t), arguments...).CombinedOutput(); err != nil {
		t.Fatalf("%v, %s", err, out)
	}
	w := common(t)
	for i, c := range cases {
		l := tinyLoad(t, "llama")
		l.Model, l.Config, l.RandomWeights = folders[i], nil, false
		_, err := w.Load(t.Context(), l)
		if c.want == "" && err == nil {
			continue
		}
		wantFailure(t, c.tensor+" of "+c.value, err, worker.Invalid, c.want)
	}
}

func TestBeforeLoad(t *testing.T) {
	w := start(t)
	_, err := w.Size(t.Context())
	wantFailure(t, "size before load", err, worker.Invalid, "came before load")
}

func TestNoPython(t *testing.T) {
	_, err := transformers.Start(t.Context(), transformers.Options{Python: "/no/such/python"})
	wantFailure(t, "no Python", err, worker.Missing, "/no/such/python")
}

// A Python that has neither library says so at load, for hello needs nothing.
func TestPythonWithoutTorch(t *testing.T) {
	bare := filepath.Join(t.TempDir(), "bare")
	if out, err := exec.Command("python3", "-m", "venv", "--without-pip", bare).CombinedOutput(); err != nil {
		t.Skipf("no Python to make an environment with: %v, %s", err, out)
	}
	w, err := transformers.Start(t.Context(), transformers.Options{Python: filepath.Join(bare, "bin", "python")})
	testkit.Must(t, err)
	defer w.Close()
	_, err = w.Load(t.Context(), tinyLoad(t, "llama"))
	wantFailure(t, "no torch", err, worker.Missing, "has no torch: install torch 2.5 or later there")
	_, err = transformers.Start(t.Context(), transformers.Options{Python: filepath.Join(bare, "bin", "python"), TP: 2})
	if err == nil || !strings.Contains(err.Error(), "has no torch: install torch 2.5 or later there") ||
		strings.Contains(err.Error(), "Traceback") {
		t.Errorf("torchrun without torch: %v", err)
	}
}

// Versions are read from what is installed, so a made-up one will do.
func TestOldTransformers(t *testing.T) {
	old := t.TempDir()
	info := filepath.Join(old, "transformers-4.30.0.dist-info")
	testkit.Must(t, os.Mkdir(info, 0o700))
	text := "Metadata-Version: 2.1\nName: transformers\nVersion: 4.30.0\n"
	testkit.Must(t, os.WriteFile(filepath.Join(info, "METADATA"), []byte(text), 0o600))
	t.Setenv("PYTHONPATH", old)
	w := start(t)
	_, err := w.Load(t.Context(), tinyLoad(t, "llama"))
	wantFailure(t, "old transformers", err, worker.Unsupported, "has transformers 4.30.0: 4.57 or later is needed")
}

func TestCommandRefuses(t *testing.T) {
	for _, o := range []transformers.Options{
		{TP: 3, Nodes: 2, Rdzv: "a:1"}, {TP: 2, Nodes: 2}, {TP: 2, Nodes: 2, Node: 2, Rdzv: "a:1"}, {TP: 2, GPUs: []string{"GPU-1"}},
	} {
		o.Python = "sh" // any program: it is not started
		_, err := transformers.Start(t.Context(), o)
		wantFailure(t, "options", err, worker.Invalid, "")
	}
}
