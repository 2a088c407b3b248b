package cuda

import (
	"fmt"
	"unsafe"
)

// driver holds the functions of libcuda. Handles are uintptr, device addresses
// uint64; every function returns a CUresult.
type driver struct {
	file string // path of the library that was loaded

	init              func(flags uint32) int32
	driverVersion     func(v *int32) int32
	getErrorName      func(code int32, s **byte) int32
	getErrorString    func(code int32, s **byte) int32
	deviceCount       func(n *int32) int32
	deviceGet         func(dev *int32, ordinal int32) int32
	deviceName        func(name *byte, size, dev int32) int32
	deviceUUID        func(uuid *byte, dev int32) int32
	deviceMem         func(size *uint64, dev int32) int32
	deviceAttr        func(v *int32, attr, dev int32) int32
	primaryRetain     func(ctx *uintptr, dev int32) int32
	primaryRelease    func(dev int32) int32
	ctxSetCurrent     func(ctx uintptr) int32
	peerPossible      func(can *int32, dev, peer int32) int32
	peerEnable        func(ctx uintptr, flags uint32) int32
	memInfo           func(free, total *uint64) int32
	memAlloc          func(p *uint64, size uint64) int32
	memFree           func(p uint64) int32
	hostAlloc         func(p *unsafe.Pointer, size uint64, flags uint32) int32
	hostFree          func(p unsafe.Pointer) int32
	copyToDevice      func(dst uint64, src unsafe.Pointer, n uint64) int32
	copyToHost        func(dst unsafe.Pointer, src, n uint64) int32
	copyToDeviceAsync func(dst uint64, src unsafe.Pointer, n uint64, stream uintptr) int32
	copyDeviceAsync   func(dst, src, n uint64, stream uintptr) int32
	setBytes          func(p uint64, v uint8, n uint64) int32
	setWordsAsync     func(p uint64, v uint32, n uint64, stream uintptr) int32
	setBytesAsync     func(p uint64, v uint8, n uint64, stream uintptr) int32
	streamCreate      func(s *uintptr, flags uint32) int32
	streamDestroy     func(s uintptr) int32
	streamSync        func(s uintptr) int32
	eventCreate       func(e *uintptr, flags uint32) int32
	eventDestroy      func(e uintptr) int32
	eventRecord       func(e, s uintptr) int32
	eventSync         func(e uintptr) int32
	eventElapsed      func(ms *float32, a, b uintptr) int32
	moduleLoad        func(m *uintptr, image unsafe.Pointer) int32
	moduleUnload      func(m uintptr) int32
	moduleFunction    func(f *uintptr, m uintptr, name string) int32
	funcSetAttribute  func(f uintptr, attr, v int32) int32
	launch            func(cfg *launchConfig, f uintptr, params, extra unsafe.Pointer) int32
	activeClusters    func(n *int32, f uintptr, cfg *launchConfig) int32
	encodeTiled       func(m unsafe.Pointer, kind int32, rank uint32, at uint64, size, stride, box, step unsafe.Pointer, interleave, swizzle, promotion, fill int32) int32
	captureBegin      func(s uintptr, mode int32) int32
	captureEnd        func(s uintptr, g *uintptr) int32
	graphInstantiate  func(exec *uintptr, g uintptr, flags uint64) int32
	graphDestroy      func(g uintptr) int32
	graphExecDestroy  func(g uintptr) int32
	graphLaunch       func(g, s uintptr) int32
}

// symbols maps the names in libcuda to the fields. The _v2 of a name is what
// cuda.h makes of it.
func (d *driver) symbols() map[string]any {
	return map[string]any{
		"cuInit": &d.init, "cuDriverGetVersion": &d.driverVersion,
		"cuGetErrorName": &d.getErrorName, "cuGetErrorString": &d.getErrorString,
		"cuDeviceGetCount": &d.deviceCount, "cuDeviceGet": &d.deviceGet, "cuDeviceGetName": &d.deviceName,
		"cuDeviceGetUuid_v2": &d.deviceUUID, "cuDeviceTotalMem_v2": &d.deviceMem,
		"cuDeviceGetAttribute":     &d.deviceAttr,
		"cuDevicePrimaryCtxRetain": &d.primaryRetain, "cuDevicePrimaryCtxRelease_v2": &d.primaryRelease,
		"cuCtxSetCurrent": &d.ctxSetCurrent, "cuDeviceCanAccessPeer": &d.peerPossible, "cuCtxEnablePeerAccess": &d.peerEnable,
		"cuMemGetInfo_v2": &d.memInfo, "cuMemAlloc_v2": &d.memAlloc, "cuMemFree_v2": &d.memFree,
		"cuMemHostAlloc": &d.hostAlloc, "cuMemFreeHost": &d.hostFree,
		"cuMemcpyHtoD_v2": &d.copyToDevice, "cuMemcpyDtoH_v2": &d.copyToHost,
		"cuMemcpyHtoDAsync_v2": &d.copyToDeviceAsync, "cuMemcpyDtoDAsync_v2": &d.copyDeviceAsync,
		"cuMemsetD8_v2": &d.setBytes, "cuMemsetD8Async": &d.setBytesAsync, "cuMemsetD32Async": &d.setWordsAsync,
		"cuStreamCreate": &d.streamCreate, "cuStreamDestroy_v2": &d.streamDestroy, "cuStreamSynchronize": &d.streamSync,
		"cuEventCreate": &d.eventCreate, "cuEventDestroy_v2": &d.eventDestroy, "cuEventRecord": &d.eventRecord,
		"cuEventSynchronize": &d.eventSync, "cuEventElapsedTime": &d.eventElapsed,
		"cuModuleLoadData": &d.moduleLoad, "cuModuleUnload": &d.moduleUnload, "cuModuleGetFunction": &d.moduleFunction,
		"cuFuncSetAttribute": &d.funcSetAttribute, "cuLaunchKernelEx": &d.launch,
		"cuTensorMapEncodeTiled": &d.encodeTiled, "cuOccupancyMaxActiveClusters": &d.activeClusters,
		"cuStreamBeginCapture_v2": &d.captureBegin, "cuStreamEndCapture": &d.captureEnd,
		"cuGraphInstantiateWithFlags": &d.graphInstantiate, "cuGraphDestroy": &d.graphDestroy,
		"cuGraphExecDestroy": &d.graphExecDestroy, "cuGraphLaunch": &d.graphLaunch,
	}
}

// oldestDriver is the CUDA version that the driver must speak: 12.3 brought
// programmatic dependent launch into captured graphs.
const oldestDriver = 12030

// openDriver opens libcuda and starts it.
func openDriver(folder string) (*driver, error) {
	h, file, err := driverLibrary().open(folder)
	if err != nil {
		return nil, err
	}
	d := &driver{file: file}
	if err := bind(h, "the NVIDIA driver", d.symbols()); err != nil {
		return nil, err
	}
	if err := d.check("cuInit", d.init(0)); err != nil {
		return nil, fmt.Errorf("%w; is there an NVIDIA GPU that CUDA_VISIBLE_DEVICES does not hide, and may this user open /dev/nvidia*?", err)
	}
	var v int32
	if err := d.check("cuDriverGetVersion", d.driverVersion(&v)); err != nil {
		return nil, err
	}
	if v < oldestDriver {
		return nil, &DeviceError{fmt.Sprintf("the driver speaks CUDA %d.%d; 12.3 or newer is needed: install driver 545 or newer", v/1000, v%1000/10)}
	}
	return d, nil
}

// goString copies a C string.
func goString(p *byte) string {
	if p == nil {
		return ""
	}
	n := 0
	for *(*byte)(unsafe.Add(unsafe.Pointer(p), n)) != 0 {
		n++
	}
	return string(unsafe.Slice(p, n))
}
