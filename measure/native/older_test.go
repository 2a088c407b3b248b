package native

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"llmprof/analytic/operator"
	"llmprof/measure/native/cuda"
	"llmprof/measure/native/internal/emulate"
)

// older has GPUs before compute capability 8.0, with the shared memory of their blocks (CUDA
// Programming Guide, "Technical Specifications per Compute Capability").
func older() map[string]func(*cuda.Properties) {
	return map[string]func(*cuda.Properties){
		"7.0": func(p *cuda.Properties) { p.Major, p.Minor, p.SharedOptIn = 7, 0, 96<<10 },
		"7.5": func(p *cuda.Properties) { p.Major, p.Minor, p.SharedOptIn = 7, 5, 64<<10 },
	}
}

// The test runs models in fp16 with the kernels for GPUs before 8.0, on the GPU at hand.
func TestOlderAgainstReference(t *testing.T) {
	emulate.Long(t)
	emulate.Device(t)
	type variant struct {
		name  string
		quant Quantization
		batch int
	}
	variants := []variant{
		{"llama", Unquantized, 1}, {"llama", Unquantized, 5}, {"llama", Unquantized, 16}, {"llama", Unquantized, 33}, {"gemma2", Unquantized, 3},
		{"mixtral", Unquantized, 3}, {"gemma", Unquantized, 2}, {"mistral", FP8, 1}, {"mistral", FP8, 32}, {"mistral", INT4, 7},
	}
	if emulate.RealGPU() != nil && os.Getenv("LLMPROF_TEST_SHAPES") != "all" { // the processor takes its time, and to compile too
		variants = []variant{{"gemma2", Unquantized, 3}, {"gemma2", Unquantized, 33}}
	}
	for capability, like := range older() {
		for _, c := range variants {
			t.Run(fmt.Sprintf("%s/%s%v/%d", capability, c.name, c.quant, c.batch), func(t *testing.T) {
				t.Parallel()
				if c.name == "gemma" && capability == "7.5" {
					return // heads of 256 do not fit
				}
				opt := Options{FP16: true, Quantization: c.quant, Seed: 9, Workload: operator.Workload{Batch: c.batch, PromptLen: 66, GenLen: 3},
					like: like}
				if c.batch > 8 {
					opt.PromptLen = 5
				}
				compare(t, open(t, tiny()[c.name], opt), referenceOf(t, tiny()[c.name], opt), opt.GenLen)
			})
		}
	}
}

// Formats that a GPU's generation lacks are refused before memory is allocated. The error names
// those that it has.
func TestTooOld(t *testing.T) {
	for _, c := range []struct {
		major, minor int
		fp16         bool
		want         string
	}{
		{6, 1, true, "has compute capability 6.1; this engine's kernels need 7.0 or newer"},
		{7, 5, false, "has compute capability 7.5, and tensor cores for bf16 came with 8.0: it runs in fp16 (--dtype fp16)"},
		{7, 0, true, ""}, {7, 5, true, ""}, {8, 0, false, ""},
	} {
		s := cuda.NewStandIn()
		s.Device.Major, s.Device.Minor, s.Device.SharedOptIn = c.major, c.minor, 64<<10
		_, err := OnStandIn(modelOf(t, tinyLlama, Options{FP16: c.fp16, Workload: operator.Workload{Batch: 16, PromptLen: 30, GenLen: 2}}), s)
		var no *UnsupportedError
		if c.want == "" && err != nil || c.want != "" && (!errors.As(err, &no) || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%d.%d: %v, want %q", c.major, c.minor, err, c.want)
		}
	}
	for _, kib := range []int{96, 64} {
		for _, q := range []Quantization{Unquantized, FP8, INT4} {
			for _, batch := range []int{1, 8, 16, 32} {
				s := cuda.NewStandIn()
				s.Device.Major, s.Device.Minor, s.Device.SharedOptIn = 7, 5, kib<<10
				opt := modelOf(t, tinyMistral, Options{FP16: true, Quantization: q, Workload: operator.Workload{
					Batch: batch, PromptLen: 30, GenLen: 2}})
				e := ready(t, opt, func(o Options) (*Engine, error) { return OnStandIn(o, s) })
				if err := e.queueStep(); err != nil {
					t.Errorf("batch %d, weights %q in %d KiB: %v", batch, q, kib, err)
				}
			}
		}
	}
}
