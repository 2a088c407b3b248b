package power

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"
	"time"

	"llmprof/internal/procfs"
	"llmprof/measure/result"
)

// isJetson reports whether the device tree's name of a board is that of a Jetson.
func isJetson(model string) bool { return strings.Contains(strings.ToLower(model), "jetson") }

// openJetson finds the sensors of a Jetson's rails, or the program tegrastats
// where the files of the sensors may not be read.
func (m *Monitor) openJetson(ctx context.Context, o *Options) error {
	name := procfs.Board(o.Root)
	if !isJetson(name) {
		return errors.New("no Jetson")
	}
	inputs, sensor, err := railInputs(o.Root)
	if err != nil {
		tegra, again := openTegrastats(ctx)
		if again != nil {
			return errors.Join(err, again)
		}
		m.warnings = append(m.warnings, fmt.Sprintf("power comes from tegrastats: %v", err))
		m.sensors, m.scope = append(m.sensors, tegra), append(m.scope, tegra.scope)
	} else {
		s := &railSensor{root: o.Root, inputs: inputs, sensor: sensor}
		names := make([]string, len(inputs))
		for i := range inputs {
			names[i] = inputs[i].name
		}
		var scope string
		s.rails, scope = railsOf(names)
		m.sensors, m.scope = append(m.sensors, s), append(m.scope, scope)
	}
	if g := openJetsonGPU(o.Root); g != nil {
		m.sensors = append(m.sensors, &clockSensor{of: g, period: lookEvery * g.period()})
	}
	m.gpus = append(m.gpus, result.GPU{Name: name})
	return nil
}

// An input is the files of one rail.
type input struct {
	name               string
	power, volts, amps string  // files; power or both of the others
	watt               float64 // watts of a count of the sensor
}

// watts reads a rail. Volts and amperes are in thousandths.
func (in *input) watts(root fs.FS) (float64, error) {
	number := func(file string) (float64, error) {
		s, err := procfs.Text(root, file)
		if err != nil {
			return 0, err
		}
		v, err := strconv.ParseInt(s, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("/%s says %.40q: want a whole number", file, s)
		}
		return float64(v), nil
	}
	if in.power != "" {
		p, err := number(in.power)
		return p * in.watt, err
	}
	mv, err := number(in.volts)
	if err != nil {
		return 0, err
	}
	ma, err := number(in.amps)
	return mv * ma / 1e6, err
}

// railInputs finds the rails of all INA3221 and INA238 chips. Their numbers
// change from boot to boot, so their names are looked for.
func railInputs(root fs.FS) (inputs []input, sensor string, err error) {
	for _, dir := range found(root, "sys/class/hwmon/hwmon*") {
		switch chip, _ := procfs.Text(root, dir+"/name"); chip {
		case "ina3221":
			inputs, sensor = append(inputs, channels(root, dir)...), chip
		case "ina238":
			inputs = append(inputs, input{name: "VIN", power: dir + "/power1_input", watt: 1e-6})
		}
	}
	if len(inputs) == 0 {
		inputs, sensor = oldRails(root), "ina3221"
	}
	if len(inputs) == 0 {
		return nil, "", errors.New("no INA3221 in /sys/class/hwmon and none in /sys/bus/i2c/drivers/ina3221x")
	}
	for i := range inputs {
		if _, err := inputs[i].watts(root); err != nil {
			return nil, "", fmt.Errorf("rail %s: %w", inputs[i].name, err)
		}
	}
	return inputs, sensor, nil
}

// channels are the rails of an INA3221 under hwmon (JetPack 5 and later). One
// that is not connected is called NC, and reading it fails.
func channels(root fs.FS, dir string) (inputs []input) {
	for n := 1; n <= 3; n++ {
		name, err := procfs.Text(root, fmt.Sprintf("%s/in%d_label", dir, n))
		if err != nil || name == "" || name == "NC" {
			continue
		}
		inputs = append(inputs, input{name: name, volts: fmt.Sprintf("%s/in%d_input", dir, n), amps: fmt.Sprintf("%s/curr%d_input", dir, n)})
	}
	return inputs
}

// oldRails are those of JetPack 4, which writes mW.
func oldRails(root fs.FS) (inputs []input) {
	for _, file := range found(root, "sys/bus/i2c/drivers/ina3221x/*/iio:device*/rail_name_*") {
		name, err := procfs.Text(root, file)
		if err != nil || name == "" || name == "NC" {
			continue
		}
		number := strings.TrimPrefix(path.Base(file), "rail_name_")
		inputs = append(inputs, input{name: name, power: path.Dir(file) + "/in_power" + number + "_input", watt: 1e-3})
	}
	return inputs
}

// A railSensor reads the rails one after the other.
type railSensor struct {
	root   fs.FS
	inputs []input
	rails  []rail
	sensor string
}

// A railWatch is the rails inside of a window.
type railWatch struct {
	*railSensor
	loop
	samples map[string][]Sample
}

func (s *railSensor) begin(ctx context.Context) (watch, error) {
	w := &railWatch{railSensor: s, samples: map[string][]Sample{}}
	if err := w.read(); err != nil {
		return nil, err
	}
	w.run(ctx, func(i int) time.Duration { return spread(samplePeriod, i) }, w.read)
	return w, nil
}

func (w *railWatch) read() error {
	for i := range w.inputs {
		in := &w.inputs[i]
		at, watts, err := w.timed(func() (float64, error) { return in.watts(w.root) })
		if err != nil {
			return fmt.Errorf("rail %s: %w", in.name, err)
		}
		w.samples[in.name] = append(w.samples[in.name], Sample{Time: at, Domain: in.name, Watts: watts})
	}
	return nil
}

func (w *railWatch) end(context.Context) (*reading, error) {
	if err := w.last(w.read); err != nil {
		return nil, err
	}
	r, err := railDomains(w.rails, w.sensor, w.samples)
	if err == nil {
		r.readS, r.notes = w.slowest.Seconds(), w.notes("rails")
	}
	return r, err
}
