// Package emulate is a GPU for tests on machines that have none: libcuda, NVRTC
// and cuBLASLt in one library, as much of them as this engine calls. Kernels are
// compiled by the host's C++ compiler from the same text, but for ptx.cuh and
// hopper.cuh, and their threads run one after the other. It shows what a kernel
// computes, reads and waits for; it shows nothing of time, and nothing that only
// real concurrency does. Only tests import it.
package emulate

import (
	"cmp"
	"crypto/sha256"
	"embed"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"llmprof/measure/native/cuda"
)

//go:embed source
var source embed.FS

// ErrNoCompiler says that the library cannot be built here.
var ErrNoCompiler = errors.New("it needs Linux on x86-64 or 64-bit Arm and g++ (CXX names another C++ compiler)")

// ErrHidden says that LLMPROF_TEST_EMULATE=1 hides a GPU that may be there.
var ErrHidden = errors.New("LLMPROF_TEST_EMULATE=1 hides it")

// Load builds the library, unless it was built before, and makes it the driver
// of this process. It returns the folder to take the other libraries from, in
// which a process of its own finds the driver through LD_LIBRARY_PATH too.
var Load = sync.OnceValues(func() (string, error) {
	folder, err := build()
	if err != nil {
		return "", err
	}
	return folder, preload(filepath.Join(folder, "libcuda.so.1"))
})

// RealGPU says why there is no GPU to run tests on, nil if there is one and
// LLMPROF_TEST_EMULATE=1 does not hide it. LLMPROF_TEST_CUDA_LIBS names the folder
// of its libraries where they are in no usual place.
var RealGPU = sync.OnceValue(func() error {
	if os.Getenv("LLMPROF_TEST_EMULATE") == "1" {
		return ErrHidden
	}
	dev, err := cuda.Open(0, os.Getenv("LLMPROF_TEST_CUDA_LIBS"))
	if err != nil {
		return err
	}
	return dev.Close()
})

// Device gives the folder of the CUDA libraries for a test that runs on a GPU or,
// where there is none, here. It skips the test where neither can be;
// LLMPROF_CXX=required makes the lack of a compiler an error.
func Device(t testing.TB) string {
	t.Helper()
	if RealGPU() == nil {
		return os.Getenv("LLMPROF_TEST_CUDA_LIBS")
	}
	folder, err := Load()
	if errors.Is(err, ErrNoCompiler) && os.Getenv("LLMPROF_CXX") != "required" {
		t.Skipf("no GPU here (%v), and none can be emulated: %v", RealGPU(), err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return folder
}

// Brief reports whether tests run on the emulated GPU without its long cases, which the build tag engine adds.
func Brief() bool { return RealGPU() != nil && !longCases }

// Cases is how many of many like cases a test runs: few, or all of them with the long cases.
func Cases(few, all int) int {
	if Brief() {
		return few
	}
	return all
}

// Long skips a test, or a case of one, that takes long on the emulated GPU. What is left is one case
// of each family of kernels.
func Long(t testing.TB) {
	t.Helper()
	if Brief() {
		t.Skip("the emulated GPU takes long: -tags engine runs it")
	}
}

// build makes the library in a folder that its sources name.
func build() (string, error) {
	cxx := cmp.Or(os.Getenv("CXX"), "g++")
	if _, err := exec.LookPath(cxx); err != nil || !canPreload {
		return "", ErrNoCompiler
	}
	sources, err := fs.Sub(source, "source")
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	err = fs.WalkDir(sources, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := fs.ReadFile(sources, path)
		fmt.Fprintf(sum, "%s %s %d\n", cxx, path, len(text))
		sum.Write(text)
		return err
	})
	if err != nil {
		return "", err
	}
	key := sum.Sum(nil)
	folder := filepath.Join(os.TempDir(), fmt.Sprintf("llmprof-emulated-%d-%s", os.Getuid(), hex.EncodeToString(key[:8])))
	if _, err := os.Stat(filepath.Join(folder, "libcuda.so.1")); err == nil {
		return folder, nil
	}
	return folder, compile(cxx, sources, folder, binary.LittleEndian.Uint16(key))
}

// compile builds beside folder and renames, so that tests of several packages do
// not see a half of it.
func compile(cxx string, sources fs.FS, folder string, version uint16) error {
	tmp, err := os.MkdirTemp(filepath.Dir(folder), "llmprof-emulated-new-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	if err := os.CopyFS(tmp, sources); err != nil {
		return err
	}
	args := []string{
		"-std=c++17", "-O3", "-march=native", "-ffp-contract=off", "-Wall", "-fPIC", "-shared", "-pthread", "-Wl,-soname,libcuda.so.1",
		fmt.Sprintf("-DEMULATED_VERSION=%d", version),
		"driver.cc", "compiler.cc", "parts.cc", "products.cc", "-o", "libcuda.so.1", "-ldl",
	}
	cmd := exec.Command(cxx, args...)
	cmd.Dir = tmp
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("emulate: %s: %w\n%s", cxx, err, out)
	}
	for _, name := range []string{"libnvrtc.so.13", "libcublasLt.so.13"} {
		if err := os.Symlink("libcuda.so.1", filepath.Join(tmp, name)); err != nil {
			return err
		}
	}
	err = os.Rename(tmp, folder)
	if _, there := os.Stat(filepath.Join(folder, "libcuda.so.1")); there == nil {
		return nil // this test's, or that of another that was faster
	}
	return err
}
