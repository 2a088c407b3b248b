package hardware

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

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
		for i := range constants {
			if h, ok := f.HeldOut[constants[i].Key]; ok {
				line("%s = {n = %d, median = %s, p90 = %s}", quote(constants[i].Key), h.N, number(h.Median), number(h.P90))
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

// heads say what the sections are.
var heads = map[string]string{
	"gemm":      "Products with weights: fixed + max(FLOPs / (compute × peak), bytes / (memory × bandwidth)).",
	"own":       "Products of a decode step of few sequences, by the engine's own kernels: fixed + bytes / (memory × bandwidth) + rows × row × bytes of weights / bandwidth.",
	"wide":      "Products of a decode step of many sequences, by the engine's own kernels: fixed + bytes of weights / (memory × bandwidth) + again × bytes of inputs and results / bandwidth.",
	"experts":   "The experts of a prompt, by the engine's own kernels: fixed of gemm + √(C² + M²) + (gather or sum) × bytes of pairs / bandwidth, C = FLOPs / (compute × peak), M = bytes of weights / (memory × bandwidth).",
	"choice":    "The choice of a prompt's experts, and the order of the pairs of a token and an expert: fixed + pairs × pair + experts × expert.",
	"stream":    "Kernels that no CUDA graph has.",
	"mixture":   "The mixture of a layer in a decode step, by the engine's own kernels: fixed, or several, + bytes / (memory × bandwidth) + again × bytes that come again / bandwidth, or + row × bytes that rows meet / bandwidth.",
	"attention": "Between the projections of softmax attention, by the same equation; each query of a prefill sees ramp/2 keys more.",
	"element":   "Norms, activations, rotary, cache writes, by the same equation.",
	"graph":     "Kernels of a CUDA graph.",
	"link":      "All-reduce over n GPUs: base + n × per_gpu + 2(n-1)/n × bytes / (share × link).",
	"one_shot":  "The latency of small all-reduces that engines do over peer memory.",
	"posted":    "What an own product takes longer that sums over n GPUs itself, by the same equation.",
	"power":     "What the GPU draws beside arithmetic, as shares of what lies between waiting power and limit, added up.",
	"host":      "The engine and its host.",
}

func (f *CalibrationFile) writeValues(line func(string, ...any)) {
	last := ""
	for i := range constants {
		k := &constants[i]
		v, ok := f.Values[k.Key]
		if !ok {
			continue
		}
		section, key, _ := strings.Cut(k.Key, ".")
		if section != last {
			line("\n# %s\n[%s]", heads[section], section)
			last = section
		}
		uncertainty := ""
		if v.N >= 2 {
			uncertainty = "uncertainty = " + k.quantity.text(v.Uncertainty) + ", "
		}
		line("%s = {value = %s, %sn = %d, from = %s}", key, k.quantity.text(v.Value), uncertainty, v.N, quote(v.From))
	}
}

// text writes a value as read reads it.
func (q quantity) text(v float64) string {
	if q.timed() {
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
