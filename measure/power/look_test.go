//go:build cgo && linux

package power

import (
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"llmprof/internal/testkit"
)

// Clocks are read beside a run without a look at the energy counter, at a pace of their own.
func TestLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{running: []nvml.ProcessInfo{{Pid: 77}, {Pid: 99}}}
		m := opened(t, f, Options{}, "GPU-a", "GPU-b")
		m.Own(41)
		before := f.reads
		end := m.Look(t.Context())
		time.Sleep(10 * time.Second)
		all, err := end()
		if err != nil || len(all) != 2 {
			t.Fatalf("%+v, %v", all, err)
		}
		c := all[1]
		if c.UUID != "GPU-b" || c.SMClockHz.N < 15 || c.SMClockHz.N > 25 || c.SMClockHz.Median != 1.98e9 || *c.SMClockMaxHz != 1.98e9 ||
			*c.MemClockMaxHz != 2.619e9 || *c.PowerLimitW != 700 || *c.PowerLimitDefaultW != 700 || c.Temperature.Max != 40 {
			t.Errorf("%+v", c)
		}
		if *c.Seconds != 10 || c.ThrottledS["sw_power_cap"] != 1 {
			t.Errorf("held down for %v of %v s: want a tenth", c.ThrottledS, *c.Seconds)
		}
		if len(c.OtherPIDs) != 1 || c.OtherPIDs[0] != 99 {
			t.Errorf("others %v", c.OtherPIDs)
		}
		if f.reads != before {
			t.Errorf("the energy counter was read %d times", f.reads-before)
		}
		now, err := m.Now()
		if err != nil || len(now) != 2 || now[0].SMClockHz.Median != 1.98e9 || len(now[0].ThrottledS) != 1 {
			t.Errorf("now %+v, %v", now, err)
		}
	})
}

// A short run is looked at once at least.
func TestLookAtAShortRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		end := opened(t, &fake{}, Options{}, "GPU-a").Look(t.Context())
		all, err := end()
		if err != nil || len(all) != 1 || all[0].SMClockHz.N != 1 {
			t.Errorf("%+v, %v", all, err)
		}
	})
}

// nvidia-smi is asked anew for each state, far less often than NVML.
func TestLookBySMI(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _ := openedSMI(t)
		end := m.Look(t.Context())
		time.Sleep(20 * time.Second)
		all, err := end()
		if err != nil || len(all) != 1 {
			t.Fatalf("%+v, %v", all, err)
		}
		c := all[0]
		if c.SMClockHz.N < 8 || c.SMClockHz.N > 13 || *c.SMClockMaxHz != 1.98e9 || c.ThrottledS["sw_power_cap"] < 19 || *c.PowerLimitW != 700 {
			t.Errorf("%+v", c)
		}
	})
}

// orinClocks are the files of an Orin's GPU in a power mode that leaves it 624 MHz.
func orinClocks() fstest.MapFS {
	return fstest.MapFS{
		"proc/device-tree/model":                               {Data: []byte("NVIDIA Jetson Orin Nano\x00")},
		"sys/class/devfreq/15480000.nvdec/cur_freq":            file("1"),
		"sys/class/devfreq/17000000.gpu/cur_freq":              file("624750000"),
		"sys/class/devfreq/17000000.gpu/max_freq":              file("624750000"),
		"sys/class/devfreq/17000000.gpu/available_frequencies": file("306000000 624750000 1020000000"),
		"sys/class/thermal/thermal_zone0/type":                 file("cpu-thermal"),
		"sys/class/thermal/thermal_zone1/type":                 file("gpu-thermal"),
		"sys/class/thermal/thermal_zone1/temp":                 file("71500"),
		"sys/class/thermal/cooling_device3/type":               file("gpu-throttle-alert"),
		"sys/class/thermal/cooling_device3/cur_state":          file("1"),
		"sys/class/hwmon/hwmon2/oc1_event_cnt":                 file("5"),
		"sys/kernel/debug/bpmp/debug/clk/emc/rate":             file("2133000000"),
		"sys/kernel/debug/bpmp/debug/clk/emc/max_rate":         file("3199000000"),
	}
}

// A Jetson says its clocks with energy and without.
func TestJetsonClocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tree := orinClocks()
		chip(tree, 1, "VDD_IN", 5000, 2500)
		m, err := Open(t.Context(), Options{Root: tree, Run: smi(nil)})
		testkit.Must(t, err)
		end := m.Look(t.Context())
		mark, err := m.Begin(t.Context())
		testkit.Must(t, err)
		time.Sleep(2 * time.Second)
		tree["sys/class/hwmon/hwmon2/oc1_event_cnt"] = file("6")
		time.Sleep(8 * time.Second)
		w, err := m.End(t.Context(), mark)
		if err != nil || len(w.Conditions) != 1 || len(w.Domains) != 1 {
			t.Fatalf("%+v, %v", w, err)
		}
		looked, err := end()
		if err != nil || len(looked) != 1 {
			t.Fatalf("%+v, %v", looked, err)
		}
		c := looked[0]
		if c.SMClockHz.Median != 624.75e6 || *c.SMClockMaxHz != 1.02e9 || c.Temperature.Max != 71.5 || c.MemClockHz.Max != 2.133e9 ||
			*c.MemClockMaxHz != 3.199e9 {
			t.Errorf("%+v", c)
		}
		if c.ThrottledS["sw_thermal"] < 9.9 || c.ThrottledS["over_current"]+w.Conditions[0].ThrottledS["over_current"] == 0 {
			t.Errorf("held down %v, %v", c.ThrottledS, w.Conditions[0].ThrottledS)
		}
	})
}

// A Jetson whose files tell no clock has no condition.
func TestJetsonWithoutClocks(t *testing.T) {
	for _, tree := range []fstest.MapFS{{}, {"sys/class/devfreq/17000000.gpu/cur_freq": file("fast")},
		{"sys/class/devfreq/gpu-nvd-0/cur_freq": file("5")}} {
		if g := openJetsonGPU(tree); g != nil {
			t.Errorf("%v: %+v", tree, g)
		}
	}
}
