package cuda

import (
	"fmt"
	"slices"
	"strings"
	"unsafe"
)

// A Compiler turns CUDA C++ into machine code of one kind of GPU. It needs no
// GPU and no driver.
type Compiler struct {
	Version string // version of NVRTC: "13.0"
	File    string // path of the library that was loaded
	fn      nvrtc
}

// nvrtc holds the functions of the library; every function but the first
// returns an nvrtcResult.
type nvrtc struct {
	errorString func(code int32) string                                                          `symbol:"nvrtcGetErrorString"`
	version     func(major, minor *int32) int32                                                  `symbol:"nvrtcVersion"`
	create      func(p *uintptr, src, name string, n int32, headers, names unsafe.Pointer) int32 `symbol:"nvrtcCreateProgram"`
	compile     func(p uintptr, n int32, options unsafe.Pointer) int32                           `symbol:"nvrtcCompileProgram"`
	destroy     func(p *uintptr) int32                                                           `symbol:"nvrtcDestroyProgram"`
	logSize     func(p uintptr, n *uint64) int32                                                 `symbol:"nvrtcGetProgramLogSize"`
	log         func(p uintptr, s *byte) int32                                                   `symbol:"nvrtcGetProgramLog"`
	cubinSize   func(p uintptr, n *uint64) int32                                                 `symbol:"nvrtcGetCUBINSize"`
	cubin       func(p uintptr, s *byte) int32                                                   `symbol:"nvrtcGetCUBIN"`
}

// OpenCompiler opens NVRTC, in folder if it is not empty.
func OpenCompiler(folder string) (*Compiler, error) {
	h, file, err := nvrtcLibrary().open(folder)
	if err != nil {
		return nil, err
	}
	c := &Compiler{File: file}
	if err := bind(h, "NVRTC", &c.fn); err != nil {
		return nil, err
	}
	var major, minor int32
	if err := c.check("nvrtcVersion", c.fn.version(&major, &minor)); err != nil {
		return nil, err
	}
	c.Version = fmt.Sprintf("%d.%d", major, minor)
	return c, nil
}

func (c *Compiler) check(call string, code int32) error {
	if code == 0 {
		return nil
	}
	name := c.fn.errorString(code)
	return &Error{Call: call, Code: int(code), Name: name, Text: "from NVRTC " + c.Version}
}

// architecture is NVRTC's name of a GPU's machine code. Hopper's own
// instructions need the a (architecture-specific) form.
func architecture(major, minor int) string {
	if major == 9 {
		return fmt.Sprintf("sm_%d%da", major, minor)
	}
	return fmt.Sprintf("sm_%d%d", major, minor)
}

// A CompileError is NVRTC's own log of why a source was refused.
type CompileError struct {
	File string
	Log  string
}

// Error names the file and gives the log.
func (e *CompileError) Error() string {
	return fmt.Sprintf("cuda: %s does not compile:\n%s", e.File, strings.TrimSpace(e.Log))
}

// Compile makes a cubin of source, which file names in messages, with defines
// of the form NAME=VALUE, and returns it with the compiler's log.
func (c *Compiler) Compile(file, source, arch string, defines []string) (cubin []byte, log string, err error) {
	var p uintptr
	if err := c.check("nvrtcCreateProgram", c.fn.create(&p, source, file, 0, nil, nil)); err != nil {
		return nil, "", err
	}
	defer c.fn.destroy(&p)
	code := c.compile(p, compilerOptions(arch, defines))
	log, err = c.log(p)
	if err != nil {
		return nil, "", err
	}
	const compilation = 6 // NVRTC_ERROR_COMPILATION
	if code == compilation {
		return nil, log, &CompileError{File: file, Log: log}
	}
	if err := c.check("nvrtcCompileProgram of "+file, code); err != nil {
		return nil, log, err
	}
	var n uint64
	if err := c.check("nvrtcGetCUBINSize", c.fn.cubinSize(p, &n)); err != nil {
		return nil, log, err
	}
	cubin = make([]byte, n)
	return cubin, log, c.check("nvrtcGetCUBIN", c.fn.cubin(p, unsafe.SliceData(cubin)))
}

// Sanitizer is the define of kernels for compute-sanitizer. They know their lines, which it names then.
const Sanitizer = "SANITIZED=1"

func compilerOptions(arch string, defines []string) []string {
	options := []string{"--gpu-architecture=" + arch, "--std=c++17", "--extra-device-vectorization"}
	if slices.Contains(defines, Sanitizer) {
		options = append(options, "--generate-line-info")
	}
	for _, d := range defines {
		options = append(options, "-D"+d)
	}
	return options
}

func (c *Compiler) compile(p uintptr, options []string) int32 {
	ptrs := make([]*byte, len(options)) // pins the strings while the call lasts
	for i, o := range options {
		ptrs[i] = unsafe.SliceData(append([]byte(o), 0))
	}
	return c.fn.compile(p, int32(len(ptrs)), unsafe.Pointer(unsafe.SliceData(ptrs)))
}

func (c *Compiler) log(p uintptr) (string, error) {
	var n uint64
	if err := c.check("nvrtcGetProgramLogSize", c.fn.logSize(p, &n)); err != nil {
		return "", err
	}
	buf := make([]byte, max(n, 1))
	err := c.check("nvrtcGetProgramLog", c.fn.log(p, unsafe.SliceData(buf)))
	return cut(buf), err
}
