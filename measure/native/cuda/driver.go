package cuda

import (
	"fmt"
	"unsafe"
)

// driver holds the functions of libcuda. Handles are uintptr, device addresses
// uint64; every function returns a CUresult. The _v2 of a symbol is what cuda.h makes of
// the name.
type driver struct {
	file    string // path of the library that was loaded
	version int32  // CUDA version that the driver speaks: 13000 for 13.0

	init func(
		flags uint32) int32 `symbol:"cuInit"`
	driverVersion func(
		v *int32) int32 `symbol:"cuDriverGetVersion"`
	getErrorName func(code int32,
		s **byte) int32 `symbol:"cuGetErrorName"`
	getErrorString func(code int32,
		s **byte) int32 `symbol:"cuGetErrorString"`
	deviceCount func(
		n *int32) int32 `symbol:"cuDeviceGetCount"`
	deviceGet func(dev *int32,
		ordinal int32) int32 `symbol:"cuDeviceGet"`
	deviceName func(name *byte, size,
		dev int32) int32 `symbol:"cuDeviceGetName"`
	deviceUUID func(uuid *byte,
		dev int32) int32 `symbol:"cuDeviceGetUuid_v2"`
	deviceAttr func(v *int32, attr,
		dev int32) int32 `symbol:"cuDeviceGetAttribute"`
	primaryRetain func(ctx *uintptr,
		dev int32) int32 `symbol:"cuDevicePrimaryCtxRetain"`
	primaryRelease func(
		dev int32) int32 `symbol:"cuDevicePrimaryCtxRelease_v2"`
	ctxSetCurrent func(
		ctx uintptr) int32 `symbol:"cuCtxSetCurrent"`
	peerPossible func(can *int32, dev,
		peer int32) int32 `symbol:"cuDeviceCanAccessPeer"`
	peerEnable func(ctx uintptr,
		flags uint32) int32 `symbol:"cuCtxEnablePeerAccess"`
	memInfo func(free,
		total *uint64) int32 `symbol:"cuMemGetInfo_v2"`
	memAlloc func(p *uint64,
		size uint64) int32 `symbol:"cuMemAlloc_v2"`
	memFree func(
		p uint64) int32 `symbol:"cuMemFree_v2"`
	hostAlloc func(p *unsafe.Pointer, size uint64,
		flags uint32) int32 `symbol:"cuMemHostAlloc"`
	hostFree func(
		p unsafe.Pointer) int32 `symbol:"cuMemFreeHost"`
	copyToDevice func(dst uint64, src unsafe.Pointer,
		n uint64) int32 `symbol:"cuMemcpyHtoD_v2"`
	copyToHost func(dst unsafe.Pointer, src,
		n uint64) int32 `symbol:"cuMemcpyDtoH_v2"`
	copyToDeviceAsync func(dst uint64, src unsafe.Pointer, n uint64,
		stream uintptr) int32 `symbol:"cuMemcpyHtoDAsync_v2"`
	copyDeviceAsync func(dst, src, n uint64,
		stream uintptr) int32 `symbol:"cuMemcpyDtoDAsync_v2"`
	setBytes func(p uint64, v uint8,
		n uint64) int32 `symbol:"cuMemsetD8_v2"`
	setWordsAsync func(p uint64, v uint32, n uint64,
		stream uintptr) int32 `symbol:"cuMemsetD32Async"`
	setBytesAsync func(p uint64, v uint8, n uint64,
		stream uintptr) int32 `symbol:"cuMemsetD8Async"`
	streamCreate func(s *uintptr,
		flags uint32) int32 `symbol:"cuStreamCreate"`
	streamDestroy func(
		s uintptr) int32 `symbol:"cuStreamDestroy_v2"`
	streamSync func(
		s uintptr) int32 `symbol:"cuStreamSynchronize"`
	eventCreate func(e *uintptr,
		flags uint32) int32 `symbol:"cuEventCreate"`
	eventDestroy func(
		e uintptr) int32 `symbol:"cuEventDestroy_v2"`
	eventRecord func(e,
		s uintptr) int32 `symbol:"cuEventRecord"`
	eventSync func(
		e uintptr) int32 `symbol:"cuEventSynchronize"`
	eventElapsed func(ms *float32, a,
		b uintptr) int32 `symbol:"cuEventElapsedTime"`
	moduleLoad func(m *uintptr,
		image unsafe.Pointer) int32 `symbol:"cuModuleLoadData"`
	moduleUnload func(
		m uintptr) int32 `symbol:"cuModuleUnload"`
	moduleFunction func(f *uintptr, m uintptr,
		name string) int32 `symbol:"cuModuleGetFunction"`
	funcSetAttribute func(f uintptr, attr,
		v int32) int32 `symbol:"cuFuncSetAttribute"`
	launch func(cfg *launchConfig, f uintptr, params,
		extra unsafe.Pointer) int32 `symbol:"cuLaunchKernelEx"`
	activeClusters func(n *int32, f uintptr,
		cfg *launchConfig) int32 `symbol:"cuOccupancyMaxActiveClusters"`
	encodeTiled func(m unsafe.Pointer, kind int32, rank uint32, at uint64, size, stride, box, step unsafe.Pointer, interleave, swizzle,
		promotion, fill int32) int32 `symbol:"cuTensorMapEncodeTiled"`
	captureBegin     func(s uintptr, mode int32) int32                  `symbol:"cuStreamBeginCapture_v2"`
	captureEnd       func(s uintptr, g *uintptr) int32                  `symbol:"cuStreamEndCapture"`
	graphInstantiate func(exec *uintptr, g uintptr, flags uint64) int32 `symbol:"cuGraphInstantiateWithFlags"`
	graphDestroy     func(g uintptr) int32                              `symbol:"cuGraphDestroy"`
	graphExecDestroy func(g uintptr) int32                              `symbol:"cuGraphExecDestroy"`
	graphLaunch      func(g, s uintptr) int32                           `symbol:"cuGraphLaunch"`
}

// oldestDriver is the CUDA version that the driver must speak: 12.3 brought
// programmatic dependent launch into captured graphs.
const oldestDriver = 12030

func openDriver(folder string) (*driver, error) {
	h, file, err := driverLibrary().open(folder)
	if err != nil {
		return nil, err
	}
	d := &driver{file: file}
	if err := bind(h, "the NVIDIA driver", d); err != nil {
		return nil, err
	}
	if err := d.check("cuInit", d.init(0)); err != nil {
		return nil, fmt.Errorf("%w; is there an NVIDIA GPU that CUDA_VISIBLE_DEVICES does not hide, and may this user open /dev/nvidia*?", err)
	}
	if err := d.check("cuDriverGetVersion", d.driverVersion(&d.version)); err != nil {
		return nil, err
	}
	if v := d.version; v < oldestDriver {
		return nil, &DeviceError{fmt.Sprintf("the driver speaks CUDA %d.%d; 12.3 or newer is needed: install driver 545 or newer", v/1000,
			v%1000/10)}
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
