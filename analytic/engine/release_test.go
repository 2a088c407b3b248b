package engine_test

import (
	"math"
	"strings"
	"testing"

	"llmprof/analytic"
	"llmprof/analytic/engine"
	"llmprof/internal/testkit/casetest"
	"llmprof/roofline"
	"llmprof/unit"
)

// decode is the time per token of a mixture by an engine.
func decode(t *testing.T, name string) analytic.Span {
	t.Helper()
	c := casetest.Case(t, "qwen3-30b-a3b", "h200", 8, 2)
	c.Machine = casetest.Machine(t, "h200", name)
	return predict(t, c).TPOT
}

// A release whose kernels were timed is the engine itself. Another has the same expected time and a wider interval;
// before asynchronous scheduling a step also waits for its host, 0.97 ms and 11.2 µs a sequence.
func TestReleases(t *testing.T) {
	for _, name := range []string{"vllm", "sglang", "tensorrt-llm"} {
		plain, other := decode(t, name), decode(t, name+"@unknown")
		if other.Expected != plain.Expected || !(other.Low < plain.Low) || !(other.High > plain.High) {
			t.Errorf("%s takes %v, of an unknown release %v: want the same expected time and a wider interval", name, plain, other)
		}
	}
	plain := decode(t, "vllm")
	if timed := decode(t, "vllm@v0.24.1"); timed != plain {
		t.Errorf("vllm 0.24.1 takes %v, vllm %v", timed, plain)
	}
	if known := decode(t, "vllm@0.14.0"); known.Expected != plain.Expected {
		t.Errorf("vllm 0.14.0 takes %v: want %v, as it schedules asynchronously", known.Expected, plain.Expected)
	}
	host := unit.Seconds(0.97e-3 + 8*11.2e-6)
	for _, release := range []string{"0.12.0", "0.9.2"} {
		before := decode(t, "vllm@"+release)
		near(t, "a step of vllm "+release, before.Expected, plain.Expected+host, 1e-9)
		if before.Expected-before.Low < host/2 || before.High-before.Expected < host {
			t.Errorf("vllm %s takes %v: want an interval from half to twice of %v that the host takes", release, before, host)
		}
	}
}

// A release that was not measured is said to be, with the release whose constants stand for it and by how much its interval is wider.
func TestUnmeasuredIsSaid(t *testing.T) {
	for name, want := range map[string]string{
		"vllm@0.33.0":          "vLLM 0.33.0: not measured; constants of 0.25.1, wider by 14 %",
		"sglang@0.5.22":        "SGLang 0.5.22: not measured; constants of 0.5.14, wider by 27 %",
		"sglang@0.5.23":        "SGLang 0.5.23: measured on GPUs of the generation hopper alone; elsewhere constants of 0.5.14, wider by 27 %",
		"sglang@0.5.9+deepep":  "SGLang 0.5.9: not measured; constants of 0.5.14, wider by 27 %",
		"tensorrt-llm@unknown": "TensorRT-LLM unknown: not measured; constants of 1.3.0rc20, wider by 6 %",
		"transformers-graph@5": "transformers 5: not measured; constants of 5.17, wider by 14 %",
		"vllm":                 "",
		"vllm@0.24.1":          "",
		"transformers@v5.17.0": "",
		"tensorrt-llm-2024":    "",
	} {
		p := casetest.Engine(t, name).Profile()
		if p.Unmeasured != want || (p.ReleaseError > 0) != (want != "") {
			t.Errorf("%s: %q, wider by %v, want %q", name, p.Unmeasured, p.ReleaseError, want)
		}
	}
	for release, want := range map[string]bool{"0.10.2": true, "0.13.9": true, "0.14.0": false, "unknown": false} {
		if got := strings.Contains(casetest.Engine(t, "vllm@"+release).Profile().Source, "pull request 27614"); got != want {
			t.Errorf("vllm %s: its source names the change of 0.14.0: %v", release, got)
		}
	}
}

// What is no release, and releases of engines that have none here, are errors that say so.
func TestNoRelease(t *testing.T) {
	for name, want := range map[string]string{
		"vllm@": "want a version", "vllm@0.19.0@1": "want a version", "vllm@ 0.19": "want a version", "vllm@abc": "want a version",
		"sglang@latest": "want a version", "vllm@v": "want a version", "vllm@" + strings.Repeat("1", 50): "want a version",
		"llama.cpp@b6000": "only releases of", "native@1": "only releases of", "vllm-2024@0.5.3": "only releases of",
		"vlm@0.19.0": "unknown engine",
	} {
		if _, err := engine.Parse(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.30s: error %v: want one with %q", name, err, want)
		}
	}
}

// An engine has one release.
func TestOneRelease(t *testing.T) {
	e, err := engine.Parse("vllm@0.12.0")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := engine.AtRelease(e, "0.19.0"); err == nil || !strings.Contains(err.Error(), "has a release already") {
		t.Errorf("vllm@0.12.0 at 0.19.0: error %v", err)
	}
}

// Products in FP8 by blocks of TensorRT-LLM before 1.3 have the slower kernel in them that quantizes their inputs, on Blackwell's GPUs of
// data centres alone.
func TestOlderProductsQuantize(t *testing.T) {
	for _, x := range []struct {
		gpu, engine string
		within      bool
	}{
		{"b200", "tensorrt-llm@1.2.0rc6.post2", true}, {"b200", "tensorrt-llm@1.3.0rc20", false}, {"b200", "tensorrt-llm", false},
		{"h200", "tensorrt-llm@1.2.0rc6.post2", false}, {"b200", "sglang@0.5.9", false},
	} {
		c := casetest.Case(t, "deepseek-r1", x.gpu, 1, 8)
		c.Machine, c.Scheme = casetest.Machine(t, x.gpu, x.engine), casetest.Scheme(t, "fp8-block", c.Machine.GPU)
		p, err := analytic.NewPredictor(c)
		if err != nil {
			t.Fatal(err)
		}
		rows, launches := 0.0, 0
		s := p.Step(1, 64, 0, 1)
		p.Walk(&s, func(l *analytic.Lowering, _ []roofline.Cost) {
			for i := range l.Kernels {
				if k := &l.Kernels[i]; l.Ops[k.Main].Name == "o_proj" {
					rows, launches = rows+k.Quantized, launches+1
				}
			}
		})
		if x.within != (rows > 0) || rows != 0 && rows != 64*float64(launches) {
			t.Errorf("%s on %s: products quantize %g rows in %d kernels, want %v", x.engine, x.gpu, rows, launches, x.within)
		}
	}
}

// Older releases have the constants of tables of their own on the boards that these are of, and no others.
func TestOlderTables(t *testing.T) {
	constant := func(gpu, name, key string) float64 {
		return casetest.Machine(t, gpu, name).Cal.Constants[roofline.ConstantOf(key)]
	}
	for _, x := range []struct {
		gpu, older, newer, key string
		differ                 bool
	}{
		{"h200", "sglang@0.5.6.post2", "sglang@0.5.9", "attention.fixed", true}, {"h200", "sglang@0.5.9", "sglang", "attention.fixed", false},
		{"h100", "sglang@0.5.6.post2", "sglang", "attention.fixed", false},
		{"h200", "tensorrt-llm@1.1.0rc2", "tensorrt-llm", "latent_attention_fp8.fixed", true},
		{"h100", "tensorrt-llm@1.0.0rc3", "tensorrt-llm", "latent_attention_fp8.fixed", false},
		{"h200", "tensorrt-llm@1.3.0rc10", "tensorrt-llm", "latent_attention_fp8.fixed", false},
		{"h200", "tensorrt-llm@unknown", "tensorrt-llm", "grouped_gemm_fp8_block.expert", false},
		{"h200", "tensorrt-llm@1.2.0", "tensorrt-llm", "grouped_gemm_fp8_block.expert", true},
		{"b300", "tensorrt-llm@1.2.0", "tensorrt-llm", "gemm_fp8_block.fixed", true},
		{"rtx-pro-6000-server", "tensorrt-llm@1.2.0", "tensorrt-llm", "gemm_fp8_block.fixed", false},
	} {
		a, b := constant(x.gpu, x.older, x.key), constant(x.gpu, x.newer, x.key)
		if (a != b) != x.differ || x.differ && a <= b {
			t.Errorf("%s on %s: %g by %s and %g by %s, want the older slower: %v", x.key, x.gpu, a, x.older, b, x.newer, x.differ)
		}
	}
}

// TestTraced holds that a release which was measured on GPUs of one generation has the interval of the timed releases there, and a wider
// one elsewhere.
func TestTraced(t *testing.T) {
	width := func(engine, gpu string) float64 {
		c := casetest.Case(t, "llama3.1-8b", gpu, 1, 1)
		c.Machine = casetest.Machine(t, gpu, engine)
		s := predict(t, c).TPOT
		return float64((s.High - s.Expected) / s.Expected)
	}
	for _, x := range []struct {
		gpu    string
		traced bool
	}{{"h200", true}, {"h100", true}, {"b200", false}, {"a100", false}} {
		timed, traced, other := width("sglang", x.gpu), width("sglang@0.5.23", x.gpu), width("sglang@0.5.22", x.gpu)
		if near := math.Abs(traced/timed-1) < 0.2; near != x.traced || (math.Abs(traced/other-1) < 0.01) == x.traced {
			t.Errorf("%s: +%.0f %% of the timed release, %.0f of 0.5.23, %.0f of 0.5.22", x.gpu, 100*timed, 100*traced, 100*other)
		}
	}
}
