//go:build cgo && linux

package power

import (
	"encoding/binary"
	"errors"
	"math"
	"strings"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"llmprof/internal/testkit"
)

// A fake is a board behind NVML's interface: its power is 300 W and 100
// more in each second half, its counter ticks each 100 ms, and a read of it takes
// 4 ms.
type fake struct {
	born    time.Time
	running []nvml.ProcessInfo
	back    bool // the counter goes back after a second
	still   bool // it never moves
	dead    time.Duration
	reads   int // of the counter
}

func (f *fake) watts(t time.Duration) float64 {
	if t%time.Second >= time.Second/2 {
		return 400
	}
	return 300
}

func (f *fake) joules(t time.Duration) float64 {
	whole := float64(t / time.Second)
	part := (t % time.Second).Seconds()
	return whole*350 + part*300 + max(part-0.5, 0)*100
}

func (f *fake) counter() (uint64, nvml.Return) {
	f.reads++
	time.Sleep(2 * time.Millisecond)
	age := time.Since(f.born)
	time.Sleep(2 * time.Millisecond)
	switch {
	case f.dead > 0 && age > f.dead:
		return 0, nvml.ERROR_GPU_IS_LOST
	case f.still:
		return 5, nvml.SUCCESS
	case f.back && age > time.Second:
		return 7, nvml.SUCCESS
	}
	return uint64(1e6 + 1e3*f.joules(age.Truncate(100*time.Millisecond))), nvml.SUCCESS
}

func (f *fake) fields(values []nvml.FieldValue) nvml.Return {
	for i := range values {
		v := &values[i]
		switch v.FieldId {
		case nvml.FI_DEV_POWER_INSTANT:
			v.ValueType = uint32(nvml.VALUE_TYPE_UNSIGNED_INT)
			binary.LittleEndian.PutUint32(v.Value[:], uint32(1e3*f.watts(time.Since(f.born))))
		case nvml.FI_DEV_PERF_POLICY_POWER: // a tenth of the time
			v.ValueType = uint32(nvml.VALUE_TYPE_UNSIGNED_LONG_LONG)
			binary.LittleEndian.PutUint64(v.Value[:], uint64(time.Since(f.born)/10))
		default:
			v.NvmlReturn = uint32(nvml.ERROR_NOT_SUPPORTED)
		}
	}
	return nvml.SUCCESS
}

// A fakeDevice has those of NVML's calls that a board makes; another one panics.
type fakeDevice struct {
	nvml.Device
	*fake
	uuid string
}

func (d fakeDevice) GetUUID() (string, nvml.Return)                      { return d.uuid, nvml.SUCCESS }
func (fakeDevice) GetName() (string, nvml.Return)                        { return "NVIDIA Test", nvml.SUCCESS }
func (d fakeDevice) GetTotalEnergyConsumption() (uint64, nvml.Return)    { return d.counter() }
func (d fakeDevice) GetFieldValues(values []nvml.FieldValue) nvml.Return { return d.fields(values) }
func (fakeDevice) GetEnforcedPowerLimit() (uint32, nvml.Return)          { return 700000, nvml.SUCCESS }
func (fakeDevice) GetPowerManagementDefaultLimit() (uint32, nvml.Return) { return 700000, nvml.SUCCESS }
func (fakeDevice) GetPersistenceMode() (nvml.EnableState, nvml.Return) {
	return nvml.FEATURE_ENABLED, nvml.SUCCESS
}
func (fakeDevice) GetMigMode() (now, next int, ret nvml.Return) {
	return 0, 0, nvml.ERROR_NOT_SUPPORTED
}
func (fakeDevice) GetClockInfo(nvml.ClockType) (uint32, nvml.Return)   { return 1980, nvml.SUCCESS }
func (fakeDevice) GetCurrentClocksEventReasons() (uint64, nvml.Return) { return 4, nvml.SUCCESS }
func (fakeDevice) GetUtilizationRates() (nvml.Utilization, nvml.Return) {
	return nvml.Utilization{Gpu: 100, Memory: 50}, nvml.SUCCESS
}

func (fakeDevice) GetMemoryInfo() (nvml.Memory, nvml.Return) {
	return nvml.Memory{Total: 80 << 30, Used: 17 << 30}, nvml.SUCCESS
}

func (fakeDevice) GetEccMode() (now, next nvml.EnableState, ret nvml.Return) {
	return nvml.FEATURE_ENABLED, nvml.FEATURE_ENABLED, nvml.SUCCESS
}

func (fakeDevice) GetMaxClockInfo(c nvml.ClockType) (uint32, nvml.Return) {
	return map[nvml.ClockType]uint32{nvml.CLOCK_SM: 1980, nvml.CLOCK_MEM: 2619}[c], nvml.SUCCESS
}

func (fakeDevice) GetTemperature(nvml.TemperatureSensors) (uint32, nvml.Return) {
	return 40, nvml.SUCCESS
}

func (d fakeDevice) GetComputeRunningProcesses() ([]nvml.ProcessInfo, nvml.Return) {
	return d.running, nvml.SUCCESS
}

// A fakeLibrary has those of NVML's calls that list boards.
type fakeLibrary struct {
	nvml.Interface
	*fake
	uuids []string
	init  nvml.Return
}

func (l fakeLibrary) Init() nvml.Return                            { return l.init }
func (fakeLibrary) Shutdown() nvml.Return                          { return nvml.SUCCESS }
func (fakeLibrary) ErrorString(r nvml.Return) string               { return nvmlText(r) }
func (fakeLibrary) SystemGetDriverVersion() (string, nvml.Return)  { return "580.1", nvml.SUCCESS }
func (fakeLibrary) SystemGetCudaDriverVersion() (int, nvml.Return) { return 13020, nvml.SUCCESS }
func (l fakeLibrary) DeviceGetCount() (int, nvml.Return)           { return len(l.uuids), nvml.SUCCESS }
func (l fakeLibrary) DeviceGetHandleByIndex(i int) (nvml.Device, nvml.Return) {
	return fakeDevice{fake: l.fake, uuid: l.uuids[i]}, nvml.SUCCESS
}

func nvmlText(r nvml.Return) string {
	if r == nvml.ERROR_GPU_IS_LOST {
		return "GPU is lost"
	}
	return "error"
}

// opened is a monitor of the fake, as Open would make it.
func opened(t *testing.T, f *fake, o Options, uuids ...string) *Monitor {
	t.Helper()
	f.born = time.Now().Add(-37 * time.Millisecond) // between two ticks
	o.Root = fstest.MapFS{"proc/77/stat": file("77 (a b) c) S 41 0"), "proc/41/stat": file("41 (sh) S 1 0")}
	o = o.withDefaults()
	m := &Monitor{own: map[int]bool{}, root: o.Root}
	d, err := nvmlDriver(fakeLibrary{fake: f, uuids: uuids}, o.Root)
	testkit.Must(t, err)
	testkit.Must(t, m.choose(d, &o))
	return m
}

// The edges are found at ticks, so the counter gives the energy between them to
// the read; 5.25 s of the fake's steps, integrated, agree.
func TestNVML(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{running: []nvml.ProcessInfo{{Pid: 77}, {Pid: 99, UsedGpuMemory: 5 << 30}}}
		m := opened(t, f, Options{}, "GPU-aa", "GPU-ab")
		m.Own(41)
		mark, err := m.Begin(t.Context())
		testkit.Must(t, err)
		time.Sleep(5250 * time.Millisecond)
		w, err := m.End(t.Context(), mark)
		testkit.Must(t, err)
		seconds := w.End.Sub(w.Begin).Seconds()
		if len(w.Domains) != 2 || seconds < 5.2 || seconds > 5.5 {
			t.Fatalf("%d domains, %v s", len(w.Domains), seconds)
		}
		d := w.Domains[0]
		truth := f.joules(w.End.Sub(f.born)) - f.joules(w.Begin.Sub(f.born))
		if math.Abs(*d.CounterJ/truth-1) > 0.003 || math.Abs(*d.IntegralJ/truth-1) > 0.01 || d.Coarse || d.Sensor != "nvml counter" {
			t.Errorf("counter %v J, integral %v J, truth %v J: %+v", *d.CounterJ, *d.IntegralJ, truth, d)
		}
		c := w.Conditions[0]
		if len(c.OtherPIDs) != 1 || c.OtherPIDs[0] != 99 {
			t.Errorf("others %v: want 99 alone, for 77 descends from our own 41", c.OtherPIDs)
		}
		if held := c.ThrottledS["sw_power_cap"]; math.Abs(held/seconds-0.1) > 0.01 {
			t.Errorf("held down for %v s of %v", held, seconds)
		}
		if got := Throttled(w.Conditions, 0.05); len(got) != 1 || got[0] != "sw_power_cap" || len(Throttled(w.Conditions, 0.2)) != 0 {
			t.Errorf("throttled by %v", got)
		}
		if c.SMClockHz.Mean != 1.98e9 || c.Utilization.Mean != 1 || c.MemoryUtil.Mean != 0.5 || *c.MemoryUsed != 17<<30 {
			t.Errorf("conditions %+v", c)
		}
		g := m.GPUs()[1]
		if g.UUID != "GPU-ab" || g.Name != "NVIDIA Test" || *g.PowerLimitW != 700 || g.MIG != nil || !*g.ECC {
			t.Errorf("GPU %+v", g)
		}
		busy, err := m.Busy(t.Context())
		if err != nil || len(busy) != 2 || busy[0].PID != 99 || *busy[0].MemoryBytes != 5<<30 {
			t.Errorf("busy %+v, %v", busy, err)
		}
	})
}

func TestNVMLFails(t *testing.T) {
	for want, f := range map[string]*fake{
		"went back":    {back: true},
		"did not move": {still: true},
		"GPU is lost":  {dead: time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			m := opened(t, f, Options{}, "GPU-a")
			mark, err := m.Begin(t.Context())
			if err == nil {
				time.Sleep(2 * time.Second)
				_, err = m.End(t.Context(), mark)
			}
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want it to say %q", err, want)
			}
		})
	}
	lib := fakeLibrary{init: nvml.ERROR_LIBRARY_NOT_FOUND}
	if _, err := nvmlDriver(lib, fstest.MapFS{}); !errors.Is(err, errNoDriver) {
		t.Errorf("without a library: %v", err)
	}
}
