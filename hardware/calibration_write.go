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
	f.writeTables(line)
	f.writeDevice(line)
	f.writeValues(line)
	if len(f.HeldOut) > 0 {
		left := "a third at a time"
		if f.Tables != nil {
			left = "half of the shapes"
		}
		line("\n# Errors of rows that were left out of the fit, %s, as shares of their time.\n[held_out]", left)
		for _, c := range roofline.All() {
			if h, ok := f.HeldOut[c.String()]; ok {
				line("%s = {n = %d, median = %s, p90 = %s}", quote(c.String()), h.N, number(h.Median), number(h.P90))
			}
		}
	}
	f.writeOperators(line)
	return b.String()
}

func (f *CalibrationFile) writeTables(line func(string, ...any)) {
	t := f.Tables
	if t == nil {
		return
	}
	line("\n# The published tables of operator times that the constants were fitted to.\n[tables]")
	line("package = %s", quote(t.Package))
	line("version = %s", quote(t.Version))
	line("licence = %s", quote(t.Licence))
	line("files = [")
	for _, file := range t.Files {
		line("  {path = %s, sha256 = %s, rows = %d},", quote(file.Path), quote(file.SHA256), file.Rows)
	}
	line("]")
}

func (f *CalibrationFile) writeOperators(line func(string, ...any)) {
	if len(f.Operators) == 0 {
		return
	}
	line("\n# Errors of the rows of each section as shares of their time: fitted is the median with the constants above; median\n# and p90 " +
		"are of the rows whose shapes were left out, by constants fitted to the other half of the shapes.\n[operators]")
	for _, section := range slices.Sorted(maps.Keys(f.Operators)) {
		o := f.Operators[section]
		line("%s = {n = %d, fitted = %s, held_out = %d, median = %s, p90 = %s}", quote(section), o.N, number(o.Fitted), o.HeldOut.N,
			number(o.HeldOut.Median), number(o.HeldOut.P90))
	}
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

// calibrationSections are the tables of a calibration file with what stands above each. That is the equation
// of a law, or a sentence on the constants.
func calibrationSections() [][2]string {
	equation := func(c roofline.Class) string { return roofline.LawOf(c).Equation }
	return withSchemes([][2]string{
		{"gemm", "Products with weights by a library: " + equation(roofline.GEMM)},
		{"skinny_gemm", "Products of a decode step of few sequences by the engine's skinny GEMM: " + equation(roofline.SkinnyGEMM)},
		{"wgmma_gemm", "Products of a decode step of 17 to 64 sequences by the engine's wgmma kernel: " + equation(roofline.WGMMAGEMM)},
		{"grouped_gemm", "The grouped products of the experts, of decode steps and of prompts, by Triton, CUTLASS or TensorRT-LLM: " + equation(
			roofline.GroupedGEMM)},
		{"moe_decode", "The mixture of a layer in a decode step, from router to experts: " + equation(roofline.MoEDecode)},
		{"moe_prefill", "The grouped products of a prompt's experts: " + equation(roofline.MoEPrefill)},
		{"moe_routing", "Top-k of a prompt's tokens and the sort of the pairs of a token and an expert: " + equation(roofline.MoERouting)},
		{"attention", "Softmax attention between its projections: " + equation(roofline.AttentionPrefill) + "; decode has no ramp"},
		{"latent_attention", "Multi-head latent attention, over expanded keys and values in prefill and over the compressed cache in decode: " +
			equation(roofline.LatentPrefill)},
		{"scan", "The recurrence of linear attention over a prompt, in chunks: " + equation(roofline.ChunkedScan)},
		{"element", "Norms, activations, rotary embedding, cache writes: " + equation(roofline.Elementwise)},
		{"graph", "Kernels of a CUDA graph"},
		{"stream", "Kernels outside a CUDA graph"},
		{"link", "All-reduce over n GPUs: " + equation(roofline.AllReduce)},
		{"one_shot", "Latency of small all-reduces over peer memory: base + n × per_gpu"},
		{"fused_all_reduce", "Latency of all-reduces that products do themselves: base + n × per_gpu"},
		{"power", "What the GPU draws beside arithmetic, as shares of what lies between waiting power and limit, added up"},
		{"host", "The engine and its host"},
	})
}

// withSchemes puts behind each section those of its constants in a scheme.
func withSchemes(sections [][2]string) (all [][2]string) {
	for _, s := range sections {
		all = append(all, s)
		for scheme := roofline.FP8; scheme < roofline.NumSchemes; scheme++ {
			if name := s[0] + "_" + scheme.String(); len(constantsIn(name)) > 0 {
				all = append(all, [2]string{name, "The same, " + scheme.Help()})
			}
		}
	}
	return all
}
