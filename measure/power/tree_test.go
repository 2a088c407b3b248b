package power

import (
	"math"
	"strings"
	"testing"
	"testing/fstest"
)

// What is no whole number is no range: with NaN a counter that went back would
// have moved by NaN.
func TestRangeThatIsNoNumber(t *testing.T) {
	for limit, want := range map[string]float64{
		"262143328850": 262143328850, "NaN": 0, "+Inf": 0, "1e400": 0, "0x10": 0, "-1": 0, "1.5": 0, "": 0, "99999999999999999999": 0,
	} {
		tree := fstest.MapFS{"sys/class/powercap/intel-rapl:0/name": file("package-0"),
			"sys/class/powercap/intel-rapl:0/max_energy_range_uj": file(limit)}
		zones, err := raplZones(tree)
		if err != nil || len(zones) != 1 || zones[0].wrap != want {
			t.Errorf("%q: %+v, %v, want %v", limit, zones, err, want)
		}
	}
}

// FuzzRAPLTree checks that a counter, whatever the tree says of it, moves by a
// number from 0 up or is an error.
func FuzzRAPLTree(f *testing.F) {
	f.Add("intel-rapl:0", "package-0", "1000", "5", "262143328850")
	f.Add("intel-rapl:0:0", "core", "5", "1000", "NaN")
	f.Add("intel-rapl:x", "dram", "9", "1", "-Inf")
	f.Fuzz(func(t *testing.T, folder, name, before, after, limit string) {
		dir := "sys/class/powercap/" + folder
		tree := fstest.MapFS{dir + "/name": file(name), dir + "/energy_uj": file(before), dir + "/max_energy_range_uj": file(limit)}
		if folder == "" || strings.ContainsAny(folder, "/\x00") || folder == "." || folder == ".." {
			return
		}
		zones, err := raplZones(tree)
		if err != nil {
			return
		}
		w := &raplWatch{raplSensor: &raplSensor{root: tree, zones: zones}, at: make([]float64, len(zones)), sum: make([]float64, len(zones))}
		if w.read() != nil {
			return
		}
		tree[dir+"/energy_uj"] = file(after)
		if err := w.read(); err == nil && !(w.sum[0] >= 0 && w.sum[0] <= math.MaxFloat64) {
			t.Errorf("moved by %v: %q to %q of %q", w.sum[0], before, after, limit)
		}
	})
}

// FuzzRails checks that the rails of a tree are read or refused, each once in the
// sum at most.
func FuzzRails(f *testing.F) {
	f.Add("ina3221", "VDD_IN", "5000", "200", "VDD_CPU")
	f.Add("ina238", "NC", "-5", "9223372036854775807", "")
	f.Fuzz(func(t *testing.T, chip, label, volts, amps, second string) {
		const dir = "sys/class/hwmon/hwmon0/"
		tree := fstest.MapFS{
			dir + "name": file(chip), dir + "in1_label": file(label), dir + "in1_input": file(volts), dir + "curr1_input": file(amps),
			dir + "in2_label": file(second), dir + "in2_input": file(amps), dir + "curr2_input": file(volts), dir + "power1_input": file(volts),
		}
		inputs, sensor, err := railInputs(tree)
		if err != nil {
			return
		}
		var names []string
		for i := range inputs {
			names = append(names, inputs[i].name)
			if w, err := inputs[i].watts(tree); err != nil || math.IsNaN(w) || math.IsInf(w, 0) {
				t.Errorf("%s: %v W, %v", inputs[i].name, w, err)
			}
		}
		rails, scope := railsOf(names)
		if len(rails) != len(names) || scope == "" {
			t.Errorf("%d rails of %q by %s, scope %q", len(rails), names, sensor, scope)
		}
	})
}
