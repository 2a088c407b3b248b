package power

import (
	"errors"
	"io/fs"
	"math"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"llmprof/internal/testkit"
)

// A processor is the powercap tree of two packages, one with memory, whose
// counters move with the clock.
type processor struct {
	tree   fstest.MapFS
	born   time.Time
	watts  map[string]float64 // of a zone's folder
	begins map[string]float64 // µJ at birth
	wrap   float64
	denied string
}

func newProcessor() *processor {
	const tree = "sys/class/powercap/"
	p := &processor{tree: fstest.MapFS{}, born: time.Now(), wrap: 1e9, begins: map[string]float64{}, watts: map[string]float64{
		"intel-rapl:0": 100, "intel-rapl:0:0": 60, "intel-rapl:0:1": 20, "intel-rapl:1": 50, "intel-rapl:2": 200,
	}}
	for zone, name := range map[string]string{
		"intel-rapl:0": "package-0", "intel-rapl:0:0": "core", "intel-rapl:0:1": "dram", "intel-rapl:1": "package-1", "intel-rapl:2": "psys",
	} {
		p.tree[tree+zone+"/name"] = file(name)
		p.tree[tree+zone+"/max_energy_range_uj"] = file("1000000000")
	}
	return p
}

func (p *processor) Open(name string) (fs.File, error) {
	zone, ok := strings.CutSuffix(strings.TrimPrefix(name, "sys/class/powercap/"), "/energy_uj")
	if !ok {
		return p.tree.Open(name)
	}
	if zone == p.denied {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrPermission}
	}
	uj := math.Mod(p.begins[zone]+p.watts[zone]*1e6*time.Since(p.born).Seconds(), p.wrap)
	return fstest.MapFS{"energy_uj": file(strconv.FormatInt(int64(uj), 10))}.Open("energy_uj")
}

func (p *processor) measure(t *testing.T, d time.Duration) (*Monitor, *Window) {
	t.Helper()
	m, err := Open(t.Context(), Options{Root: p, NoGPUs: true})
	testkit.Must(t, err)
	mark, err := m.Begin(t.Context())
	testkit.Must(t, err)
	time.Sleep(d)
	w, err := m.End(t.Context(), mark)
	testkit.Must(t, err)
	return m, w
}

// The counters wrap at 1000 J, twice in a window of 15 s at 100 W.
func TestRAPL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProcessor()
		p.begins["intel-rapl:0"] = 0.9e9
		m, w := p.measure(t, 15*time.Second)
		if got := energyOf(w); math.Abs(got-15*(100+20+50)) > 1e-3 {
			t.Errorf("%v J, want both packages and the memory", got)
		}
		if m.Scope() != "package-0, package-0 dram, package-1 (RAPL)" {
			t.Errorf("scope %q", m.Scope())
		}
		for name, want := range map[string]float64{"package-0": 100, "package-0 core": 60, "package-0 dram": 20, "psys": 200} {
			if d := domain(t, w, name); math.Abs(d.MeanW-want) > 1e-3 || d.CounterJ == nil || d.IntegralJ != nil {
				t.Errorf("%s: %+v, want %v W", name, d, want)
			}
		}
	})
}

func TestRAPLDenied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProcessor()
		p.denied = "intel-rapl:1"
		m, w := p.measure(t, time.Second)
		if said := strings.Join(m.Warnings(), "\n"); !strings.Contains(said, "let this user read /sys/class/powercap/intel-rapl:1/energy_uj") {
			t.Errorf("warnings %q", said)
		}
		if math.Abs(energyOf(w)-120) > 1e-3 {
			t.Errorf("%v J", energyOf(w))
		}
	})
}

// A counter that stands still is a sensor that does not work, and not 0 J.
func TestRAPLStandsStill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProcessor()
		p.watts["intel-rapl:1"] = 0
		m, err := Open(t.Context(), Options{Root: p, NoGPUs: true})
		testkit.Must(t, err)
		mark, err := m.Begin(t.Context())
		testkit.Must(t, err)
		time.Sleep(time.Second)
		if w, err := m.End(t.Context(), mark); err == nil || !strings.Contains(err.Error(), "package-1 did not move") {
			t.Errorf("%+v, %v", w, err)
		}
	})
}

// A part of a package whose counter stands still is left out: 0 J would be a figure.
func TestRAPLPartStandsStill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProcessor()
		p.watts["intel-rapl:0:0"] = 0
		_, w := p.measure(t, time.Second)
		for _, d := range w.Domains {
			if d.EnergyJ == 0 || d.Name == "package-0 core" {
				t.Errorf("%s has %v J", d.Name, d.EnergyJ)
			}
		}
		if math.Abs(energyOf(w)-170) > 1e-3 {
			t.Errorf("%v J", energyOf(w))
		}
	})
}

// Zones of which none counts towards the energy are no sensor: their sum would be 0 J.
func TestRAPLWithoutPackage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProcessor()
		for name := range p.tree {
			if !strings.Contains(name, "intel-rapl:2/") {
				delete(p.tree, name)
			}
		}
		if m, err := Open(t.Context(), Options{Root: p, NoGPUs: true}); !errors.Is(err, ErrNoSensor) ||
			!strings.Contains(err.Error(), "package") {
			t.Errorf("%v, %v", m, err)
		}
	})
}

func TestNoSensor(t *testing.T) {
	t.Run("none", func(t *testing.T) {
		t.Setenv("PATH", t.TempDir())
		m, err := Open(t.Context(), Options{Root: fstest.MapFS{}})
		if err == nil { // NVML is found by the loader, whatever Root and PATH are
			defer m.Close()
			t.Skipf("there is a sensor here: %s", m.Scope())
		}
		if !errors.Is(err, ErrNoSensor) {
			t.Fatalf("got %v", err)
		}
		for _, want := range []string{"NVML", "nvidia-smi", "no Jetson", "no RAPL"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%v: want it to say %q", err, want)
			}
		}
	})
	t.Run("none but GPUs", func(t *testing.T) {
		if _, err := Open(t.Context(), Options{Root: fstest.MapFS{}, NoGPUs: true}); !errors.Is(err, ErrNoSensor) ||
			strings.Contains(err.Error(), "NVML") {
			t.Errorf("got %v", err)
		}
	})
}
