package cuda

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
)

// Properties are what the driver says of a GPU.
type Properties struct {
	Name          string
	UUID          string // UUID in the form of nvidia-smi: GPU-...
	Major, Minor  int    // compute capability
	SMs           int
	L2Bytes       int
	SharedOptIn   int    // most shared memory of one block
	DriverVersion int    // CUDA version the driver speaks: 13000 for 13.0
	Code          string // NVRTC's name of the machine code for its compute capability
}

// A Device is one GPU with its primary context current on this thread, and the
// memory that was allocated through it.
type Device struct {
	Properties
	d      *driver
	lt     *cublas
	folder string
	ord    int32
	ctx    uintptr
	live   map[uint64]uint64 // address to size
	used   uint64
	peak   uint64
}

// Open makes GPU number ordinal (in the driver's order, which
// CUDA_VISIBLE_DEVICES rules) current on this goroutine's thread. Libraries are
// searched in folder if it is not empty.
func Open(ordinal int, folder string) (*Device, error) {
	d, err := openDriver(folder)
	if err != nil {
		return nil, err
	}
	dev := &Device{d: d, folder: folder, live: map[uint64]uint64{}}
	if err := dev.find(ordinal); err != nil {
		return nil, err
	}
	runtime.LockOSThread()
	if err := d.check("cuDevicePrimaryCtxRetain", d.primaryRetain(&dev.ctx, dev.ord)); err != nil {
		runtime.UnlockOSThread()
		return nil, err
	}
	if err := d.check("cuCtxSetCurrent", d.ctxSetCurrent(dev.ctx)); err != nil {
		return nil, errors.Join(err, dev.Close())
	}
	return dev, nil
}

// Ready says what is missing for an engine to run here in every format, and so without
// being asked for: a driver with a GPU that is new enough, or one of the libraries. It
// takes no memory of the GPU.
func Ready(folder string) error {
	d, err := openDriver(folder)
	if err != nil {
		return err
	}
	dev := &Device{d: d}
	if err := dev.find(0); err != nil {
		return err
	}
	if dev.Major < 8 {
		return &DeviceError{fmt.Sprintf("%s has compute capability %d.%d; an engine that is not named needs 8.0 or newer", dev.Name, dev.Major,
			dev.Minor)}
	}
	if _, err := OpenCompiler(folder); err != nil {
		return err
	}
	_, _, err = cublasLibrary().open(folder)
	return err
}

// Count is how many GPUs the driver shows.
func Count(folder string) (int, error) {
	d, err := openDriver(folder)
	if err != nil {
		return 0, err
	}
	return d.count()
}

func (d *driver) count() (int, error) {
	var n int32
	err := d.check("cuDeviceGetCount", d.deviceCount(&n))
	return int(n), err
}

// find reads what is known of the GPU without a context.
func (dev *Device) find(ordinal int) error {
	d := dev.d
	n, err := d.count()
	if err != nil {
		return err
	}
	if ordinal < 0 || ordinal >= n {
		return &DeviceError{fmt.Sprintf("there is no GPU %d: the driver shows %d (CUDA_VISIBLE_DEVICES chooses among them)", ordinal, n)}
	}
	if err := d.check("cuDeviceGet", d.deviceGet(&dev.ord, int32(ordinal))); err != nil {
		return err
	}
	if err := dev.names(); err != nil {
		return err
	}
	dev.DriverVersion = int(d.version)
	// CUdevice_attribute of cuda.h.
	for _, a := range []struct {
		attr int32
		to   *int
	}{{75, &dev.Major}, {76, &dev.Minor}, {16, &dev.SMs}, {38, &dev.L2Bytes}, {97, &dev.SharedOptIn}} {
		var v int32
		if err := d.check("cuDeviceGetAttribute", d.deviceAttr(&v, a.attr, dev.ord)); err != nil {
			return err
		}
		*a.to = int(v)
	}
	dev.Code = architecture(dev.Major, dev.Minor)
	return nil
}

func (dev *Device) names() error {
	d := dev.d
	buf := make([]byte, 256)
	if err := d.check("cuDeviceGetName", d.deviceName(&buf[0], int32(len(buf)), dev.ord)); err != nil {
		return err
	}
	dev.Name = cut(buf)
	u := make([]byte, 16)
	if err := d.check("cuDeviceGetUuid", d.deviceUUID(&u[0], dev.ord)); err != nil {
		return err
	}
	dev.UUID = fmt.Sprintf("GPU-%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:])
	return nil
}

func cut(b []byte) string {
	s, _, _ := bytes.Cut(b, []byte{0})
	return string(s)
}

// Sync waits for what was given to the GPU outside of a Stream, and reports what
// went wrong in it. It leaves other threads alone, of which one may be recording
// a graph, when waiting for the whole context is forbidden.
func (dev *Device) Sync() error {
	const defaultStream = 0
	return dev.d.check("cuStreamSynchronize", dev.d.streamSync(defaultStream))
}

// Close frees what was allocated and gives the GPU back.
func (dev *Device) Close() error {
	var errs []error
	if dev.lt != nil {
		errs = append(errs, dev.lt.close())
	}
	for p := range dev.live {
		errs = append(errs, dev.Free(Ptr(p)))
	}
	errs = append(errs, dev.d.check("cuDevicePrimaryCtxRelease", dev.d.primaryRelease(dev.ord)))
	runtime.UnlockOSThread()
	return errors.Join(errs...)
}

// Together says why the first GPUs, so many, could not share a model: there are
// fewer, or one of them cannot reach another's memory. It touches none of them.
func Together(folder string, gpus int) error {
	d, err := openDriver(folder)
	if err != nil {
		return err
	}
	all := make([]*Device, gpus)
	for i := range all {
		all[i] = &Device{d: d}
		if err := all[i].find(i); err != nil {
			return err
		}
	}
	for _, dev := range all {
		for _, peer := range all {
			if err := dev.canReach(peer); dev != peer && err != nil {
				return err
			}
		}
	}
	return nil
}

// canReach says why kernels of dev could not touch the memory of peer.
func (dev *Device) canReach(peer *Device) error {
	var can int32
	if err := dev.d.check("cuDeviceCanAccessPeer", dev.d.peerPossible(&can, dev.ord, peer.ord)); err != nil {
		return err
	}
	if can == 0 {
		return &DeviceError{
			fmt.Sprintf("%s (%s) cannot reach the memory of %s (%s): GPUs that share a model need NVLink or peer access over PCIe",
				dev.Name, dev.UUID, peer.Name, peer.UUID)}
	}
	return nil
}

// ReachPeer lets kernels of dev touch the memory of peer, another GPU of this
// process and host, by its addresses. It is called on the goroutine of dev.
func (dev *Device) ReachPeer(peer *Device) error {
	if err := dev.canReach(peer); err != nil {
		return err
	}
	const alreadyEnabled = 704 // CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED
	code := dev.d.peerEnable(peer.ctx, 0)
	if code == alreadyEnabled {
		return nil
	}
	return dev.d.check("cuCtxEnablePeerAccess", code)
}
