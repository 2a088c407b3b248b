package engine_test

import (
	"strings"
	"testing"

	"llmprof/analytic/engine"
	"llmprof/internal/testkit"
	"llmprof/internal/testkit/casetest"
	"llmprof/models"
	"llmprof/unit"
)

// refused are a combination of each kind that an engine cannot run, the words of the
// refusal, and the engine that is taken instead.
var refused = []struct{ engine, model, gpu, weights, why, instead string }{
	{"native", "deepseek-v3", "mi300x", "fp8", `family "deepseek_v3"`, "vllm"},
	{"native", "llama3.1-8b", "mi300x", "bf16", "GPUs of nvidia", "vllm"},
	{"native", "llama3.1-8b", "h100", "int8", "weights in int8", "vllm"},
	{"native", "llama3.1-8b", "h100", "fp8", "products in fp8", "vllm"},
	{"vllm", "gpt-neo-2.7b", "h100", "fp16", `family "gpt_neo"`, "transformers"},
	{"vllm", "recurrentgemma-2b", "h100", "bf16", `family "recurrent_gemma"`, "transformers"},
	{"vllm", "llama3.1-8b", "v100", "fp16", "compute capability 7.5", "llama.cpp"},
	{"vllm", "llama3.1-8b", "v100s", "fp16", "compute capability 7.5", "llama.cpp"},
	{"vllm", "llama3.1-8b", "p40", "fp16", "compute capability 7.5", "llama.cpp"},
	{"sglang", "llama3.1-8b", "p100", "fp16", "compute capability 7.5", "llama.cpp"},
	{"native", "llama3.1-8b", "p40", "fp16", "compute capability 7.0", "llama.cpp"},
	{"vllm", "llama3.1-8b", "h100", "w4a4", "products in int4", ""},
	{"sglang", "olmo3-7b", "h100", "bf16", `family "olmo3"`, "vllm"},
	{"sglang", "jamba-1.5-mini", "h100", "bf16", `family "jamba"`, "vllm"},
	{"sglang", "llama3.1-8b", "tpu-v5e", "bf16", "GPUs of nvidia, amd, intel", "vllm"},
	{"tensorrt-llm", "llama3.1-8b", "mi300x", "bf16", "GPUs of nvidia", "vllm"},
	{"tensorrt-llm", "ling-flash-2.0", "h200", "bf16", `family "bailing_moe"`, "vllm"},
	{"sglang", "llama3.1-8b", "ironwood", "bf16", "GPUs of nvidia, amd, intel", "vllm"},
	{"tensorrt-llm", "llama3.1-8b", "v100", "fp16", "compute capability 8.0", "llama.cpp"},
	{"tensorrt-llm", "bloom-7b1", "h100", "bf16", `family "bloom"`, "vllm"},
	{"trt-llm", "llama3.1-8b", "h100", "w4a4", "products in int4", ""},
	{"tensorrt-llm", "llama3.1-8b", "a100", "fp8", "compute capability 8.9", "vllm"},
	{"tensorrt-llm", "llama3.1-8b", "h200", "nvfp4", "compute capability 10.0", "vllm"},
	{"llama.cpp", "llama3.1-8b", "h100", "fp8", "weights in fp8", "vllm"},
	{"vllm", "gpt-oss-20b", "t4", "mxfp4", "generation turing", "llama.cpp"},
	{"vllm", "deepseek-v4-flash", "h200", "fp8", "in fp8 alone, not in bf16", "sglang"},
	{"transformers", "llama3.1-8b", "v100", "fp8", "compute capability 8.9", ""},
	{"hf", "gpt-oss-20b", "p100", "mxfp4", "compute capability 7.5", "llama.cpp"},
	{"vllm", "llama3.1-8b", "rx-7900-xtx", "fp8", "generation rdna3", "transformers"},
	{"vllm", "llama3.1-8b", "strix-halo", "fp8", "generation rdna3", "transformers"},
	{"vllm", "llama3.2-1b", "rx-7600", "bf16", "(gfx1102): it is built for gfx90a", "llama.cpp"},
	{"sglang", "llama3.1-8b", "rx-7900-xtx", "bf16", "(gfx1100): it is built for gfx942, gfx950", "vllm"},
	{"sglang", "llama3.1-8b", "mi250x", "bf16", "(gfx90a): it is built for gfx942, gfx950", "vllm"},
	{"llama.cpp", "llama3.1-8b", "gaudi3", "bf16", "generation gaudi3", "vllm"},
	{"vllm", "llama3.1-8b", "r9700", "w4a16-nvfp4", "generation rdna4", "llama.cpp"},
	{"vllm", "llama3.1-8b", "arc-b580", "w4a16-nvfp4", "generation xe2", "llama.cpp"},
	{"vllm", "llama3.1-8b", "tpu-v6e", "nvfp4", "generation tpu", ""},
	{"sglang", "llama3.1-8b", "gaudi3", "nvfp4", "generation gaudi3", ""},
	{"ollama", "opt-1.3b", "h100", "bf16", `family "opt"`, "vllm"},
	{"hf", "llama3.1-8b", "h100", "nvfp4", "weights in nvfp4", "vllm"},
	{"tensorrt-edge-llm", "llama3.1-8b", "h100", "bf16", "Jetson modules and DGX Spark", "vllm"},
	{"llama.cpp", "llama3.1-8b", "h100", "awq", "quantizations of its own, as q4_k_m and q8_0", "vllm"},
	{"llama.cpp", "llama3.1-8b", "h100", "w8a8", "quantizations of its own, as q4_k_m and q8_0", "vllm"},
	{"llama.cpp", "llama3.1-8b", "v100", "w8a16", "quantizations of its own, as q4_k_m and q8_0", "transformers"},
	{"tensorrt-llm", "llama3.1-8b", "h100", "q4_k_m", "no quantizations of llama.cpp", "llama.cpp"},
	{"native", "llama3.1-8b", "h100", "q4_k_m", "no quantizations of llama.cpp", "llama.cpp"},
	{"transformers", "llama3.1-8b", "h100", "q8_0", "no quantizations of llama.cpp", "llama.cpp"},
}

// schemeOf is the scheme of a name; a quantization of llama.cpp changes the model.
func schemeOf(m **models.Model, name string) (models.Scheme, error) {
	if !models.IsFileType(name) {
		return models.ParseScheme(name)
	}
	mixed, err := models.Quantize(*m, name)
	*m = mixed
	return models.StoredScheme(mixed), err
}

// TestRefusals checks that what an engine cannot run is refused with the reason and the
// engines that can, and that the default is one of these.
func TestRefusals(t *testing.T) {
	table, gpus := casetest.Tables(t)
	for _, x := range refused {
		m, err := table.Model(x.model)
		if err != nil {
			t.Fatal(err)
		}
		g, err := gpus.GPU(x.gpu)
		if err != nil {
			t.Fatal(err)
		}
		s, err := schemeOf(&m, x.weights)
		if err != nil {
			t.Fatal(err)
		}
		e, err := engine.Parse(x.engine)
		if err != nil {
			t.Fatal(err)
		}
		s = s.For(&g)
		err = engine.Runs(e, m, &g, &s)
		if err == nil || !strings.Contains(err.Error(), x.why) {
			t.Errorf("%s, %s, %s, %s: %v, want %q", x.engine, x.model, x.gpu, x.weights, err, x.why)
			continue
		}
		instead, _ := engine.Default(m, &g, &s)
		switch {
		case x.instead == "" && !strings.Contains(err.Error(), "no engine"):
			t.Errorf("%s, %s: %v, want no engine that can", x.engine, x.weights, err)
		case x.instead != "" && (instead.Profile().Name != x.instead || !strings.Contains(err.Error(), x.instead) ||
			engine.Runs(instead, m, &g, &s) != nil):
			t.Errorf("%s, %s, %s, %s: %v; by default %s, want %s", x.engine, x.model, x.gpu, x.weights, err, instead.Profile().Name, x.instead)
		}
	}
}

// TestRecurrentFamilies checks that RWKV-4 runs by transformers alone: registries of vLLM 0.32 and SGLang 0.5.23 have no
// class of it, and llama.cpp has versions 6 and 7.
func TestRecurrentFamilies(t *testing.T) {
	m, err := models.Read("rwkv", []byte(`{"model_type":"rwkv","hidden_size":4096,"num_hidden_layers":32,"vocab_size":50277,`+
		`"context_length":1024}`))
	testkit.Must(t, err)
	_, gpus := casetest.Tables(t)
	g, err := gpus.GPU("h100")
	testkit.Must(t, err)
	s, err := models.ParseScheme("bf16")
	testkit.Must(t, err)
	for _, name := range []string{"vllm", "sglang", "tensorrt-llm", "llama.cpp", "native"} {
		e, err := engine.Parse(name)
		testkit.Must(t, err)
		if engine.Runs(e, m, &g, &s) == nil {
			t.Errorf("%s runs RWKV-4", name)
		}
	}
	if e, _ := engine.Default(m, &g, &s); e.Profile().Name != "transformers" {
		t.Errorf("%s is the default for RWKV-4, want transformers", e.Profile().Name)
	}
}

// TestDefaultSaysWhy holds which engine is taken where none is named, and the reason that
// the user reads.
func TestDefaultSaysWhy(t *testing.T) {
	m := casetest.Model(t, "llama3.2-1b")
	for _, x := range []struct{ gpu, engine, why string }{
		{"h100", "vllm", "default"},
		{"orin-nano-8gb", "llama.cpp", "default on modules under 16 GB"},
		{"orin-nx-8gb", "llama.cpp", "default on modules under 16 GB"},
		{"orin-nx-16gb", "vllm", "default"},
		{"agx-orin-64gb", "vllm", "default"},
		{"p40", "llama.cpp", "default, since vllm does not run on P40 24GB: it needs compute capability 7.5 or newer"},
		{"v100", "llama.cpp", "default, since vllm does not run on V100 SXM2 32GB: it needs compute capability 7.5 or newer"},
		{"jetson-nano-4gb", "transformers", "default, since vllm does not run on Jetson Nano 4GB: it needs compute capability 7.5 or newer"},
	} {
		g := casetest.GPU(t, x.gpu)
		s := models.StoredScheme(m).For(g)
		if e, why := engine.Default(m, g, &s); e.Profile().Name != x.engine || why != x.why {
			t.Errorf("%s: %s, %s; want %s, %s", x.gpu, e.Profile().Name, why, x.engine, x.why)
		}
	}
}

// TestDefaultOfGGUF checks that llama.cpp runs GGUF files in every format that it has, NVFP4 since 2026 among them.
func TestDefaultOfGGUF(t *testing.T) {
	m, g := casetest.Model(t, "llama3.1-8b"), casetest.GPU(t, "h100")
	for _, f := range []unit.Format{unit.INT4, unit.INT8, unit.BF16, unit.MXFP4, unit.NVFP4} {
		s := models.Scheme{Name: "gguf", Weights: f, Act: unit.BF16, KV: unit.BF16, Stored: true}
		if e, why := engine.Default(m, g, &s); e.Profile().Name != "llama.cpp" {
			t.Errorf("GGUF in %v: %s, %s", f, e.Profile().Name, why)
		}
	}
}
