package traced

import (
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"llmprof"
	"llmprof/hardware"
	"llmprof/models"
	"llmprof/validate"
)

// scorer predicts by the tables and the calibrations that come with the program.
func scorer(t testing.TB) *validate.Scorer {
	t.Helper()
	table, err := models.Load(llmprof.ModelsJSON)
	if err != nil {
		t.Fatal(err)
	}
	gpus, err := hardware.Load(llmprof.HardwareTOML)
	if err != nil {
		t.Fatal(err)
	}
	return &validate.Scorer{
		Model: table.Model, GPU: func(name string) (*hardware.GPU, error) { g, err := gpus.GPU(name); return &g, err },
		Calibration: func(g *hardware.GPU, engine string) (*hardware.CalibrationFile, error) {
			return hardware.BuiltIn(llmprof.Calibrations, g, engine)
		},
	}
}

// trace reads a trace of the experiments, with what its note says was run.
func trace(t testing.TB, folder, name string) (*Timeline, *Subject) {
	t.Helper()
	l, err := ScanFile(filepath.Join("..", "..", "experiments", folder, "traces", name+".json.gz"))
	if err != nil {
		t.Fatal(err)
	}
	n := NoteOf(l)
	layers := map[string]int{"llama3.1-8b": 32, "llama3.2-1b": 16, "qwen3-30b-a3b": 48}[n.Model]
	return l, &Subject{
		Config: validate.Config{Model: n.Model, GPU: folder[:4], Engine: "vllm", TP: 1, Batch: n.Batch, Prompt: n.Prompt, Gen: 2,
			Weights: n.Weights},
		Context: n.Context, Layers: layers,
	}
}

// Every kernel of real traces of vLLM is named, the parts sum to the whole, and the layers' GEMMs are
// where the estimate has them.
func TestRealTraces(t *testing.T) {
	s := scorer(t)
	for _, c := range []struct {
		folder, name string
		decode       bool
		kernels      map[string]int
	}{
		{"h100-vllm", "llama3.1-8b-decode-b32", true, map[string]int{
			"qkv_proj": 32, "o_proj": 32, "gate_up_proj": 32, "down_proj": 64, "attention": 64, "rotary": 32, "kv_write": 32,
			"post_attention_layernorm": 32, "input_layernorm": 31, "norm": 1, "embedding": 1, "lm_head": 1}},
		{"h200-vllm", "llama3.1-8b-fp8-decode-b32", true, map[string]int{
			"qkv_proj": 32, "o_proj": 64, "gate_up_proj": 32, "down_proj": 32, "attention": 64, "activation": 32, "lm_head": 1}},
		{"h100-vllm", "qwen3-30b-a3b-decode-b32", true, map[string]int{
			"qkv_proj": 48, "router": 48, "o_proj": 96, "experts_gate_up": 48, "experts_down": 48, "experts_activation": 48, "qk_norm_rotary": 96,
			"lm_head": 1}},
		{"h100-vllm", "llama3.1-8b-prompt-1024", false, map[string]int{
			"qkv_proj": 32, "o_proj": 32, "gate_up_proj": 32, "down_proj": 32, "attention": 32, "lm_head": 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, q := trace(t, c.folder, c.name)
			phases, err := Explain(l, q, s)
			if err != nil {
				t.Fatal(err)
			}
			p := &phases[0]
			if p.Decode != c.decode {
				t.Fatalf("decode %v of %d phases", p.Decode, len(phases))
			}
			var others, unknown float64
			for _, o := range p.Others {
				others += o.Seconds
				if !o.Known {
					unknown += o.Seconds
					t.Logf("unknown: %.1f us %d %s", 1e6*o.Seconds, o.Kernels, o.Name)
				}
			}
			for i := range p.Rows {
				r := &p.Rows[i]
				if r.Predicted == nil {
					t.Errorf("%s has no prediction", r.Name)
					continue
				}
				t.Logf("%-26s %4d  %8.1f us  predicted %8.1f", r.Name, r.Kernels, 1e6*r.Observed, 1e6*float64(r.Predicted.Expected))
				if want, ok := c.kernels[r.Name]; ok && r.Kernels != want {
					t.Errorf("%s has %d kernels, want %d", r.Name, r.Kernels, want)
				}
				delete(c.kernels, r.Name)
			}
			t.Logf("span %.1f busy %.1f sum %.1f others %.1f overlap %.1f steps %d", 1e6*p.Span, 1e6*p.Busy, 1e6*p.Sum.Observed, 1e6*others,
				1e6*p.Overlap, p.Steps)
			if len(c.kernels) > 0 {
				t.Errorf("not found: %v", c.kernels)
			}
			if off := p.Sum.Observed + others - p.Overlap - p.Busy; math.Abs(off) > 1e-9 {
				t.Errorf("operators, others and overlap are off busy time by %v s", off)
			}
			if unknown > 0.005*p.Span || p.Busy > p.Span+1e-9 {
				t.Errorf("%v of %v s are of unknown kernels", unknown, p.Span)
			}
		})
	}
}

// A kernel that still runs when the next step begins counts in its own step until then.
func TestStepsThatOverlap(t *testing.T) {
	l, q := trace(t, "h100-vllm", "llama3.1-8b-decode-b32")
	begins := 0
	for i := 1; i < len(l.Kernels); i++ {
		if classOf(l.Kernels[i].Name) == embedding {
			last := &l.Kernels[i-1]
			last.Dur = l.Kernels[i].TS + 500 - last.TS
			begins++
		}
	}
	phases, err := Explain(l, q, scorer(t))
	if err != nil {
		t.Fatal(err)
	}
	p := &phases[0]
	sum := p.Sum.Observed
	for _, o := range p.Others {
		sum += o.Seconds
	}
	if off := p.Busy + p.Idle() - p.Span; begins == 0 || math.Abs(off) > 1e-9 || math.Abs(sum-p.Overlap-p.Busy) > 1e-9 {
		t.Errorf("%d steps of %v s: kernels of %v s, of which %v side by side, run for %v", begins, p.Span, sum, p.Overlap, p.Busy)
	}
}

// A prompt that was traced alone takes what is expected less the time of the power limit, which the estimate has for
// prompts that follow each other: 14 % more without that.
func TestTracedBurst(t *testing.T) {
	l, q := trace(t, "h200-vllm", "llama3.1-8b-prompt-4096")
	phases, err := Explain(l, q, scorer(t))
	if err != nil {
		t.Fatal(err)
	}
	p := &phases[0]
	expected := float64(p.Sum.Predicted.Expected)
	if all, burst := expected/p.Sum.Observed-1, (expected-float64(p.Throttled))/p.Sum.Observed-1; all < 0.1 || math.Abs(burst) > 0.05 {
		t.Errorf("operators are off by %.1f %%, without the power limit by %.1f %%", 100*all, 100*burst)
	}
}

// made is a time line of steps of a model of two layers by names of SGLang's and FlashInfer's kernels, of
// which none tells where a step begins.
func made(steps, layers int, graph bool) *Timeline {
	l := &Timeline{Graphs: map[int64]bool{7: graph}}
	at := 100.0
	launch := func(name string, dur float64) {
		l.Kernels = append(l.Kernels, Launch{Name: name, TS: at, Dur: dur, Correlation: 7})
		at += dur + 1
	}
	for range steps {
		launch("Memcpy HtoD (Pageable -> Device)", 2)
		launch("create_flashinfer_kv_indices_triton", 2)
		launch("void at::native::vectorized_gather_kernel<16, long>(char*)", 3)
		for range layers {
			launch("void flashinfer::norm::FusedAddRMSNormKernel<8u, __nv_bfloat16>(...)", 4)
			launch("nvjet_tst_128x64_64x8_1x2_h_bz_TNT", 20)
			launch("void flashinfer::BatchQKApplyRotaryPosIdsCosSinCacheKernel<true>(...)", 3)
			launch("void sglang::store_kv_cache<256>(...)", 2)
			launch("void flashinfer::BatchDecodeWithPagedKVCacheKernel<...>(...)", 30)
			launch("nvjet_tst_64x8_64x16_2x1_v_bz_TNT", 10)
			launch("void flashinfer::norm::FusedAddRMSNormKernel<8u, __nv_bfloat16>(...)", 4)
			launch("nvjet_tst_256x128_64x4_1x2_h_bz_TNT", 40)
			launch("void flashinfer::activation::act_and_mul_kernel<__nv_bfloat16>(...)", 5)
			launch("nvjet_tst_64x8_64x16_4x1_v_bz_TNT", 25)
		}
		launch("void flashinfer::norm::FusedAddRMSNormKernel<8u, __nv_bfloat16>(...)", 4)
		launch("nvjet_tst_384x8_64x4_2x1_v_bz_TNT", 60)
		launch("mystery_kernel<int>(x)", 8)
	}
	return l
}

// Names of another engine are found as well, and a step that the trace cuts off is left out.
func TestOtherNames(t *testing.T) {
	for _, graph := range []bool{true, false} {
		l := made(4, 16, graph)
		l.Kernels = l.Kernels[:len(l.Kernels)-20] // of the last step
		q := &Subject{Config: validate.Config{Model: "llama3.2-1b", GPU: "h200", Engine: "sglang", TP: 1, Batch: 4, Prompt: 512,
			Weights: "bf16"}, Layers: 16}
		phases, err := Explain(l, q, scorer(t))
		if err != nil || len(phases) != 1 {
			t.Fatalf("%d phases, %v", len(phases), err)
		}
		p := &phases[0]
		if p.Decode != graph || p.Graph != graph || p.Steps != 3 || p.Partial != 1 {
			t.Errorf("graph %v: decode %v, %d steps, %d partial", graph, p.Decode, p.Steps, p.Partial)
		}
		got := map[string]string{}
		for _, r := range p.Rows {
			got[r.Name] = fmt.Sprintf("%d %.0f", r.Kernels, 1e6*r.Observed)
		}
		for name, want := range map[string]string{
			"qkv_proj": "16 320", "rotary": "16 48", "kv_write": "16 32", "attention": "16 480", "o_proj": "16 160",
			"post_attention_layernorm": "16 64",
			"gate_up_proj":             "16 640", "activation": "16 80", "down_proj": "16 400", "norm": "1 4", "lm_head": "1 60",
			"input_layernorm": "16 64", "sampling": "1 8",
		} {
			if got[name] != want {
				t.Errorf("%s: %q, want %q kernels and us", name, got[name], want)
			}
		}
		if idle := p.Idle(); math.Abs(idle-float64(3+160+3)*1e-6) > 2e-6 {
			t.Errorf("%v s idle, want 1 us after each kernel", idle)
		}
	}
}

func TestRefusals(t *testing.T) {
	s := scorer(t)
	whole := func() *Subject {
		return &Subject{Config: validate.Config{Model: "llama3.2-1b", GPU: "h200", Engine: "vllm", TP: 1, Batch: 4, Prompt: 512,
			Weights: "bf16"}, Layers: 16}
	}
	for want, change := range map[string]func(*Timeline, *Subject){
		"no kernel of a GPU":        func(l *Timeline, _ *Subject) { l.Kernels = nil },
		"no step of 100 attentions": func(_ *Timeline, q *Subject) { q.Layers = 100 },
		"give batch":                func(_ *Timeline, q *Subject) { q.Config.Batch = 0 },
		"give prompt_len, or":       func(_ *Timeline, q *Subject) { q.Config.Prompt = 0 },
		"unheard-of":                func(_ *Timeline, q *Subject) { q.Config.Model = "unheard-of" },
	} {
		l, q := made(4, 16, true), whole()
		change(l, q)
		if _, err := Explain(l, q, s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// FuzzExplain checks that whatever names and times kernels have, the parts sum to the busy time.
func FuzzExplain(f *testing.F) {
	f.Add("embedding", "nvjet", "flash_fwd", "silu", 3.0, 5.0, uint8(9))
	f.Add("gemm", "attnfwdcombine", "rms_norm", "memcpy", 0.0, 1e9, uint8(1))
	s := scorer(f)
	f.Fuzz(func(t *testing.T, a, b, c, d string, x, y float64, n uint8) {
		if !(x >= 0 && y >= 0 && x < 1e12 && y < 1e12) {
			return
		}
		l := &Timeline{Graphs: map[int64]bool{}}
		at := 0.0
		for i := range int(n) {
			name := []string{a, b, c, d, "flash_attn", "embedding"}[i%6]
			dur := []float64{x, y}[i%2]
			l.Kernels = append(l.Kernels, Launch{Name: name, TS: at, Dur: dur, Correlation: int64(i)})
			at += dur / 2
		}
		q := &Subject{Config: validate.Config{Model: "llama3.2-1b", GPU: "h200", Engine: "vllm", TP: 1, Batch: 4, Prompt: 512, Weights: "bf16"},
			Layers: 1}
		phases, err := Explain(l, q, s)
		if err != nil {
			return
		}
		for i := range phases {
			p := &phases[i]
			sum := p.Sum.Observed - p.Overlap - p.Busy
			for _, o := range p.Others {
				sum += o.Seconds
			}
			if !(math.Abs(sum) <= 1e-9+1e-6*p.Busy) || p.Idle() < 0 {
				t.Errorf("off by %v of %v", sum, p.Busy)
			}
		}
	})
}
