package power

import (
	"cmp"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"llmprof/internal/procfs"
)

// A jetsonGPU is the GPU of a module as sysfs has it. NVIDIA's Jetson Linux developer guide
// names the files: devfreq for clocks, thermal zones, oc*_event_cnt for over-currents, and the
// cooling device of the GPU for its temperature.
type jetsonGPU struct {
	root        fs.FS
	devfreq     string // folder of the GPU's clock
	zone        string // file of its temperature, "" if there is none
	memory      string // folder of the memory's clock, "" if it may not be read
	cooling     string // file that is above 0 while clocks are lowered for the temperature
	overCurrent []string
	mu          sync.Mutex
	events      float64 // number of over-currents until the last state
}

// gpuClock matches names under /sys/class/devfreq: 17000000.ga10b, 57000000.gpu and, on Thor,
// gpu-gpc-0; gpu-nvd-0 is its video decoder.
var gpuClock = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\.(gpu|g[a-z]\d+b)$|^gpu-gpc-`) })

// openJetsonGPU finds the clocks of a module's GPU, nil if the system does not report them.
func openJetsonGPU(root fs.FS) *jetsonGPU {
	g := &jetsonGPU{root: root}
	for _, dir := range found(root, "sys/class/devfreq/*") {
		if gpuClock().MatchString(path.Base(dir)) && g.devfreq == "" {
			g.devfreq = dir
		}
	}
	if g.number(g.devfreq+"/cur_freq") == nil {
		return nil
	}
	for _, file := range found(root, "sys/class/thermal/thermal_zone*/type") {
		if name, err := procfs.Text(root, file); err == nil && strings.HasPrefix(strings.ToLower(name), "gpu") && g.zone == "" {
			g.zone = path.Dir(file) + "/temp"
		}
	}
	for _, file := range found(root, "sys/class/thermal/cooling_device*/type") {
		if name, err := procfs.Text(root, file); err == nil && strings.HasPrefix(name, "gpu-throttle") {
			g.cooling = path.Dir(file) + "/cur_state"
		}
	}
	const emc = "sys/kernel/debug/bpmp/debug/clk/emc"
	if g.number(emc+"/rate") != nil {
		g.memory = emc
	}
	g.overCurrent = found(root, "sys/class/hwmon/hwmon*/oc*_event_cnt")
	g.events = g.counted()
	return g
}

// found lists what matches a pattern, in order.
func found(root fs.FS, pattern string) []string {
	files, _ := fs.Glob(root, pattern) // the patterns are ours, and well formed
	slices.Sort(files)
	return files
}

// number is the number in a file, nil if there is none.
func (g *jetsonGPU) number(file string) *float64 {
	s, err := procfs.Text(g.root, file)
	if err != nil {
		return nil
	}
	v, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return nil
	}
	return new(float64(v))
}

// counted is the number of over-current events since the module was started.
func (g *jetsonGPU) counted() float64 {
	sum := 0.
	for _, file := range g.overCurrent {
		if n := g.number(file); n != nil {
			sum += *n
		}
	}
	return sum
}

func (g *jetsonGPU) id() string                    { return "" }
func (g *jetsonGPU) held() map[string]float64      { return nil }
func (g *jetsonGPU) processes() ([]Process, error) { return nil, nil }
func (g *jetsonGPU) period() time.Duration         { return samplePeriod }

// state reads clocks and temperature; what the system does not say is nil.
func (g *jetsonGPU) state() (*state, error) {
	s := &state{smHz: g.number(g.devfreq + "/cur_freq"), smMaxHz: g.most()}
	if s.smHz != nil && *s.smHz < 0 {
		s.smHz = nil
	}
	if milli := g.number(g.zone); milli != nil {
		s.celsius = new(*milli / 1e3)
	}
	if g.memory != "" {
		s.memoryHz, s.memoryMaxHz = g.number(g.memory+"/rate"), g.number(g.memory+"/max_rate")
	}
	if level := g.number(g.cooling); level != nil && *level > 0 {
		s.reasons = append(s.reasons, "sw_thermal")
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if n := g.counted(); n > g.events {
		s.reasons = append(s.reasons, "over_current")
		g.events = n
	}
	return s, nil
}

// most is the highest clock of the GPU; the power mode may allow less.
func (g *jetsonGPU) most() *float64 {
	most := 0.
	if list, err := procfs.Text(g.root, g.devfreq+"/available_frequencies"); err == nil {
		for word := range strings.FieldsSeq(list) {
			if hz, err := strconv.ParseUint(word, 10, 48); err == nil {
				most = max(most, float64(hz))
			}
		}
	}
	if hz := g.number(g.devfreq + "/max_freq"); hz != nil {
		most = cmp.Or(most, max(*hz, 0))
	}
	if most == 0 {
		return nil
	}
	return &most
}
