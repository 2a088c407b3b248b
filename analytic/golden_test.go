package analytic

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestGolden holds every figure of a range of estimates, so that a changed
// formula is a difference that can be read. UPDATE_GOLDEN=1 writes it anew.
func TestGolden(t *testing.T) {
	var b strings.Builder
	for _, x := range []struct {
		model, gpu, scheme string
		w                  Workload
		p                  Parallelism
	}{
		{"llama2-70b", "a100", "w16a16", Workload{Batch: 32, Prompt: 1024, Gen: 128}, Parallelism{TP: 8}},
		{"llama2-70b", "h100", "fp8", Workload{Batch: 16, Prompt: 2000, Gen: 500, Chunk: 512}, Parallelism{TP: 4, PP: 2, MicroBatches: 4}},
		{"llama3.1-8b", "h200", "w16a16", Workload{Batch: 1, Prompt: 1024, Gen: 128}, Parallelism{}},
		{"llama3.1-8b", "rtx-4090", "w4a16-g128", Workload{Batch: 1, Prompt: 512, Gen: 256, CachedPrefix: 256}, Parallelism{}},
		{"llama3.1-8b", "b200", "nvfp4", Workload{Batch: 64, Prompt: 4096, Gen: 1024}, Parallelism{DP: 8}},
		{"llama3.2-1b", "orin-nano", "w16a16", Workload{Batch: 1, Prompt: 512, Gen: 512}, Parallelism{}},
		{"gpt2", "v100", "w16a16", Workload{Batch: 4, Prompt: 100, Gen: 100, AllLogits: true}, Parallelism{}},
		{"gemma3-27b", "l40s", "w8a8", Workload{Batch: 2, Prompt: 8000, Gen: 2000}, Parallelism{TP: 2, SP: true}},
		{"qwen3-30b-a3b", "a100", "w16a16", Workload{Batch: 1, Prompt: 1024, Gen: 128}, Parallelism{}},
		{"mixtral-8x7b", "mi300x", "w16a16", Workload{Batch: 8, Prompt: 1000, Gen: 200}, Parallelism{TP: 2, EP: 2}},
		{"gpt-oss-120b", "h100", "mxfp4", Workload{Batch: 1, Prompt: 1024, Gen: 1024}, Parallelism{}},
		{"deepseek-v3", "h200", "fp8-block", Workload{Batch: 1, Prompt: 1024, Gen: 128}, Parallelism{TP: 8}},
		{"deepseek-v3", "h200", "fp8-block", Workload{Batch: 32, Prompt: 1024, Gen: 128}, Parallelism{TP: 8, EP: 16, DP: 2}},
		{"llama4-scout", "h200", "w16a16", Workload{Batch: 4, Prompt: 10000, Gen: 500}, Parallelism{TP: 4}},
		{"mamba2-2.7b", "a6000", "w16a16", Workload{Batch: 1, Prompt: 1024, Gen: 128}, Parallelism{}},
		{"nemotron-h-8b", "a6000", "w16a16", Workload{Batch: 1, Prompt: 1024, Gen: 128}, Parallelism{}},
		{"qwen3-next-80b-a3b", "h200", "w16a16", Workload{Batch: 8, Prompt: 4096, Gen: 512}, Parallelism{TP: 2}},
		{"jamba-v0.1", "h100", "w16a16", Workload{Batch: 2, Prompt: 2048, Gen: 256}, Parallelism{TP: 2}},
	} {
		c := testCase(t, x.model, x.gpu, 1, 1)
		c.Workload, c.Parallel, c.Scheme, c.Price = x.w, x.p, scheme(t, x.scheme, c.Machine.GPU), 2
		c.Parallel.GPUsPerNode = 8
		e, err := Predict(c)
		if err != nil {
			t.Fatalf("%s on %s: %v", x.model, x.gpu, err)
		}
		fmt.Fprintf(&b, "%s on %s, %s, %+v, %+v\n", x.model, x.gpu, x.scheme, x.w, x.p)
		fmt.Fprintf(&b, "  TTFT %.5g TPOT %.5g TTLT %.5g\n", fields(e.TTFT), fields(e.TPOT), fields(e.TTLT))
		fmt.Fprintf(&b, "  prefill %s\n  decode  %s\n", phaseLine(e.Prefill), phaseLine(e.Decode))
		m := e.Memory
		fmt.Fprintf(&b, "  memory  %.5g batch %d %d %d tokens %d fits %v\n",
			[]float64{float64(m.Weights), float64(m.KV), float64(m.State), float64(m.Activations), float64(m.Reserve), float64(m.Total)},
			m.MaxBatch, m.MaxPrefillBatch, m.MaxDecodeBatch, m.MaxTokens, m.Fits())
		n := e.Energy
		fmt.Fprintf(&b, "  rate %.5g %.5g MFU %.4f MBU %.4f J %.5g W %.5g $ %.5g\n", e.Throughput, e.InputRate, e.MFU, e.MBU,
			[]float64{float64(n.PerPrompt), float64(n.PerToken), float64(n.PerRequest)},
			[]float64{float64(n.Prefill), float64(n.Decode)},
			[]float64{float64(e.Money.PerHour), float64(e.Money.PerRequest), float64(e.Money.PerMillionGenerated), float64(e.Money.PerMillionTokens)})
	}
	compareGolden(t, filepath.Join("testdata", "estimates.golden"), b.String())
}

func fields(s Span) []float64 {
	return []float64{float64(s.Floor), float64(s.Expected), float64(s.Low), float64(s.High)}
}

func phaseLine(p Phase) string {
	return fmt.Sprintf("%v-bound FLOPs %.5g %.5g %.5g bytes %.5g %.5g wire %.5g", p.Bound,
		float64(p.FLOPs), float64(p.Executed), float64(p.Vector), float64(p.Traffic), float64(p.Must), float64(p.Wire))
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
	for i := range max(len(gotLines), len(wantLines)) {
		var g, w string
		if i < len(gotLines) {
			g = gotLines[i]
		}
		if i < len(wantLines) {
			w = wantLines[i]
		}
		if g != w {
			t.Fatalf("%s line %d:\n got %s\nwant %s", file, i+1, g, w)
		}
	}
}
