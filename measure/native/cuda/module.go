package cuda

import (
	"fmt"
	"runtime"
	"unsafe"
)

// A Module is compiled code on the GPU.
type Module struct {
	dev *Device
	h   uintptr
}

// Load puts a cubin on the GPU.
func (dev *Device) Load(cubin []byte) (*Module, error) {
	if len(cubin) == 0 {
		return nil, fmt.Errorf("cuda: the module is empty")
	}
	m := &Module{dev: dev}
	if err := dev.d.check("cuModuleLoadData", dev.d.moduleLoad(&m.h, unsafe.Pointer(&cubin[0]))); err != nil {
		return nil, err
	}
	return m, nil
}

// Close takes the code off the GPU.
func (m *Module) Close() error {
	return m.dev.d.check("cuModuleUnload", m.dev.d.moduleUnload(m.h))
}

// A Kernel is a function of a module.
type Kernel struct {
	Name   string
	dev    *Device
	h      uintptr
	shared int
	shares bool // prefers shared memory to a cache
	large  bool // may have clusters of more than PortableCluster blocks
}

// Kernel finds the extern "C" function name.
func (m *Module) Kernel(name string) (*Kernel, error) {
	k := &Kernel{Name: name, dev: m.dev}
	d := m.dev.d
	return k, d.check("cuModuleGetFunction "+name, d.moduleFunction(&k.h, m.h, name))
}

// Dim is the extent of a grid or a block; a 0 counts as 1.
type Dim struct{ X, Y, Z int }

// A Launch says how a kernel is to run.
type Launch struct {
	Grid, Block Dim
	Shared      int  // bytes of dynamic shared memory
	Together    bool // all of its blocks are there at the same time, or none: they wait for each other (cooperative launch)
	Early       bool // may start before the kernel ahead of it in the stream has ended (programmatic dependent launch)
	Cluster     int  // blocks along x that are one cluster; 0 and 1 for none. Compute capability 9.0 and newer.
}

// launchConfig is CUlaunchConfig of cuda.h.
type launchConfig struct {
	grid, block [3]uint32
	shared      uint32
	stream      uintptr
	attrs       *launchAttribute
	count       uint32
}

// launchAttribute is CUlaunchAttribute of cuda.h: an id, padding to 8 bytes,
// and a union of 64.
type launchAttribute struct {
	id    int32
	_     int32
	value [16]int32
}

// CU_LAUNCH_ATTRIBUTE_COOPERATIVE, _CLUSTER_DIMENSION and _PROGRAMMATIC_STREAM_SERIALIZATION.
const (
	cooperative               = 2
	clusterDimension          = 4
	programmaticSerialization = 6
)

const maxDynamicShared = 8 // CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES

// PortableCluster is the largest cluster that every GPU of compute capability 9.0 and
// newer takes (CUDA Programming Guide, "Thread Block Clusters").
const PortableCluster = 8

// Queue queues the kernel on s. Arguments are Ptr, int32, uint32, int64, uint64,
// float32 and *TensorMap, in the order and of the size of the kernel's parameters.
func (k *Kernel) Queue(s *Stream, l Launch, args ...any) error {
	if err := k.prepare(l); err != nil {
		return err
	}
	slots := make([]uint64, len(args))
	params := make([]unsafe.Pointer, len(args)+1)
	for i, a := range args {
		if m, ok := a.(*TensorMap); ok {
			params[i] = m.pointer()
			continue
		}
		if err := store(&slots[i], a); err != nil {
			return fmt.Errorf("cuda: argument %d of %s: %w", i, k.Name, err)
		}
		params[i] = unsafe.Pointer(&slots[i])
	}
	attrs := k.attributes(l)
	s.queued++
	err := k.dev.d.check("cuLaunchKernelEx of "+k.Name, k.dev.d.launch(l.config(s.h, attrs), k.h, unsafe.Pointer(&params[0]), nil))
	runtime.KeepAlive(slots)
	runtime.KeepAlive(args)
	runtime.KeepAlive(attrs)
	return err
}

// Clusters is how many clusters of such a launch find room on the GPU at the same time
// (cuOccupancyMaxActiveClusters).
func (k *Kernel) Clusters(l Launch) (int, error) {
	if err := k.prepare(l); err != nil {
		return 0, err
	}
	var n int32
	attrs := k.attributes(Launch{Cluster: l.Cluster})
	err := k.dev.d.check("cuOccupancyMaxActiveClusters of "+k.Name, k.dev.d.activeClusters(&n, k.h, l.config(0, attrs)))
	runtime.KeepAlive(attrs)
	return int(n), err
}

// config is the driver's form of a launch.
func (l *Launch) config(stream uintptr, attrs []launchAttribute) *launchConfig {
	return &launchConfig{grid: l.Grid.sizes(), block: l.Block.sizes(), shared: uint32(l.Shared), stream: stream,
		attrs: unsafe.SliceData(attrs), count: uint32(len(attrs))}
}

// prepare lets the kernel have what a launch of it asks for.
func (k *Kernel) prepare(l Launch) error {
	// A block gets 48 KiB without asking, of which the kernel's static memory takes
	// a part that is not known here; so any dynamic memory is asked for.
	if l.Shared > k.shared {
		if err := k.dev.d.check("cuFuncSetAttribute of "+k.Name, k.dev.d.funcSetAttribute(k.h, maxDynamicShared, int32(l.Shared))); err != nil {
			return fmt.Errorf("%w (%d bytes of shared memory; the GPU has %d a block)", err, l.Shared, k.dev.SharedOptIn)
		}
		k.shared = l.Shared
	}
	if l.Cluster > PortableCluster && !k.large {
		const nonPortableCluster = 14 // CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED
		if err := k.dev.d.check("cuFuncSetAttribute of "+k.Name, k.dev.d.funcSetAttribute(k.h, nonPortableCluster, 1)); err != nil {
			return fmt.Errorf("%w (a cluster of %d blocks)", err, l.Cluster)
		}
		k.large = true
	}
	return k.share(l)
}

// attributes are those of a launch that the GPU knows.
func (k *Kernel) attributes(l Launch) (out []launchAttribute) {
	if l.Together {
		out = append(out, launchAttribute{id: cooperative, value: [16]int32{1}})
	}
	if k.dev.Major < 9 {
		return out
	}
	if l.Early {
		out = append(out, launchAttribute{id: programmaticSerialization, value: [16]int32{1}})
	}
	if l.Cluster > 1 {
		out = append(out, launchAttribute{id: clusterDimension, value: [16]int32{int32(l.Cluster), 1, 1}})
	}
	return out
}

// share gives a kernel that starts early all of a multiprocessor's shared memory to be
// placed in, whatever its own blocks take: a block waits until a multiprocessor is
// idle if its kernel divides shared memory and cache otherwise than those there.
func (k *Kernel) share(l Launch) error {
	if !l.Early || k.shares || k.dev.Major < 9 {
		return nil
	}
	const preferredCarveout, mostShared = 9, 100 // CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, percent
	k.shares = true
	return k.dev.d.check("cuFuncSetAttribute of "+k.Name, k.dev.d.funcSetAttribute(k.h, preferredCarveout, mostShared))
}

func (d Dim) sizes() [3]uint32 {
	return [3]uint32{uint32(max(d.X, 1)), uint32(max(d.Y, 1)), uint32(max(d.Z, 1))}
}

// store puts an argument where the driver reads it; the GPU and every host of
// one are little-endian.
func store(slot *uint64, a any) error {
	p := unsafe.Pointer(slot)
	switch v := a.(type) {
	case Ptr:
		*slot = uint64(v)
	case uint64:
		*slot = v
	case int64:
		*slot = uint64(v)
	case int32:
		*(*int32)(p) = v
	case uint32:
		*(*uint32)(p) = v
	case float32:
		*(*float32)(p) = v
	default:
		return fmt.Errorf("a %T cannot be passed", a)
	}
	return nil
}
