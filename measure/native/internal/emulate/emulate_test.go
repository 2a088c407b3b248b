package emulate

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"llmprof/internal/testkit"
	"llmprof/measure/native/cuda"
)

// compiler opens the emulated NVRTC, or skips the test.
func compiler(t *testing.T) (c *cuda.Compiler, folder string) {
	t.Helper()
	folder, err := Load()
	if errors.Is(err, ErrNoCompiler) && os.Getenv("LLMPROF_CXX") != "required" {
		t.Skip(err)
	}
	testkit.Must(t, err)
	c, err = cuda.OpenCompiler(folder)
	testkit.Must(t, err)
	return c, folder
}

// Two programs that differ in what one kernel uses have the other compiled once, and
// a kernel of another file is there with what it uses of the first.
func TestProgramsShareParts(t *testing.T) {
	Long(t)
	c, folder := compiler(t)
	unique := time.Now().UnixNano() // no other test has these kernels
	source := fmt.Sprintf(`#line 1 "one.cu"
template <int N>
struct Times {
  static_assert(N > 0, "some");
  __device__ __forceinline__ static int of(int v) { return N * v; }
};
enum Kind { PLAIN, TWICE = 2 };
__device__ int later(Kind v);
__device__ __noinline__ int twice(int v) { return Times<TWICE>::of(v); }
extern "C" __global__ void __launch_bounds__(32) first_%[1]d(int *out) { *out = twice(FIRST); }
#line 1 "two.cu"
extern "C" __global__ void second_%[1]d(int *out) {
  __shared__ int twos;
  twos = twice('\'' + sizeof "}\"") + later(TWICE);
  *out = twos;
}
__device__ int later(Kind v) { return v; }
`, unique)
	for first := 1; first <= 2; first++ {
		cubin, log, err := c.Compile("test.cu", source, "sm_100", []string{fmt.Sprintf("FIRST=%d", first)})
		if err != nil || log != "" {
			t.Fatalf("%v %s", err, log)
		}
		for name, want := range map[string]int32{"first": int32(2 * first), "second": 2*('\''+3) + 2} {
			if got := launched(t, folder, cubin, fmt.Sprintf("%s_%d", name, unique)); got != want {
				t.Errorf("%s wrote %d, want %d", name, got, want)
			}
		}
	}
	for name, want := range map[string]int{"first": 2, "second": 1} {
		if got := partsWith(t, folder, fmt.Sprintf("emulated_call_%s_%d", name, unique)); got != want {
			t.Errorf("%s was compiled %d times, want %d", name, got, want)
		}
	}
}

func partsWith(t *testing.T, folder, name string) (n int) {
	t.Helper()
	parts, err := filepath.Glob(filepath.Join(folder, "parts", "*.so"))
	testkit.Must(t, err)
	for _, path := range parts {
		text, err := os.ReadFile(path)
		testkit.Must(t, err)
		if bytes.Contains(text, []byte(name)) {
			n++
		}
	}
	return n
}

// What the parts of a program lack, the program has; what it lacks itself is an error
// that names it.
func TestProgramsAsAWhole(t *testing.T) {
	Long(t)
	c, folder := compiler(t)
	const source = `#line 1 "one.cu"
__device__ constexpr int sum(int a, int b) { return a + b; }
const int five = sum(2, 3); // which is taken for another sum
extern "C" __global__ void kernel(int *out) { *out = WHAT; }
`
	cubin, log, err := c.Compile("test.cu", source, "sm_100", []string{"WHAT=five"})
	if err != nil || log != "" {
		t.Errorf("%v %s", err, log)
	}
	if got := launched(t, folder, cubin, "kernel"); got != 5 {
		t.Errorf("the kernel wrote %d, want 5", got)
	}
	var refused *cuda.CompileError
	if _, _, err := c.Compile("test.cu", source, "sm_100", []string{"WHAT=six"}); !errors.As(err, &refused) ||
		!strings.Contains(refused.Log, "six") || !strings.Contains(refused.Log, "one.cu:3") {
		t.Errorf("%v; want an error that names six, and its line", err)
	}
}

// launched is what a kernel of a program writes.
func launched(t *testing.T, folder string, cubin []byte, name string) int32 {
	t.Helper()
	dev, err := cuda.Open(0, folder)
	testkit.Must(t, err)
	defer dev.Close()
	m, err := dev.Load(cubin)
	testkit.Must(t, err)
	defer m.Close()
	k, err := m.Kernel(name)
	testkit.Must(t, err)
	out, err := dev.Alloc("a test", 4)
	testkit.Must(t, err)
	s, err := dev.NewStream()
	testkit.Must(t, err)
	defer s.Close()
	testkit.Must(t, k.Queue(s, cuda.Launch{Grid: cuda.Dim{X: 1}, Block: cuda.Dim{X: 1}}, out))
	testkit.Must(t, s.Sync())
	got := make([]int32, 1)
	testkit.Must(t, cuda.Download(dev, got, out))
	return got[0]
}
