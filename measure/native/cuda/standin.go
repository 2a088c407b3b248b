package cuda

import (
	"fmt"
	"slices"
	"strings"
	"unsafe"
)

// A StandIn takes the place of a GPU in tests: it computes nothing, and records what is
// queued on it. What an engine asks of a GPU, and in which order, can be seen
// with it on any machine. Results are whatever memory held; each kernel and each
// gemm takes a microsecond of a clock that only they move.
type StandIn struct {
	Device *Device
	Queued []string // since it was last emptied: a line for each kernel, GEMM, fill and copy

	next    uintptr // next handle
	memory  uint64  // next address
	names   map[uintptr]string
	sizes   map[uintptr][2]uint64
	pinned  map[unsafe.Pointer][]uint64
	graphs  map[uintptr][]string
	record  *[]string // calls of the graph that is being recorded
	now     int       // microseconds
	reached map[uintptr]int
}

// standInFree is the memory of a stand-in.
const standInFree = 1 << 40

// NewStandIn makes a stand-in of Hopper's generation.
func NewStandIn() *StandIn {
	s := &StandIn{
		memory: 1 << 20, names: map[uintptr]string{}, sizes: map[uintptr][2]uint64{}, pinned: map[unsafe.Pointer][]uint64{},
		graphs: map[uintptr][]string{}, reached: map[uintptr]int{},
	}
	d := &driver{}
	s.memoryFunctions(d)
	s.streamFunctions(d)
	s.kernelFunctions(d)
	s.graphFunctions(d)
	s.Device = &Device{
		Properties: Properties{Name: "stand-in", UUID: "GPU-0", Major: 9, SMs: 132, L2Bytes: 50 << 20, SharedOptIn: 227 << 10,
			DriverVersion: 13000},
		d: d, live: map[uint64]uint64{},
	}
	s.Device.lt = &cublas{fn: s.gemms(), handle: s.handle()}
	d.primaryRelease = func(int32) int32 { return 0 }
	d.getErrorName = func(int32, **byte) int32 { return 1 } // a stand-in knows no names of errors
	d.getErrorString = d.getErrorName
	d.peerPossible = func(can *int32, _, _ int32) int32 { *can = 1; return 0 }
	d.peerEnable = func(uintptr, uint32) int32 { return 0 }
	return s
}

func (s *StandIn) handle() uintptr {
	s.next++
	return s.next
}

// note records what was queued, in a graph while one is recorded.
func (s *StandIn) note(format string, args ...any) int32 {
	line := fmt.Sprintf(format, args...)
	if s.record != nil {
		*s.record = append(*s.record, line)
		return 0
	}
	s.run(line)
	return 0
}

func (s *StandIn) run(line string) {
	s.Queued = append(s.Queued, line)
	if strings.HasPrefix(line, "kernel ") || strings.HasPrefix(line, "gemm ") {
		s.now++
	}
}

func (s *StandIn) memoryFunctions(d *driver) {
	d.memInfo = func(free, total *uint64) int32 { *free, *total = standInFree, standInFree; return 0 }
	d.memAlloc = func(p *uint64, size uint64) int32 {
		*p = s.memory
		s.memory += (size + 255) / 256 * 256
		return 0
	}
	d.memFree = func(uint64) int32 { return 0 }
	d.hostAlloc = func(p *unsafe.Pointer, size uint64, _ uint32) int32 {
		words := make([]uint64, size/8+1)
		*p = unsafe.Pointer(&words[0])
		s.pinned[*p] = words
		return 0
	}
	d.hostFree = func(p unsafe.Pointer) int32 { delete(s.pinned, p); return 0 }
	d.copyToDevice = func(uint64, unsafe.Pointer, uint64) int32 { return 0 }
	d.copyToHost = func(unsafe.Pointer, uint64, uint64) int32 { return 0 }
	d.setBytes = func(uint64, uint8, uint64) int32 { return 0 }
	d.copyToDeviceAsync = func(dst uint64, _ unsafe.Pointer, n uint64, _ uintptr) int32 {
		return s.note("to device %#x %d", dst, n)
	}
	d.copyDeviceAsync = func(dst, src, n uint64, _ uintptr) int32 { return s.note("copy %#x %#x %d", dst, src, n) }
	d.setWordsAsync = func(p uint64, v uint32, n uint64, _ uintptr) int32 { return s.note("fill %#x %d %d", p, v, n) }
	d.setBytesAsync = func(p uint64, v uint8, n uint64, _ uintptr) int32 { return s.note("fill bytes %#x %d %d", p, v, n) }
}

func (s *StandIn) streamFunctions(d *driver) {
	d.streamCreate = func(h *uintptr, _ uint32) int32 { *h = s.handle(); return 0 }
	d.streamDestroy = func(uintptr) int32 { return 0 }
	d.streamSync = func(uintptr) int32 { return 0 }
	d.eventCreate = func(h *uintptr, _ uint32) int32 { *h = s.handle(); return 0 }
	d.eventDestroy = func(h uintptr) int32 { delete(s.reached, h); return 0 }
	d.eventRecord = func(h, _ uintptr) int32 { s.reached[h] = s.now; return 0 }
	d.eventSync = func(uintptr) int32 { return 0 }
	d.eventElapsed = func(ms *float32, a, b uintptr) int32 {
		*ms = float32(s.reached[b]-s.reached[a]) / 1e3
		return 0
	}
}

func (s *StandIn) kernelFunctions(d *driver) {
	d.moduleLoad = func(h *uintptr, _ unsafe.Pointer) int32 { *h = s.handle(); return 0 }
	d.moduleUnload = func(uintptr) int32 { return 0 }
	d.moduleFunction = func(h *uintptr, _ uintptr, name string) int32 {
		*h = s.handle()
		s.names[*h] = name
		return 0
	}
	d.funcSetAttribute = func(_ uintptr, attribute, v int32) int32 {
		const invalid = 1 // CUDA_ERROR_INVALID_VALUE
		if attribute == maxDynamicShared && int(v) > s.Device.SharedOptIn {
			return invalid
		}
		return 0
	}
	d.activeClusters = func(n *int32, _ uintptr, cfg *launchConfig) int32 {
		*n = int32(s.Device.SMs) / max(cfg.attrs.value[0], 1)
		return 0
	}
	d.encodeTiled = func(m unsafe.Pointer, _ int32, _ uint32, at uint64, _, _, _, _ unsafe.Pointer, _, _, _, _ int32) int32 {
		*(*uint64)(m) = at
		return 0
	}
	d.launch = func(cfg *launchConfig, f uintptr, params, _ unsafe.Pointer) int32 {
		early := ""
		for _, a := range unsafe.Slice(cfg.attrs, cfg.count) {
			if a.id == programmaticSerialization {
				early = " early"
			}
		}
		return s.note("kernel %s %v %v %d%s%s", s.names[f], cfg.grid, cfg.block, cfg.shared, early, arguments(params))
	}
}

// arguments are a kernel's, up to the pointer that Queue ends them with.
func arguments(params unsafe.Pointer) string {
	var text strings.Builder
	for i := 0; ; i++ {
		p := *(*unsafe.Pointer)(unsafe.Add(params, i*int(unsafe.Sizeof(params))))
		if p == nil {
			return text.String()
		}
		fmt.Fprintf(&text, " %#x", *(*uint64)(p))
	}
}

func (s *StandIn) graphFunctions(d *driver) {
	d.captureBegin = func(uintptr, int32) int32 { s.record = &[]string{}; return 0 }
	d.captureEnd = func(_ uintptr, g *uintptr) int32 {
		*g = s.handle()
		s.graphs[*g], s.record = *s.record, nil
		return 0
	}
	d.graphInstantiate = func(exec *uintptr, g uintptr, _ uint64) int32 {
		*exec = s.handle()
		s.graphs[*exec] = slices.Clone(s.graphs[g])
		return 0
	}
	d.graphDestroy = func(g uintptr) int32 { delete(s.graphs, g); return 0 }
	d.graphExecDestroy = func(g uintptr) int32 { delete(s.graphs, g); return 0 }
	d.graphLaunch = func(g, _ uintptr) int32 {
		for _, line := range s.graphs[g] {
			s.run(line)
		}
		return 0
	}
}

// gemms are the functions of cuBLASLt, which knows one way to do each.
func (s *StandIn) gemms() cublasFunctions {
	drop := func(uintptr) int32 { return 0 }
	return cublasFunctions{
		version:     func() uint64 { return 130000 },
		statusName:  func(int32) string { return "" },
		statusText:  func(int32) string { return "" },
		create:      func(h *uintptr) int32 { *h = s.handle(); return 0 },
		destroy:     drop,
		descCreate:  func(h *uintptr, _, _ int32) int32 { *h = s.handle(); return 0 },
		descSet:     func(uintptr, int32, unsafe.Pointer, uint64) int32 { return 0 },
		descDestroy: drop,
		layoutCreate: func(h *uintptr, _ int32, rows, cols uint64, _ int64) int32 {
			*h = s.handle()
			s.sizes[*h] = [2]uint64{rows, cols}
			return 0
		},
		layoutDrop:  drop,
		prefCreate:  func(h *uintptr) int32 { *h = s.handle(); return 0 },
		prefSet:     func(uintptr, int32, unsafe.Pointer, uint64) int32 { return 0 },
		prefDestroy: drop,
		heuristic: func(_, _, _, _, _, _, _ uintptr, _ int32, _ *heuristicResult, found *int32) int32 {
			*found = 1
			return 0
		},
		matmul: func(_, _ uintptr, _ unsafe.Pointer, w uint64, lw uintptr, x uint64, lx uintptr, beta unsafe.Pointer,
			_ uint64, _ uintptr, y uint64, _ uintptr, _ unsafe.Pointer, _, _ uint64, _ uintptr) int32 {
			return s.note("gemm %v %v %v %#x %#x %#x", s.sizes[lw], s.sizes[lx], *(*float32)(beta), w, x, y)
		},
	}
}
