package power

import (
	"fmt"
	"slices"
	"strings"

	"llmprof/measure/result"
)

// A rail is a supply of a Jetson module that a sensor watches.
type rail struct {
	name     string
	kind     string // "board", "module" or "rail"
	summed   bool
	includes []string // parts that the rail feeds
}

// totals are the rails that everything else hangs on, the outermost first: the
// input of a Thor's board, of a module, of a Nano.
var totals = []struct{ name, kind string }{
	{"VIN", "board"}, {"VDD_IN", "module"}, {"POM_5V_IN", "module"},
}

// fed are rails that others feed, which a sum would count twice: on AGX Orin
// VIN_SYS_5V0 feeds the memory's supply (Jetson AGX Orin design guide).
var fed = map[string]string{"VDDQ_VDD2_1V8AO": "VIN_SYS_5V0"}

// railsOf says of the rails that a module has which may be added up, and what
// they are together.
func railsOf(names []string) (rails []rail, scope string) {
	total := ""
	for _, t := range totals {
		if total == "" && slices.Contains(names, t.name) {
			total, scope = t.name, t.kind+" ("+t.name+")"
		}
	}
	var sum []string
	for _, name := range names {
		r := rail{name: name, kind: "rail", includes: parts(name)}
		for _, t := range totals {
			if t.name == name {
				r.kind = t.kind
			}
		}
		switch {
		case total != "":
			r.summed = name == total
		case fed[name] == "" || !slices.Contains(names, fed[name]):
			r.summed = true
			sum = append(sum, name)
		}
		rails = append(rails, r)
	}
	if total == "" {
		scope = "module without its carrier board (" + strings.Join(sum, " + ") + ")"
	}
	return rails, scope
}

// parts are what a rail feeds, by its name: VDD_CPU_GPU_CV feeds cpu, gpu and cv.
func parts(name string) []string {
	var of []string
	for part := range strings.SplitSeq(name, "_") {
		switch {
		case slices.Contains([]string{"VDD", "VIN", "POM", "5V", "5V0", "IN", "4V0"}, part):
		default:
			of = append(of, strings.ToLower(part))
		}
	}
	return of
}

// railDomains integrates the samples of each rail between two of them.
func railDomains(rails []rail, sensor string, samples map[string][]Sample) (*reading, error) {
	r := &reading{}
	for _, one := range rails {
		all := samples[one.name]
		if len(all) < 2 {
			return nil, fmt.Errorf("%s: %d samples of the rail %s: the window is too short", sensor, len(all), one.name)
		}
		begin, end := all[0].Time, all[len(all)-1].Time
		joules, err := integral(all, begin, end)
		if err != nil {
			return nil, err
		}
		seconds := end.Sub(begin).Seconds()
		if seconds <= 0 {
			return nil, fmt.Errorf("%s: the samples of the rail %s are of one moment", sensor, one.name)
		}
		r.begin, r.end = begin, end
		r.samples = append(r.samples, all...)
		r.domains = append(r.domains, result.Domain{
			Name: one.name, Kind: one.kind, Sensor: sensor, Includes: append([]string{}, one.includes...), Summed: one.summed, EnergyJ: joules,
			IntegralJ: &joules, MeanW: joules / seconds, Seconds: seconds, Samples: len(all), Coarse: true,
		})
	}
	return r, nil
}
