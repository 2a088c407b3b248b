package hardware

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"llmprof/roofline"
	"llmprof/unit"
)

// Text is the file as people read it; ParseCalibration reads it back. Numbers
// have four digits, which is more than any of them is worth.
func (f *CalibrationFile) Text() string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("# What one kind of GPU reaches in practice, measured by llmprof calibrate. docs/calibration.md says what each")
	line("# constant is. uncertainty is half of the 95 %% interval; n counts the rows that determine the constant, 0 for none.")
	line("schema = %s", quote(CalibrationSchema))
	line("name = %s", quote(f.Name))
	line("gpu = %s", quote(f.GPU))
	if f.Engine != "" {
		line("engine = %s", quote(f.Engine))
	}
	line("kernels = %s", quote(f.Kernels))
	line("dtype = %s", quote(f.DType.String()))
	line("tp = %s", strings.ReplaceAll(fmt.Sprint(f.TP), " ", ", "))
	line("made = %s", f.Made.UTC().Format(time.RFC3339))
	line("llmprof = %s", quote(f.Version))
	if len(f.Notes) > 0 {
		line("notes = [")
		for _, n := range f.Notes {
			line("  %s,", quote(n))
		}
		line("]")
	}
	if len(f.Tools) > 0 {
		line("\n[versions]")
		for _, name := range slices.Sorted(maps.Keys(f.Tools)) {
			line("%s = %s", quote(name), quote(f.Tools[name]))
		}
	}
	f.writeDevice(line)
	f.writeValues(line)
	if len(f.HeldOut) > 0 {
		line("\n# Errors of rows that were left out of the fit, a third at a time, as shares of their time.\n[held_out]")
		for _, c := range roofline.All() {
			if h, ok := f.HeldOut[c.String()]; ok {
				line("%s = {n = %d, median = %s, p90 = %s}", quote(c.String()), h.N, number(h.Median), number(h.P90))
			}
		}
	}
	return b.String()
}

func (f *CalibrationFile) writeDevice(line func(string, ...any)) {
	d := &f.Device
	line("\n# The board, and the peaks of the data sheet that the shares are of. What is missing was not recorded.\n[device]")
	line("name = %s", quote(d.Name))
	for _, q := range []struct {
		key   string
		known bool
		value fmt.Stringer
	}{
		{"memory", d.Memory > 0, d.Memory}, {"power_limit", d.PowerLimit > 0, d.PowerLimit}, {"clock", d.Clock > 0, d.Clock},
		{"memory_clock", d.MemoryClock > 0, d.MemoryClock}, {"peak", true, d.Peak}, {"bandwidth", true, d.Bandwidth},
	} {
		if q.known {
			line("%s = %s", q.key, quote(q.value.String()))
		}
	}
}

func (f *CalibrationFile) writeValues(line func(string, ...any)) {
	about := map[string]string{}
	for _, s := range calibrationSections() {
		about[s[0]] = s[1]
	}
	last := ""
	for _, c := range roofline.All() {
		k := c.Info()
		v, ok := f.Values[k.Key]
		if !ok {
			continue
		}
		section, key, _ := strings.Cut(k.Key, ".")
		if section != last {
			line("\n# %s.\n[%s]", about[section], section)
			last = section
		}
		uncertainty := ""
		if v.N >= 2 {
			uncertainty = "uncertainty = " + written(k.Quantity, v.Uncertainty) + ", "
		}
		line("%s = {value = %s, %sn = %d, from = %s}", key, written(k.Quantity, v.Value), uncertainty, v.N, quote(v.From))
	}
}

// written is a value as read reads it.
func written(q roofline.Quantity, v float64) string {
	if q.Timed() {
		return quote(unit.Seconds(v).String())
	}
	return number(v)
}

// number has four digits.
func number(v float64) string { return strconv.FormatFloat(v, 'g', 4, 64) }

// quote writes a basic string of TOML.
func quote(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r < 0x20 || r == 0x7f:
			fmt.Fprintf(&b, "\\u%04X", r)
		case r == utf8.RuneError:
			b.WriteRune('?')
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}
