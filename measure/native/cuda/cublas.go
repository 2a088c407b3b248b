package cuda

import (
	"errors"
	"fmt"
	"math"
	"unsafe"

	"llmprof/unit"
)

// cublas holds cuBLASLt, a handle of it, and its scratch memory.
type cublas struct {
	fn        cublasFunctions
	handle    uintptr
	workspace Ptr
	file      string // path of the library that was loaded
	version   int    // 130000 for 13.0
}

// WorkspaceBytes is the scratch memory of GEMMs: what NVIDIA advises for Hopper (cuBLAS documentation,
// cublasSetWorkspace: 32 MiB).
const WorkspaceBytes = 32 << 20

type cublasFunctions struct {
	version    func() uint64                                `symbol:"cublasLtGetVersion"`
	statusName func(code int32) string                      `symbol:"cublasLtGetStatusName"`
	statusText func(code int32) string                      `symbol:"cublasLtGetStatusString"`
	create     func(h *uintptr) int32                       `symbol:"cublasLtCreate"`
	destroy    func(h uintptr) int32                        `symbol:"cublasLtDestroy"`
	descCreate func(d *uintptr, compute, scale int32) int32 `symbol:"cublasLtMatmulDescCreate"`
	descSet    func(d uintptr, attr int32, v unsafe.Pointer,
		n uint64) int32 `symbol:"cublasLtMatmulDescSetAttribute"`
	descDestroy func(
		d uintptr) int32 `symbol:"cublasLtMatmulDescDestroy"`
	layoutCreate func(l *uintptr, typ int32, rows, cols uint64,
		ld int64) int32 `symbol:"cublasLtMatrixLayoutCreate"`
	layoutDrop func(
		l uintptr) int32 `symbol:"cublasLtMatrixLayoutDestroy"`
	prefCreate func(
		p *uintptr) int32 `symbol:"cublasLtMatmulPreferenceCreate"`
	prefSet func(p uintptr, attr int32, v unsafe.Pointer,
		n uint64) int32 `symbol:"cublasLtMatmulPreferenceSetAttribute"`
	prefDestroy func(
		p uintptr) int32 `symbol:"cublasLtMatmulPreferenceDestroy"`
	heuristic func(h, desc, a, b, c, d, pref uintptr, n int32, out *heuristicResult,
		found *int32) int32 `symbol:"cublasLtMatmulAlgoGetHeuristic"`
	matmul func(h, desc uintptr, alpha unsafe.Pointer, a uint64, la uintptr, b uint64, lb uintptr, beta unsafe.Pointer,
		c uint64, lc uintptr, d uint64, ld uintptr, algo unsafe.Pointer, ws, wsSize uint64, stream uintptr) int32 `symbol:"cublasLtMatmul"`
}

// heuristicResult is cublasLtMatmulHeuristicResult_t: the way to do it, and
// workspace size, status, number of waves and reserved words.
type heuristicResult struct {
	algo [8]uint64
	_    [4]uint64
}

// matrices opens cuBLASLt when it is first needed.
func (dev *Device) matrices() (*cublas, error) {
	if dev.lt != nil {
		return dev.lt, nil
	}
	h, file, err := cublasLibrary().open(dev.folder)
	if err != nil {
		return nil, err
	}
	b := &cublas{file: file}
	if err := bind(h, "cuBLASLt", &b.fn); err != nil {
		return nil, err
	}
	b.version = int(b.fn.version())
	if b.workspace, err = dev.Alloc("the workspace of cuBLASLt", WorkspaceBytes); err != nil {
		return nil, err
	}
	if err := b.check("cublasLtCreate", b.fn.create(&b.handle)); err != nil {
		return nil, errors.Join(err, dev.Free(b.workspace))
	}
	dev.lt = b
	return b, nil
}

// Files are those that the libraries of this GPU were loaded from: of the driver, and of
// cuBLASLt once the first GEMM was planned.
func (dev *Device) Files() map[string]string {
	files := map[string]string{"driver": dev.d.file}
	if dev.lt != nil {
		files["cublasLt"] = dev.lt.file
	}
	return files
}

// CublasVersion is the version of cuBLASLt as it counts itself, 130000 for 13.0;
// 0 before the first GEMM was planned.
func (dev *Device) CublasVersion() int {
	if dev.lt == nil {
		return 0
	}
	return dev.lt.version
}

func (b *cublas) close() error { return b.check("cublasLtDestroy", b.fn.destroy(b.handle)) }

func (b *cublas) check(call string, code int32) error {
	if code == 0 {
		return nil
	}
	return &Error{Call: call, Code: int(code), Name: b.fn.statusName(code), Text: b.fn.statusText(code)}
}

// A Type is the format of a matrix's elements, as cudaDataType names it.
type Type int32

// The types of a matrix.
const (
	Float32  Type = 0  // CUDA_R_32F
	Float16  Type = 2  // CUDA_R_16F
	BFloat16 Type = 14 // CUDA_R_16BF
)

// A Matmul is the GEMM y = x·wᵀ + beta·y + bias of row-major matrices, summed
// in float32: x is Rows×In, w is Out×In as checkpoints store a linear layer's
// weights, y is Rows×Out.
type Matmul struct {
	Rows, In, Out int
	Input, Output Type // Input is the type of x and w, Output the type of y.
	Beta          float32
	Bias          Ptr // Out values of the type of y, added before y is rounded; 0 for none

	dev         *Device
	desc        uintptr
	lw, lx, ly  uintptr
	algos       []heuristicResult // the library's best guess first
	chosen      int
	alpha, beta *float32
}

// Plan asks cuBLASLt how it would do m. To it the matrices are column-major, so
// y is Out×Rows, w transposed times x.
func (dev *Device) Plan(m Matmul) (*Matmul, error) {
	b, err := dev.matrices()
	if err != nil {
		return nil, err
	}
	if m.Rows < 1 || m.In < 1 || m.Out < 1 {
		return nil, fmt.Errorf("cuda: a GEMM of %d×%d and %d×%d is empty", m.Rows, m.In, m.In, m.Out)
	}
	m.dev, m.alpha, m.beta = dev, new(float32(1)), new(m.Beta)
	err = m.describe(b)
	if err == nil {
		err = m.search(b)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%w (rows %d, in %d, out %d)", err, m.Rows, m.In, m.Out), m.Close())
	}
	return &m, nil
}

func (m *Matmul) describe(b *cublas) error {
	const compute32F, transA, transpose = 68, 3, 1 // CUBLAS_COMPUTE_32F, CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_T
	if err := b.check("cublasLtMatmulDescCreate", b.fn.descCreate(&m.desc, compute32F, int32(Float32))); err != nil {
		return err
	}
	if err := b.check("cublasLtMatmulDescSetAttribute", b.fn.descSet(m.desc, transA, unsafe.Pointer(new(int32(transpose))), 4)); err != nil {
		return err
	}
	if m.Bias != 0 {
		const epilogue, addBias = 7, 4 // CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS
		if err := b.check("cublasLtMatmulDescSetAttribute", b.fn.descSet(m.desc, epilogue, unsafe.Pointer(new(int32(addBias))), 4)); err != nil {
			return err
		}
		if err := m.SetBias(m.Bias); err != nil {
			return err
		}
	}
	for _, l := range []struct {
		h          *uintptr
		typ        Type
		rows, cols int
	}{{&m.lw, m.Input, m.In, m.Out}, {&m.lx, m.Input, m.In, m.Rows}, {&m.ly, m.Output, m.Out, m.Rows}} {
		if err := b.check("cublasLtMatrixLayoutCreate", b.fn.layoutCreate(
			l.h, int32(l.typ), uint64(l.rows), uint64(l.cols), int64(l.rows))); err != nil {
			return err
		}
	}
	return nil
}

// SetBias changes the bias of GEMMs that are queued from now on. A GEMM
// that was planned without a bias cannot get one.
func (m *Matmul) SetBias(p Ptr) error {
	if m.Bias == 0 || p == 0 {
		return fmt.Errorf("cuda: a GEMM is planned with a bias or without")
	}
	const biasPointer = 8 // CUBLASLT_MATMUL_DESC_BIAS_POINTER
	m.Bias = p
	b := m.dev.lt
	return b.check("cublasLtMatmulDescSetAttribute", b.fn.descSet(m.desc, biasPointer, unsafe.Pointer(new(uint64(p))), 8))
}

// candidates is how many ways of doing a GEMM are kept for Tune.
const candidates = 8

func (m *Matmul) search(b *cublas) error {
	var pref uintptr
	if err := b.check("cublasLtMatmulPreferenceCreate", b.fn.prefCreate(&pref)); err != nil {
		return err
	}
	defer b.fn.prefDestroy(pref)
	const maxWorkspace = 1 // CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES
	if err := b.check("cublasLtMatmulPreferenceSetAttribute",
		b.fn.prefSet(pref, maxWorkspace, unsafe.Pointer(new(uint64(WorkspaceBytes))), 8)); err != nil {
		return err
	}
	m.algos = make([]heuristicResult, candidates)
	var found int32
	err := b.check("cublasLtMatmulAlgoGetHeuristic", b.fn.heuristic(
		b.handle, m.desc, m.lw, m.lx, m.ly, m.ly, pref, candidates, &m.algos[0], &found))
	m.algos = m.algos[:found]
	if err == nil && found == 0 {
		err = fmt.Errorf("cuda: cuBLASLt has no way to do this GEMM")
	}
	return err
}

// Queue queues the GEMM on s.
func (m *Matmul) Queue(s *Stream, y, x, w Ptr) error {
	b, a := m.dev.lt, &m.algos[m.chosen]
	s.queued++
	return b.check("cublasLtMatmul", b.fn.matmul(b.handle, m.desc, unsafe.Pointer(m.alpha), uint64(w), m.lw, uint64(x), m.lx,
		unsafe.Pointer(m.beta), uint64(y), m.ly, uint64(y), m.ly, unsafe.Pointer(&a.algo), uint64(b.workspace), WorkspaceBytes, s.h))
}

// Tune times the ways that cuBLASLt proposed, on y, which is overwritten, and
// keeps the fastest.
func (m *Matmul) Tune(s *Stream, y, x, w Ptr) error {
	best, fastest := unit.Seconds(math.Inf(1)), 0
	for i := range m.algos {
		m.chosen = i
		t, err := s.Time(3, func() error { return m.Queue(s, y, x, w) })
		if err != nil {
			return err
		}
		if t < best {
			best, fastest = t, i
		}
	}
	m.chosen = fastest
	return nil
}

// Close destroys the plan's handles.
func (m *Matmul) Close() error {
	b := m.dev.lt
	var errs []error
	for _, l := range []*uintptr{&m.lw, &m.lx, &m.ly} {
		if *l != 0 {
			errs = append(errs, b.check("cublasLtMatrixLayoutDestroy", b.fn.layoutDrop(*l)))
			*l = 0
		}
	}
	if m.desc != 0 {
		errs = append(errs, b.check("cublasLtMatmulDescDestroy", b.fn.descDestroy(m.desc)))
		m.desc = 0
	}
	return errors.Join(errs...)
}
