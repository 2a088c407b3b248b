package cuda

import (
	"fmt"
	"unsafe"
)

// A Ptr is an address in the GPU's memory.
type Ptr uint64

// Add is the address n bytes further.
func (p Ptr) Add(n int) Ptr { return p + Ptr(n) }

// memory is the free and the total memory of the GPU, with what all processes use.
func (dev *Device) memory() (free, total uint64, err error) {
	err = dev.d.check("cuMemGetInfo", dev.d.memInfo(&free, &total))
	return free, total, err
}

// Room reports an error if needed bytes are not free, before any is taken.
func (dev *Device) Room(what string, needed uint64) error {
	free, _, err := dev.memory()
	if err != nil {
		return err
	}
	if needed > free {
		return &MemoryError{What: what, GPU: dev.Name, Needed: needed, Free: free}
	}
	return nil
}

// Alloc allocates n bytes; what names their use in an error.
func (dev *Device) Alloc(what string, n int) (Ptr, error) {
	if n <= 0 {
		return 0, fmt.Errorf("cuda: %s: cannot allocate %d bytes", what, n)
	}
	if err := dev.Room(what, uint64(n)); err != nil {
		return 0, err
	}
	var p uint64
	if err := dev.d.check("cuMemAlloc for "+what, dev.d.memAlloc(&p, uint64(n))); err != nil {
		return 0, err
	}
	dev.live[p] = uint64(n)
	dev.used += uint64(n)
	dev.peak = max(dev.peak, dev.used)
	return Ptr(p), nil
}

// Free frees memory; 0 is ignored.
func (dev *Device) Free(p Ptr) error {
	if p == 0 {
		return nil
	}
	n, ok := dev.live[uint64(p)]
	if !ok {
		return fmt.Errorf("cuda: %#x was not allocated here", uint64(p))
	}
	delete(dev.live, uint64(p))
	dev.used -= n
	return dev.d.check("cuMemFree", dev.d.memFree(uint64(p)))
}

// Used is what is allocated through dev now, and the most that ever was.
func (dev *Device) Used() (now, peak uint64) { return dev.used, dev.peak }

// Number is a type of values in memory of the host and of the GPU.
type Number interface {
	~uint8 | ~uint16 | ~uint32 | ~int32 | ~float32 | ~uint64 | ~int64 | ~float64
}

func bytesOf[T Number](s []T) uint64 {
	var zero T
	return uint64(len(s)) * uint64(unsafe.Sizeof(zero))
}

// Upload copies src to dst and waits for it: the driver's call may return when
// it has copied pageable memory for itself, before the GPU has it (CUDA Driver
// API, "API synchronization behavior").
func Upload[T Number](dev *Device, dst Ptr, src []T) error {
	if len(src) == 0 {
		return nil
	}
	if err := dev.d.check("cuMemcpyHtoD", dev.d.copyToDevice(uint64(dst), unsafe.Pointer(&src[0]), bytesOf(src))); err != nil {
		return err
	}
	return dev.Sync()
}

// Download copies src to dst and waits for it and for all work of the default
// stream.
func Download[T Number](dev *Device, dst []T, src Ptr) error {
	if len(dst) == 0 {
		return nil
	}
	return dev.d.check("cuMemcpyDtoH", dev.d.copyToHost(unsafe.Pointer(&dst[0]), uint64(src), bytesOf(dst)))
}

// Fill sets n bytes to v and waits for it: the driver's call does not, and streams
// do not wait for the default one.
func (dev *Device) Fill(p Ptr, v byte, n int) error {
	if err := dev.d.check("cuMemsetD8", dev.d.setBytes(uint64(p), v, uint64(n))); err != nil {
		return err
	}
	return dev.Sync()
}

// Host is memory of the host that the GPU can copy to and from while work goes
// on.
type Host[T Number] struct {
	Data []T
	dev  *Device
}

// Pin allocates n values of page-locked memory.
func Pin[T Number](dev *Device, n int) (*Host[T], error) {
	var p unsafe.Pointer
	var zero T
	if err := dev.d.check("cuMemHostAlloc", dev.d.hostAlloc(&p, uint64(max(n, 1))*uint64(unsafe.Sizeof(zero)), 0)); err != nil {
		return nil, err
	}
	return &Host[T]{Data: unsafe.Slice((*T)(p), n), dev: dev}, nil
}

// Ptr is where kernels find the memory: with unified addressing at the host's own
// address (CUDA Driver API, "Unified Addressing").
func (h *Host[T]) Ptr() Ptr { return Ptr(uintptr(unsafe.Pointer(&h.Data[0]))) }

// Close frees the memory.
func (h *Host[T]) Close() error {
	if len(h.Data) == 0 {
		return nil
	}
	p := unsafe.Pointer(&h.Data[0])
	h.Data = nil
	return h.dev.d.check("cuMemFreeHost", h.dev.d.hostFree(p))
}
