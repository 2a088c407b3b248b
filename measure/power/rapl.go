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

// raplPeriod is how often counters are read inside of a window, so that none can
// wrap twice unseen: the ranges are 65 kJ and more, minutes of the most that a
// package draws.
const raplPeriod = time.Second

// A zone is a counter of the kernel's power-capping tree.
// https://docs.kernel.org/power/powercap/powercap.html
type zone struct {
	name, kind string
	summed     bool
	file       string
	wrap       float64 // µJ at which it begins again
}

// openRAPL finds the counters of the processor and its memory.
func (m *Monitor) openRAPL(_ context.Context, o *Options) error {
	zones, err := raplZones(o.Root)
	if err != nil {
		return err
	}
	var use []zone
	for _, z := range zones {
		if _, err := z.read(o.Root); err != nil {
			text := fmt.Sprintf("RAPL zone %s cannot be read: %v", z.name, err)
			if errors.Is(err, fs.ErrPermission) {
				text += "; let this user read /" + z.file + " (root alone may by default)"
			}
			m.warnings = append(m.warnings, text)
			continue
		}
		use = append(use, z)
	}
	var names []string
	for _, z := range use {
		if z.summed {
			names = append(names, z.name)
		}
	}
	if len(names) == 0 {
		return fmt.Errorf("no package and no memory among the %d RAPL zones can be read", len(zones))
	}
	m.sensors = append(m.sensors, &raplSensor{root: o.Root, zones: use})
	m.scope = append(m.scope, strings.Join(names, ", ")+" (RAPL)")
	return nil
}

// raplZones lists the zones and their parts. A package has its cores in it, a
// platform (psys) everything, so of these the packages and the memory are summed.
func raplZones(root fs.FS) ([]zone, error) {
	var zones []zone
	inPackage := map[string]string{}
	for _, dir := range found(root, "sys/class/powercap/intel-rapl:*") {
		name, err := procfs.Text(root, dir+"/name")
		if err != nil {
			continue
		}
		z := zone{name: name, file: dir + "/energy_uj"}
		number, _, isPart := strings.Cut(strings.TrimPrefix(path.Base(dir), "intel-rapl:"), ":")
		switch {
		case strings.HasPrefix(name, "package"):
			z.kind, z.summed = "cpu", true
			inPackage[number] = name
		case name == "dram":
			z.kind, z.summed = "dram", true
		case name == "psys":
			z.kind = "platform"
		default:
			z.kind = "cpu"
		}
		if isPart {
			z.name = inPackage[number] + " " + name
		}
		if limit, err := procfs.Text(root, dir+"/max_energy_range_uj"); err == nil {
			z.wrap = wrapAt(limit)
		}
		zones = append(zones, z)
	}
	if len(zones) == 0 {
		return nil, errors.New("no RAPL counters: /sys/class/powercap has no intel-rapl zone")
	}
	return zones, nil
}

// wrapAt is where a counter begins again, as the kernel says it: a whole number of
// µJ. It is 0, which no counter wraps at, for anything else: with NaN or infinity a
// counter that went back would have moved by no number.
func wrapAt(limit string) float64 {
	n, err := strconv.ParseUint(limit, 10, 63)
	if err != nil {
		return 0
	}
	return float64(n)
}

// read is the counter in µJ.
func (z *zone) read(root fs.FS) (float64, error) {
	s, err := procfs.Text(root, z.file)
	if err != nil {
		return 0, err
	}
	v, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("/%s says %.40q: want µJ", z.file, s)
	}
	return float64(v), nil
}

// A raplSensor reads all zones together.
type raplSensor struct {
	root  fs.FS
	zones []zone
}

// A raplWatch adds up what the counters move, around their ends.
type raplWatch struct {
	*raplSensor
	loop
	begun, ended time.Time // of the first and of the last read
	at           []float64 // µJ last read
	sum          []float64 // µJ since the beginning
	reads        int
}

func (s *raplSensor) begin(ctx context.Context) (watch, error) {
	w := &raplWatch{raplSensor: s, at: make([]float64, len(s.zones)), sum: make([]float64, len(s.zones))}
	if err := w.read(); err != nil {
		return nil, err
	}
	w.begun = w.ended
	w.run(ctx, func(int) time.Duration { return raplPeriod }, w.read)
	return w, nil
}

// read reads all counters, at the time that lies in the middle of doing so.
func (w *raplWatch) read() (err error) {
	w.ended, _, err = w.timed(func() (float64, error) { return 0, w.add() })
	return err
}

// add adds what has gone by since the last time.
func (w *raplWatch) add() error {
	for i := range w.zones {
		z := &w.zones[i]
		now, err := z.read(w.root)
		if err != nil {
			return fmt.Errorf("RAPL zone %s: %w", z.name, err)
		}
		moved := now - w.at[i]
		if moved < 0 {
			moved += z.wrap
		}
		if w.reads > 0 {
			if moved < 0 {
				return fmt.Errorf("RAPL zone %s went back from %.0f to %.0f µJ, and does not say where it wraps", z.name, w.at[i], now)
			}
			w.sum[i] += moved
		}
		w.at[i] = now
	}
	w.reads++
	return nil
}

func (w *raplWatch) end(context.Context) (*reading, error) {
	if err := w.last(w.read); err != nil {
		return nil, err
	}
	seconds := w.ended.Sub(w.begun).Seconds()
	if seconds <= 0 {
		return nil, fmt.Errorf("RAPL: a window of %v s", seconds)
	}
	r := &reading{begin: w.begun, end: w.ended, readS: w.slowest.Seconds(), notes: w.notes("RAPL")}
	for i := range w.zones {
		z := &w.zones[i]
		joules := w.sum[i] / 1e6
		switch {
		case joules == 0 && z.summed:
			return nil, fmt.Errorf("RAPL zone %s did not move in %.3g s", z.name, seconds)
		case joules == 0: // some processors have zones that never move
			continue
		}
		r.domains = append(r.domains, result.Domain{
			Name: z.name, Kind: z.kind, Sensor: "rapl", Includes: []string{}, Summed: z.summed, EnergyJ: joules, CounterJ: &joules,
			MeanW: joules / seconds, Seconds: seconds, Samples: w.reads,
		})
	}
	return r, nil
}
