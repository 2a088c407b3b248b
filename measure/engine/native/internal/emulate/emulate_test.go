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
	"llmprof/measure/engine/native/cuda"
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
		for _, name := range []string{"first", "second"} {
			if !bytes.Contains(cubin, fmt.Appendf(nil, "emulated_call_%s_%d", name, unique)) {
				t.Errorf("no kernel %s", name)
			}
		}
	}
	for name, want := range map[string]int{"first": 2, "second": 1} {
		if got := objectsWith(t, folder, fmt.Sprintf("emulated_call_%s_%d", name, unique)); got != want {
			t.Errorf("%s was compiled %d times, want %d", name, got, want)
		}
	}
}

func objectsWith(t *testing.T, folder, name string) (n int) {
	t.Helper()
	objects, err := filepath.Glob(filepath.Join(folder, "parts", "*.o"))
	testkit.Must(t, err)
	for _, path := range objects {
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
	c, _ := compiler(t)
	const source = `#line 1 "one.cu"
__device__ constexpr int sum(int a, int b) { return a + b; }
const int five = sum(2, 3); // which is taken for another sum
extern "C" __global__ void kernel(int *out) { *out = WHAT; }
`
	if _, log, err := c.Compile("test.cu", source, "sm_100", []string{"WHAT=five"}); err != nil || log != "" {
		t.Errorf("%v %s", err, log)
	}
	var refused *cuda.CompileError
	if _, _, err := c.Compile("test.cu", source, "sm_100", []string{"WHAT=six"}); !errors.As(err, &refused) || !strings.Contains(refused.Log, "six") || !strings.Contains(refused.Log, "one.cu:3") {
		t.Errorf("%v; want an error that names six, and its line", err)
	}
}
