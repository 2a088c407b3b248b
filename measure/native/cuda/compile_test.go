package cuda_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"llmprof/internal/testkit"
	"llmprof/measure/native/cuda"
	"llmprof/measure/native/internal/emulate"
	"llmprof/measure/native/internal/kernels"
)

// compiler opens NVRTC, which needs no GPU, from LLMPROF_TEST_CUDA_LIBS, from the usual places, or
// from the tests' Python environment. Without NVRTC it skips the test, unless
// LLMPROF_PYTHON=required makes that an error.
func compiler(t *testing.T) *cuda.Compiler {
	t.Helper()
	named := os.Getenv("LLMPROF_TEST_CUDA_LIBS")
	c, err := cuda.OpenCompiler(named)
	for _, folder := range wheels(t) {
		if err == nil || named != "" {
			break
		}
		c, err = cuda.OpenCompiler(folder)
	}
	if _, ok := errors.AsType[*cuda.MissingError](err); ok && os.Getenv("LLMPROF_PYTHON") != "required" {
		t.Skipf("no NVRTC here (make venv brings it, or LLMPROF_TEST_CUDA_LIBS names its folder): %v", err)
	}
	testkit.Must(t, err)
	return c
}

// wheels returns the folders of NVRTC in the tests' Python environment.
func wheels(t *testing.T) (folders []string) {
	t.Helper()
	python := os.Getenv("LLMPROF_PYTHON")
	if python == "" || python == "required" {
		python = "../../../.venv/bin/python"
	}
	python, err := filepath.Abs(python)
	testkit.Must(t, err)
	for _, wheel := range []string{"cu13", "cuda_nvrtc"} {
		found, err := filepath.Glob(filepath.Join(filepath.Dir(filepath.Dir(python)), "lib", "python3*", "site-packages", "nvidia", wheel, "lib"))
		testkit.Must(t, err)
		folders = append(folders, found...)
	}
	return folders
}

// shapes has the head shapes to compile for: some that differ in everything, or, with
// LLMPROF_TEST_SHAPES=all, all that the engine supports. No kernel reads both the shape of a head and
// the number of ranks, so one program differs in both. A program with kernels by WGMMA, or with those of
// quantized weights, has every kernel of the program without, so that one is compiled alone.
func shapes() [][]string {
	small := []string{"HEAD_DIM=64", "GROUP=7", "QK_NORM=1", "QKV_BIAS=1"}
	shared := [][]string{append(wgmma(small), "RANKS=2"), append(gemma("128", 2), "RANKS=8")}
	if os.Getenv("LLMPROF_TEST_SHAPES") != "all" {
		return append(shared, wgmma(llama()))
	}
	var all [][]string
	for _, dim := range []int{64, 128, 256} {
		for group := 1; group <= 8 && group*dim <= 1024; group++ {
			flag := fmt.Sprint(group % 2)
			all = append(all, []string{fmt.Sprintf("HEAD_DIM=%d", dim), fmt.Sprintf("GROUP=%d", group), "QK_NORM=" + flag, "QKV_BIAS=" + flag})
		}
	}
	return append(append(all, shared...), gemma("64", 8), gemma("128", 1), gemma("256", 4))
}

// llama is the head shape of llama3.1-8b.
func llama() []string { return []string{"HEAD_DIM=128", "GROUP=4", "QK_NORM=0", "QKV_BIAS=0"} }

// wgmma adds the GEMMs of llama3.1-8b for batches of 17 to 64.
func wgmma(heads []string) []string {
	return append(heads,
		"WGMMA_GEMM=1", "WGMMA_NORM_32=48,3,32,2,2", "WGMMA_HEAD_32=112,3,32,1,1", "WGMMA_SWIGLU_32=112,6,32,1,1",
		"WGMMA_RESIDUAL_32=32,4,32,2,2",
		"WGMMA_NORM_64=48,2,64,2,2", "WGMMA_HEAD_64=112,3,64,1,1", "WGMMA_SWIGLU_64=112,5,64,1,1", "WGMMA_RESIDUAL_64=32,3,64,2,2")
}

// formats has combinations of fp16 and quantized weights: some, or, with LLMPROF_TEST_SHAPES=all,
// every one.
func formats() [][]string {
	rings := func(bits int, scores, deep [4]string) []string {
		out := []string{fmt.Sprintf("QUANTIZED=%d", bits)}
		for i, rows := range []int{1, 8, 16, 32} {
			for name, ring := range map[string]string{"QUANTIZED_NORM": scores[i], "QUANTIZED_SWIGLU": scores[i], "QUANTIZED_RESIDUAL": deep[i]} {
				out = append(out, fmt.Sprintf("%s_%d=%s", name, rows, ring))
			}
		}
		slices.Sort(out)
		return out
	}
	fp8 := rings(8, [4]string{"1,2,1024,3,1,1,8", "1,2,512,3,8,1,8", "2,2,512,3,16,1,8", "4,8,256,3,32,8,16"},
		[4]string{"1,2,1024,3,1,1,8", "1,2,512,5,8,1,8", "2,2,512,3,16,1,8", "4,8,256,3,32,8,16"})
	int4 := rings(4, [4]string{"1,2,1024,4,1,1,8", "1,2,1024,3,8,1,8", "2,2,512,4,16,2,8", "4,8,256,4,32,8,16"},
		[4]string{"1,2,1024,6,1,1,8", "1,2,1024,3,8,1,8", "2,2,512,4,16,2,8", "4,8,256,4,32,8,16"})
	fp16 := append(llama(), "FP16=1")
	some := [][]string{append(gemma("64", 8), "FP16=1"), append(gemma("128", 4), fp8...), append(slices.Clone(fp16), int4...)}
	if os.Getenv("LLMPROF_TEST_SHAPES") != "all" {
		return some
	}
	return append(some, fp16, append(slices.Clone(fp16), fp8...), append(llama(), int4...), append(llama(), fp8...),
		append(gemma("128", 4), int4...))
}

// gemma defines all that only Gemma's kernels, and those of mixtures, have.
func gemma(dim string, group int) []string {
	return []string{
		"HEAD_DIM=" + dim, fmt.Sprintf("GROUP=%d", group), "QK_NORM=1", "QKV_BIAS=0", "NORM_OFFSET=1", "GELU=1", "OUTPUT_NORM=1", "SLIDING=1",
		"MOE=1", "EXPERTS_1=512,4,256,12", "EXPERTS_8=256,8,256,8", "EMBED_SCALE=4.8e+01f", "ATT_SOFTCAP=50.f", "LOGIT_SOFTCAP=30.f",
	}
}

// stepShape defines the sizes of a mixture whose step is one kernel, with two key heads.
func stepShape(t *testing.T, shape []string) string {
	t.Helper()
	var dim, group int
	if _, err := fmt.Sscanf(strings.Join(shape[:2], " "), "HEAD_DIM=%d GROUP=%d", &dim, &group); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("STEP_SHAPE=%d,2048,768,128,8,1,%d,2,16,6,132,6", 2*group*dim, 2*(group+2)*dim)
}

// withoutSkinny leaves out the skinny GEMMs of 16-bit weights, to compile which takes three quarters of a
// program's time. They do not read the bits of quantized weights, and none reads both the activation or the
// norm's offset and the 16-bit format, so the other programs have them in every way.
func withoutSkinny(t *testing.T, src string) string {
	t.Helper()
	const all = "\nSKINNY_GEMMS(1)\nSKINNY_GEMMS(8)\nSKINNY_GEMMS(16)\n"
	if !strings.Contains(src, all) {
		t.Fatalf("the kernels have no %q", all)
	}
	return strings.Replace(src, all, "\n\n\n\n", 1)
}

// TestKernelsCompile compiles for GPUs with and without Hopper's instructions. A compilation takes
// some five seconds, so they run in parallel, and without a GPU and the build tag engine only one for each architecture.
func TestKernelsCompile(t *testing.T) {
	c := compiler(t)
	src, err := kernels.Source()
	testkit.Must(t, err)
	older := map[string]string{"sm_70": "OLDER=70", "sm_75": "OLDER=75"} // which run in fp16
	all := append(shapes(), formats()...)
	if emulate.Brief() {
		all = all[:1]
	}
	for _, arch := range []string{"sm_70", "sm_75", "sm_80", "sm_90a", "sm_120"} {
		for _, shape := range all {
			if arch == "sm_75" && slices.Contains(shape, "HEAD_DIM=256") || arch == "sm_70" && strings.HasPrefix(c.Version, "13") {
				continue // a block has too little shared memory; NVRTC 13 knows no 7.0
			}
			if define := older[arch]; define != "" {
				shape = append(slices.Clone(shape), define, "FP16=1", "KEYS=32")
			}
			if text := strings.Join(shape, " "); older[arch] == "" && strings.Contains(text, "MOE=1") && !strings.Contains(text, "RANKS") {
				shape = append(slices.Clone(shape), stepShape(t, shape))
			}
			program := src
			if slices.ContainsFunc(shape, func(s string) bool { return strings.HasPrefix(s, "QUANTIZED=") }) {
				program = withoutSkinny(t, src)
			} else {
				shape = append(shape, "SKINNY_NORM_1=1,1,512,5,1", "SKINNY_NORM_8=1,3,256,3,8", "SKINNY_NORM_16=2,3,256,3,16",
					"SKINNY_RESIDUAL_1=1,2,256,7,1", "SKINNY_RESIDUAL_8=1,2,256,6,8", "SKINNY_RESIDUAL_16=2,2,256,4,16",
					"SKINNY_SWIGLU_1=1,1,512,5,1", "SKINNY_SWIGLU_8=1,2,256,4,8", "SKINNY_SWIGLU_16=2,2,256,8,16", "SKINNY_HALF_1=1,3,256,7,1",
					"SKINNY_HALF_8=1,3,256,5,8")
			}
			shape = append(shape, "EXPERTS_1=512,4,256,12", "EXPERTS_8=512,3,256,8")
			t.Run(arch+" "+strings.Join(shape, " "), func(t *testing.T) {
				t.Parallel()
				cubin, log, err := c.Compile("kernels.cu", program, arch, shape)
				testkit.Must(t, err)
				if log != "" && (arch != "sm_70" || !strings.Contains(log, "deprecated")) {
					t.Errorf("the compiler remarks:\n%s", log)
				}
				if !strings.HasPrefix(string(cubin), "\x7fELF") {
					t.Error("not a cubin")
				}
			})
		}
	}
}
