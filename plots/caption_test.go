package plots

import (
	"strings"
	"testing"

	"llmprof/analytic"
	"llmprof/internal/testkit"
	"llmprof/models"
	"llmprof/unit"
)

func TestCaption(t *testing.T) {
	for _, q := range []struct {
		change func(*analytic.Case)
		v      Variable
		want   string
	}{
		{func(*analytic.Case) {}, fixed,
			"llama2-70b · 8 × A100 SXM 80GB · native engine · TP 8 · batch 32 · prompt 1024, context 1152 " +
				"· weights, KV, activations bf16 · llmprof"},
		{func(c *analytic.Case) {
			c.Parallel.PP, c.Parallel.DP, c.Parallel.SP, c.Parallel.MicroBatches = 2, 3, true, 4
		}, fixed, "llama2-70b · 48 × A100 SXM 80GB · native engine · TP 8 · PP 2 · DP 3 · SP · 4 micro-batches · batch 32 a replica · prompt " +
			"1024, context 1152 " +
			"· weights, KV, activations bf16 · llmprof"},
		{func(c *analytic.Case) { c.Scheme.Weights, c.Scheme.KV = unit.INT8, unit.FP8 }, ByBatch,
			"llama2-70b · 8 × A100 SXM 80GB · native engine · TP 8 · batch varied · prompt 1024, context 1152 · weights int8, KV fp8, " +
				"activations bf16 · llmprof"},
		{func(c *analytic.Case) {
			c.Scheme = models.Scheme{Name: "w4a16-g128", Weights: unit.INT4, Act: unit.BF16, Group: 128}
		}, ByTP, "llama2-70b · A100 SXM 80GB · native engine · TP varied · batch 32 · prompt 1024, context 1152 · weights int4 (w4a16-g128), " +
			"KV, activations bf16 · llmprof"},
		{func(c *analytic.Case) {
			c.Workload.CachedPrefix, c.Workload.Chunk, c.Workload.AllLogits = 512, 256, true
		}, ByContext,
			"llama2-70b · 8 × A100 SXM 80GB · native engine · TP 8 · batch 32 · prompt varied (512 cached) in chunks of 256 with all logits, 128 " +
				"generated · weights, KV, activations bf16 · llmprof"},
		{func(c *analytic.Case) { c.Scheme.Weights, c.Scheme.Act = unit.FP8, unit.FP8 }, fixed,
			"llama2-70b · 8 × A100 SXM 80GB · native engine · TP 8 · batch 32 · prompt 1024, context 1152 · weights, activations fp8, KV bf16 · " +
				"llmprof"},
	} {
		c := testCase(t, "llama2-70b", "a100", 32, 8)
		q.change(c)
		if got := SweepCaption(q.v, c); got != q.want {
			t.Errorf("got  %s\nwant %s", got, q.want)
		}
	}
}

// TestCaptionOfSeveralNamesWhatDiffers keeps what the cases share in one place.
func TestCaptionOfSeveralNamesWhatDiffers(t *testing.T) {
	a, b := testCase(t, "llama3.1-8b", "a100", 1, 1), testCase(t, "deepseek-v3", "h200", 1, 8)
	got := SweepCaption(ByBatch, a, b, a)
	want := "llama3.1-8b or deepseek-v3 · A100 SXM 80GB or 8 × H200 SXM 141GB · native engine · TP 8 · batch varied · " +
		"prompt 1024, context 1152 " +
		"· weights, KV, activations bf16 or weights, activations fp8, KV bf16 · llmprof"
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// TestEveryPictureHasTheCaption checks that all pictures of a case have the same caption, except
// for what the picture varies.
func TestEveryPictureHasTheCaption(t *testing.T) {
	c := testCase(t, "deepseek-v3", "h200", 32, 8)
	g, err := Graph(c, explain(t, c), BothPhases)
	testkit.Must(t, err)
	captions := map[string]string{"graph": g.Caption}
	for _, p := range pictures(t, c) {
		f, err := p.make()
		testkit.Must(t, err)
		captions[p.name] = f.Caption
	}
	for name, got := range captions {
		got = strings.Replace(got, "batch varied", "batch 32", 1)
		got = strings.Replace(got, "prompt varied, 128 generated", "prompt 1024, context 1152", 1)
		if want := Caption(c); got != want {
			t.Errorf("%s: got  %s\nwant %s", name, got, want)
		}
	}
}

// TestLongNamesAreWhole finds every letter of names of any length in the picture.
func TestLongNamesAreWhole(t *testing.T) {
	for _, name := range []string{
		strings.Repeat("abcdefghij", 40), "line\nbreak\x00", strings.Repeat("a long name ", 40), "tiny",
	}[:testkit.Cases(1, 4)] {
		c := testCase(t, "llama3.2-1b", "orin-nano", 1, 1)
		model, gpu := *c.Model, *c.Machine.GPU
		machine := *c.Machine
		model.Name, gpu.Name, machine.GPU = name, strings.ReplaceAll(name, "abc", "xyz"), &gpu
		c.Model, c.Machine = &model, &machine
		for _, p := range pictures(t, c) {
			f, err := p.make()
			testkit.Must(t, err)
			checkLayout(t, f)
			var all strings.Builder
			for _, w := range texts(t, f) {
				all.WriteString(w.text)
			}
			squeeze := func(s string) string { return strings.NewReplacer(" ", "", "·", "").Replace(s) }
			if !strings.Contains(squeeze(all.String()), squeeze(f.Caption)) {
				t.Errorf("%s: the caption with the name %.40q is not whole", p.name, name)
			}
		}
	}
}
