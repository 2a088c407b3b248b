//go:build cgo && linux

package power

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"llmprof/internal/procfs"
	"llmprof/measure/result"
)

// openNVML opens NVIDIA's library and lists the boards that it knows.
func openNVML(_ context.Context, o *Options) (*driver, error) { return nvmlDriver(nvml.New(), o.Root) }

// nvmlDriver lists the boards of an open or closed library.
func nvmlDriver(lib nvml.Interface, root fs.FS) (_ *driver, err error) {
	if ret := lib.Init(); ret != nvml.SUCCESS {
		return nil, fmt.Errorf("%w: NVML (libnvidia-ml.so.1) does not start: %w", errNoDriver, said(lib, ret))
	}
	d := &driver{shut: func() error { return failed(lib, "shutting down", lib.Shutdown()) }}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.shut())
		}
	}()
	if version, ret := lib.SystemGetDriverVersion(); ret == nvml.SUCCESS {
		d.version = version
	}
	if version, ret := lib.SystemGetCudaDriverVersion(); ret == nvml.SUCCESS {
		d.cuda = fmt.Sprintf("%d.%d", version/1000, version%1000/10)
	}
	n, ret := lib.DeviceGetCount()
	if err := failed(lib, "counting the GPUs", ret); err != nil {
		return nil, err
	}
	for i := range n {
		device, ret := lib.DeviceGetHandleByIndex(i)
		if err := failed(lib, fmt.Sprintf("opening GPU %d", i), ret); err != nil {
			return nil, err
		}
		b, err := newNVMLBoard(lib, device, root)
		if err != nil {
			return nil, fmt.Errorf("GPU %d: %w", i, err)
		}
		d.boards = append(d.boards, b)
		d.gpus = append(d.gpus, b.describe())
	}
	return d, nil
}

// said is NVML's text for a code.
func said(lib nvml.Interface, ret nvml.Return) error { return errors.New(lib.ErrorString(ret)) }

func failed(lib nvml.Interface, doing string, ret nvml.Return) error {
	if ret == nvml.SUCCESS {
		return nil
	}
	return fmt.Errorf("NVML, %s: %w", doing, said(lib, ret))
}

// An nvmlBoard is a GPU as NVML knows it.
type nvmlBoard struct {
	lib      nvml.Interface
	device   nvml.Device
	uuid     string
	counts   bool // The board has an energy counter.
	instant  bool // The board has instantaneous power; else an average.
	root     fs.FS
	heldFrom []uint32 // fields that count how long clocks were held down

	smMaxHz, memoryMaxHz, limitDefault *float64 // limits, which do not change
}

// newNVMLBoard finds out what the board can say.
func newNVMLBoard(lib nvml.Interface, device nvml.Device, root fs.FS) (*nvmlBoard, error) {
	b := &nvmlBoard{lib: lib, device: device, root: root}
	var ret nvml.Return
	if b.uuid, ret = device.GetUUID(); ret != nvml.SUCCESS {
		return nil, failed(lib, "reading its UUID", ret)
	}
	_, ret = device.GetTotalEnergyConsumption()
	b.counts = ret == nvml.SUCCESS
	_, err := b.field(nvml.FI_DEV_POWER_INSTANT)
	b.instant = err == nil
	for _, f := range heldFields {
		if _, err := b.field(f.id); err == nil {
			b.heldFrom = append(b.heldFrom, f.id)
		}
	}
	b.smMaxHz, b.memoryMaxHz = mega(device.GetMaxClockInfo(nvml.CLOCK_SM)), mega(device.GetMaxClockInfo(nvml.CLOCK_MEM))
	b.limitDefault = milli(device.GetPowerManagementDefaultLimit())
	return b, nil
}

func (b *nvmlBoard) id() string { return b.uuid }

func (b *nvmlBoard) sensor() string {
	switch {
	case b.counts:
		return "nvml counter"
	case b.instant:
		return "nvml power"
	}
	return "nvml mean power"
}

func (b *nvmlBoard) coarse() bool { return !b.counts }

func (b *nvmlBoard) period() time.Duration { return samplePeriod }

func (b *nvmlBoard) joules() (float64, error) {
	if !b.counts {
		return 0, errNoCounter
	}
	millijoules, ret := b.device.GetTotalEnergyConsumption()
	return float64(millijoules) / 1e3, failed(b.lib, "reading the energy counter", ret)
}

func (b *nvmlBoard) watts() (float64, error) {
	if b.instant {
		milliwatts, err := b.field(nvml.FI_DEV_POWER_INSTANT)
		return milliwatts / 1e3, err
	}
	milliwatts, ret := b.device.GetPowerUsage()
	return float64(milliwatts) / 1e3, failed(b.lib, "reading the power", ret)
}

// field reads one of NVML's fields as a number.
func (b *nvmlBoard) field(id uint32) (float64, error) {
	values := []nvml.FieldValue{{FieldId: id}}
	if ret := b.device.GetFieldValues(values); ret != nvml.SUCCESS {
		return 0, failed(b.lib, fmt.Sprintf("reading field %d", id), ret)
	}
	v := &values[0]
	if ret := nvml.Return(v.NvmlReturn); ret != nvml.SUCCESS {
		return 0, failed(b.lib, fmt.Sprintf("reading field %d", id), ret)
	}
	return fieldNumber(nvml.ValueType(v.ValueType), v.Value)
}

// fieldNumber reads the union of a field's value; the host is little-endian
// wherever NVIDIA has a driver.
func fieldNumber(kind nvml.ValueType, value [8]byte) (float64, error) {
	bits := binary.LittleEndian.Uint64(value[:])
	switch kind {
	case nvml.VALUE_TYPE_DOUBLE:
		return math.Float64frombits(bits), nil
	case nvml.VALUE_TYPE_UNSIGNED_INT:
		return float64(uint32(bits)), nil
	case nvml.VALUE_TYPE_UNSIGNED_LONG, nvml.VALUE_TYPE_UNSIGNED_LONG_LONG:
		return float64(bits), nil
	case nvml.VALUE_TYPE_SIGNED_LONG_LONG:
		return float64(int64(bits)), nil
	case nvml.VALUE_TYPE_SIGNED_INT:
		return float64(int32(bits)), nil
	case nvml.VALUE_TYPE_UNSIGNED_SHORT:
		return float64(uint16(bits)), nil
	}
	return 0, fmt.Errorf("NVML: a field of the unknown type %d", kind)
}

// heldFields count the nanoseconds for which clocks were held down.
var heldFields = []struct {
	id     uint32
	reason string
}{
	{nvml.FI_DEV_PERF_POLICY_POWER, "sw_power_cap"},
	{nvml.FI_DEV_PERF_POLICY_THERMAL, "thermal"},
	{nvml.FI_DEV_PERF_POLICY_SYNC_BOOST, "sync_boost"},
	{nvml.FI_DEV_PERF_POLICY_BOARD_LIMIT, "board_limit"},
	{nvml.FI_DEV_PERF_POLICY_RELIABILITY, "reliability"},
}

func (b *nvmlBoard) held() map[string]float64 {
	if len(b.heldFrom) == 0 {
		return nil
	}
	all := map[string]float64{}
	for _, f := range heldFields {
		if ns, err := b.field(f.id); err == nil {
			all[f.reason] = ns / 1e9
		}
	}
	return all
}

func (b *nvmlBoard) state() (*state, error) {
	s := &state{smMaxHz: b.smMaxHz, memoryMaxHz: b.memoryMaxHz, limitDefault: b.limitDefault}
	s.smHz, s.memoryHz = mega(b.device.GetClockInfo(nvml.CLOCK_SM)), mega(b.device.GetClockInfo(nvml.CLOCK_MEM))
	s.limit = milli(b.device.GetEnforcedPowerLimit())
	celsius, ret := b.device.GetTemperature(nvml.TEMPERATURE_GPU)
	s.celsius = known(float64(celsius), ret)
	use, ret := b.device.GetUtilizationRates()
	s.busy, s.memoryBusy = known(float64(use.Gpu)/100, ret), known(float64(use.Memory)/100, ret)
	m, ret := b.device.GetMemoryInfo()
	s.used = known(int64(m.Used), ret)
	if mask, ret := b.device.GetCurrentClocksEventReasons(); ret == nvml.SUCCESS {
		s.reasons = reasonsOf(mask)
	}
	return s, nil
}

// known is a value that was read, nil if it was not.
func known[T any](v T, ret nvml.Return) *T {
	if ret != nvml.SUCCESS {
		return nil
	}
	return &v
}

func mega(v uint32, ret nvml.Return) *float64  { return known(float64(v)*1e6, ret) }
func milli(v uint32, ret nvml.Return) *float64 { return known(float64(v)/1e3, ret) }

// noMemory is NVML_VALUE_NOT_AVAILABLE, as a container or Windows gives it.
const noMemory = math.MaxUint64

func (b *nvmlBoard) processes() ([]Process, error) {
	running, ret := b.device.GetComputeRunningProcesses()
	if ret == nvml.ERROR_NOT_SUPPORTED {
		return nil, nil
	}
	if err := failed(b.lib, "listing processes", ret); err != nil {
		return nil, err
	}
	var all []Process
	for i := range running {
		name, _ := procfs.Text(b.root, fmt.Sprintf("proc/%d/comm", running[i].Pid)) // "" if it cannot be read
		p := Process{UUID: b.uuid, PID: int(running[i].Pid), Name: name}
		if used := running[i].UsedGpuMemory; used != noMemory {
			p.MemoryBytes = new(int64(used))
		}
		all = append(all, p)
	}
	return all, nil
}

func (b *nvmlBoard) describe() result.GPU {
	g := result.GPU{UUID: b.uuid, PowerLimitW: milli(b.device.GetEnforcedPowerLimit())}
	if name, ret := b.device.GetName(); ret == nvml.SUCCESS {
		g.Name = name
	}
	m, ret := b.device.GetMemoryInfo()
	g.MemoryBytes = known(int64(m.Total), ret)
	persistent, ret := b.device.GetPersistenceMode()
	g.Persistence = known(persistent == nvml.FEATURE_ENABLED, ret)
	mig, _, ret := b.device.GetMigMode()
	g.MIG = known(mig == nvml.DEVICE_MIG_ENABLE, ret)
	ecc, _, ret := b.device.GetEccMode()
	g.ECC = known(ecc == nvml.FEATURE_ENABLED, ret)
	return g
}
