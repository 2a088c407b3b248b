package analytic_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"llmprof/analytic"
	"llmprof/analytic/breakdown"
)

// A golden case is one whose figures are held.
type goldenCase struct {
	model, gpu, scheme string
	w                  analytic.Workload
	p                  analytic.Parallelism
}

func (x *goldenCase) String() string {
	return fmt.Sprintf("%s on %s, %s, %+v, %+v", x.model, x.gpu, x.scheme, x.w, x.p)
}

func (x *goldenCase) build(t *testing.T) *analytic.Case {
	c := testCase(t, x.model, x.gpu, 1, 1)
	c.Workload, c.Parallel, c.Scheme, c.Price = x.w, x.p, scheme(t, x.scheme, c.Machine.GPU), 2
	c.Parallel.GPUsPerNode = 8
	return c
}

var goldenCases = []goldenCase{
	{"llama2-70b", "a100", "w16a16", analytic.Workload{Batch: 32, PromptLen: 1024, GenLen: 128}, analytic.Parallelism{TP: 8}},
	{"llama2-70b", "h100", "fp8", analytic.Workload{Batch: 16, PromptLen: 2000, GenLen: 500, Chunk: 512},
		analytic.Parallelism{TP: 4, PP: 2, MicroBatches: 4}},
	{"llama3.1-8b", "h200", "w16a16", analytic.Workload{Batch: 1, PromptLen: 1024, GenLen: 128}, analytic.Parallelism{}},
	{"llama3.1-8b", "rtx-4090", "w4a16-g128", analytic.Workload{Batch: 1, PromptLen: 512, GenLen: 256, CachedPrefix: 256},
		analytic.Parallelism{}},
	{"llama3.1-8b", "b200", "nvfp4", analytic.Workload{Batch: 64, PromptLen: 4096, GenLen: 1024}, analytic.Parallelism{DP: 8}},
	{"llama3.2-1b", "orin-nano", "w16a16", analytic.Workload{Batch: 1, PromptLen: 512, GenLen: 512}, analytic.Parallelism{}},
	{"gpt2", "v100", "w16a16", analytic.Workload{Batch: 4, PromptLen: 100, GenLen: 100, AllLogits: true}, analytic.Parallelism{}},
	{"gemma3-27b", "l40s", "w8a8", analytic.Workload{Batch: 2, PromptLen: 8000, GenLen: 2000}, analytic.Parallelism{TP: 2, SP: true}},
	{"qwen3-30b-a3b", "a100", "w16a16", analytic.Workload{Batch: 1, PromptLen: 1024, GenLen: 128}, analytic.Parallelism{}},
	{"mixtral-8x7b", "mi300x", "w16a16", analytic.Workload{Batch: 8, PromptLen: 1000, GenLen: 200}, analytic.Parallelism{TP: 2, EP: 2}},
	{"gpt-oss-120b", "h100", "mxfp4", analytic.Workload{Batch: 1, PromptLen: 1024, GenLen: 1024}, analytic.Parallelism{}},
	{"deepseek-v3", "h200", "fp8-block", analytic.Workload{Batch: 1, PromptLen: 1024, GenLen: 128}, analytic.Parallelism{TP: 8}},
	{"deepseek-v3", "h200", "fp8-block", analytic.Workload{Batch: 32, PromptLen: 1024, GenLen: 128},
		analytic.Parallelism{TP: 8, EP: 16, DP: 2}},
	{"llama4-scout", "h200", "w16a16", analytic.Workload{Batch: 4, PromptLen: 10000, GenLen: 500}, analytic.Parallelism{TP: 4}},
	{"mamba2-2.7b", "a6000", "w16a16", analytic.Workload{Batch: 1, PromptLen: 1024, GenLen: 128}, analytic.Parallelism{}},
	{"nemotron-h-8b", "a6000", "w16a16", analytic.Workload{Batch: 1, PromptLen: 1024, GenLen: 128}, analytic.Parallelism{}},
	{"qwen3-next-80b-a3b", "h200", "w16a16", analytic.Workload{Batch: 8, PromptLen: 4096, GenLen: 512}, analytic.Parallelism{TP: 2}},
	{"jamba-v0.1", "h100", "w16a16", analytic.Workload{Batch: 2, PromptLen: 2048, GenLen: 256}, analytic.Parallelism{TP: 2}},
}

// A block is the lines of a case in a golden file, each a key and a value.
type block struct{ strings.Builder }

func (b *block) set(key string, value any) {
	switch v := value.(type) {
	case int, bool, string, fmt.Stringer:
		fmt.Fprintf(b, "  %s = %v\n", key, v)
	case float64:
		fmt.Fprintf(b, "  %s = %.5g\n", key, v)
	}
}

func (b *block) span(key string, s analytic.Span) {
	b.set(key+".floor_s", float64(s.Floor))
	b.set(key+".expected_s", float64(s.Expected))
	b.set(key+".low_s", float64(s.Low))
	b.set(key+".high_s", float64(s.High))
}

func (b *block) phase(key string, p *analytic.Phase) {
	b.set(key+".bound", p.Bound.String())
	b.set(key+".clock", p.Clock)
	b.set(key+".throttled_s", float64(p.Throttled))
	b.set(key+".model_flops", float64(p.FLOPs))
	b.set(key+".executed_flops", float64(p.Executed))
	b.set(key+".vector_flops", float64(p.Vector))
	b.set(key+".traffic_bytes", float64(p.Traffic))
	b.set(key+".compulsory_bytes", float64(p.Compulsory))
	b.set(key+".wire_bytes", float64(p.Wire))
}

func (b *block) memory(m *analytic.Memory) {
	b.set("memory.weights_bytes", float64(m.Weights))
	b.set("memory.kv_bytes", float64(m.KV))
	b.set("memory.state_bytes", float64(m.State))
	b.set("memory.activations_bytes", float64(m.Activations))
	b.set("memory.reserve_bytes", float64(m.Reserve))
	b.set("memory.total_bytes", float64(m.Total))
	b.set("memory.max_batch", m.MaxBatch)
	b.set("memory.max_prefill_batch", m.MaxPrefillBatch)
	b.set("memory.max_decode_batch", m.MaxDecodeBatch)
	b.set("memory.max_tokens", m.MaxTokens)
	b.set("memory.fits", m.Fits())
}

// TestGolden holds every figure of a range of estimates, so that a changed
// formula is a difference that can be read. UPDATE_GOLDEN=1 writes it anew.
func TestGolden(t *testing.T) {
	var b block
	for i := range goldenCases {
		x := &goldenCases[i]
		e := predict(t, x.build(t))
		fmt.Fprintf(&b, "%s\n", x)
		b.span("ttft", e.TTFT)
		b.span("tpot", e.TPOT)
		b.span("ttlt", e.TTLT)
		b.phase("prefill", &e.Prefill)
		b.phase("decode", &e.Decode)
		b.memory(&e.Memory)
		b.set("throughput", e.Throughput)
		b.set("input_rate", e.InputRate)
		b.set("mfu", e.MFU)
		b.set("mbu", e.MBU)
		b.set("energy.prompt_j", float64(e.Energy.PerPrompt))
		b.set("energy.token_j", float64(e.Energy.PerToken))
		b.set("energy.request_j", float64(e.Energy.PerRequest))
		b.set("power.prefill_w", float64(e.Energy.Prefill))
		b.set("power.decode_w", float64(e.Energy.Decode))
		b.set("money.hour", float64(e.Money.PerHour))
		b.set("money.request", float64(e.Money.PerRequest))
		b.set("money.million_generated", float64(e.Money.PerMillionGenerated))
		b.set("money.million_tokens", float64(e.Money.PerMillionTokens))
	}
	compareGolden(t, filepath.Join("testdata", "estimates.golden"), b.String())
}

// TestGoldenOperators holds the operators of some of these cases: the kernel that each
// is done in, what it does and what it takes.
func TestGoldenOperators(t *testing.T) {
	var b strings.Builder
	write := func(phase string, lines []breakdown.Operator) {
		for i := range lines {
			l := &lines[i]
			name, in := l.Name, l.In
			if l.Layer != "" {
				name = l.Layer + "/" + name
			}
			if in == "" {
				in = "-"
			}
			fmt.Fprintf(&b, "  %s %s in=%s count=%g bound=%v flops=%.5g vector=%.5g weights=%.5g kv=%.5g state=%.5g acts=%.5g wire=%.5g "+
				"floor_s=%.5g expected_s=%.5g fixed_s=%.5g energy_j=%.5g\n",
				phase, strings.ReplaceAll(name, " ", "_"), in, l.Layers, l.Bound, float64(l.FLOPs), float64(l.Vector), float64(l.Weights),
				float64(l.KV), float64(l.State),
				float64(l.Acts), float64(l.Wire), float64(l.Floor), float64(l.Expected), float64(l.Fixed), float64(l.Energy))
		}
	}
	for _, i := range []int{0, 1, 2, 7, 8, 15} {
		x := &goldenCases[i]
		r := explain(t, x.build(t))
		fmt.Fprintf(&b, "%s\n", x)
		write("prefill", r.PrefillOps)
		write("decode", r.DecodeOps)
	}
	compareGolden(t, filepath.Join("testdata", "operators.golden"), b.String())
}

func compareGolden(t *testing.T, file, got string) {
	t.Helper()
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	gotLines, wantLines := strings.Split(got, "\n"), strings.Split(string(want), "\n")
	if len(gotLines) != len(wantLines) {
		t.Errorf("%s has %d lines, want %d", file, len(wantLines), len(gotLines))
	}
	of := ""
	for i := range min(len(gotLines), len(wantLines)) {
		if !strings.HasPrefix(gotLines[i], " ") {
			of = gotLines[i]
		}
		if gotLines[i] != wantLines[i] {
			t.Errorf("%s line %d, %s:\n got %s\nwant %s", file, i+1, of, gotLines[i], wantLines[i])
		}
	}
}
