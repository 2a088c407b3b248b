package hardware

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/BurntSushi/toml"

	"llmprof/roofline"
	"llmprof/unit"
)

// A calibrationWriter writes lines of TOML. The encoder of the library writes no comments, and
// tables of one entry a line.
type calibrationWriter struct{ strings.Builder }

func (w *calibrationWriter) line(format string, args ...any) { fmt.Fprintf(w, format+"\n", args...) }

// pairs writes keys, each followed by its value, but for those whose value is zero.
func (w *calibrationWriter) pairs(all ...any) {
	for i := 0; i < len(all); i += 2 {
		if !reflect.ValueOf(all[i+1]).IsZero() {
			w.line("%s = %s", all[i], encoded(all[i+1]))
		}
	}
}

// encoded is a value as the library encodes it, a quantity with its unit.
func encoded(v any) string {
	switch x := v.(type) {
	case time.Time: // the library encodes it, though it is a Stringer
	case fmt.Stringer:
		v = x.String()
	case string:
		v = strings.ToValidUTF8(x, "?")
	}
	text, _ := toml.Marshal(map[string]any{"v": v}) // it fails for types that no file has
	return strings.TrimSuffix(strings.TrimPrefix(string(text), "v = "), "\n")
}

// number has four digits.
func number(v float64) string { return strconv.FormatFloat(v, 'g', 4, 64) }

// Text is the file as people read it; ParseCalibration reads it back. Numbers
// have four digits, which is more than any of them is worth.
func (f *CalibrationFile) Text() string {
	var w calibrationWriter
	w.line("# What one kind of GPU reaches in practice, measured by llmprof calibrate. docs/calibration.md says what each")
	w.line("# constant is. uncertainty is half of the 95 %% interval; n counts the rows that determine the constant, 0 for none.")
	w.pairs("schema", CalibrationSchema, "name", f.Name, "gpu", f.GPU, "engine", f.Engine, "kernels", f.Kernels,
		"dtype", f.DType, "tp", f.TP, "made", f.Made.UTC().Truncate(time.Second), "llmprof", f.Version)
	if len(f.Notes) > 0 {
		w.line("notes = [")
		for _, n := range f.Notes {
			w.line("  %s,", encoded(n))
		}
		w.line("]")
	}
	if len(f.Tools) > 0 {
		w.line("\n[versions]")
		for _, name := range slices.Sorted(maps.Keys(f.Tools)) {
			w.line("%s = %s", encoded(name), encoded(f.Tools[name]))
		}
	}
	left := "a third at a time"
	if t := f.Tables; t != nil {
		left = "half of the shapes"
		w.line("\n# The published tables of operator times that the constants were fitted to.\n[tables]")
		w.pairs("package", t.Package, "version", t.Version, "licence", t.Licence)
		w.line("files = [")
		for _, file := range t.Files {
			w.line("  {path = %s, sha256 = %s, rows = %d},", encoded(file.Path), encoded(file.SHA256), file.Rows)
		}
		w.line("]")
	}
	d := &f.Device
	w.line("\n# The board, and the peaks of the data sheet that the shares are of. What is missing was not recorded.\n[device]")
	w.pairs("name", d.Name, "memory", d.Memory, "power_limit", d.PowerLimit, "clock", d.Clock,
		"memory_clock", d.MemoryClock, "peak", d.Peak, "bandwidth", d.Bandwidth)
	w.values(f.Values)
	if len(f.HeldOut) > 0 {
		w.line("\n# Errors of rows that were left out of the fit, %s, as shares of their time.\n[held_out]", left)
		for _, c := range roofline.All() {
			if h, ok := f.HeldOut[c.String()]; ok {
				w.line("%s = {n = %d, median = %s, p90 = %s}", encoded(c.String()), h.N, number(h.Median), number(h.P90))
			}
		}
	}
	if len(f.Operators) > 0 {
		w.line("\n# Errors of the rows of each section as shares of their time: fitted is the median with the constants above; median\n# and " +
			"p90 are of the rows whose shapes were left out, by constants fitted to the other half of the shapes.\n[operators]")
		for _, section := range slices.Sorted(maps.Keys(f.Operators)) {
			o := f.Operators[section]
			w.line("%s = {n = %d, fitted = %s, held_out = %d, median = %s, p90 = %s}", encoded(section), o.N, number(o.Fitted), o.HeldOut,
				number(o.Median), number(o.P90))
		}
	}
	return w.String()
}

// values writes the constants by their sections.
func (w *calibrationWriter) values(values map[string]Value) {
	last := ""
	for _, c := range roofline.All() {
		k := c.Info()
		v, ok := values[k.Key]
		if !ok {
			continue
		}
		section, key, _ := strings.Cut(k.Key, ".")
		if section != last {
			w.line("\n# %s.\n[%s]", sectionHeads()[section], section)
			last = section
		}
		write := number
		if k.Quantity.Timed() {
			write = func(v float64) string { return encoded(unit.Seconds(v).String()) }
		}
		uncertainty := ""
		if v.N >= 2 {
			uncertainty = "uncertainty = " + write(v.Uncertainty) + ", "
		}
		w.line("%s = {value = %s, %sn = %d, from = %s}", key, write(v.Value), uncertainty, v.N, encoded(v.From))
	}
}

// keysBySection has the names of the constants in each table of a file.
var keysBySection = sync.OnceValue(func() map[string][]string {
	all := map[string][]string{}
	for _, c := range roofline.All() {
		if section, k, _ := strings.Cut(c.Info().Key, "."); !c.Info().Unfiled {
			all[section] = append(all[section], k)
		}
	}
	return all
})

// sectionHeads has what stands above each table of constants in a calibration file: the equation of a law, or
// a sentence on the constants.
var sectionHeads = sync.OnceValue(func() map[string]string {
	equation := func(c roofline.Class) string { return roofline.LawOf(c).Equation }
	all := map[string]string{
		"gemm":        "Products with weights by a library: " + equation(roofline.GEMM),
		"skinny_gemm": "Products of a decode step of few sequences by the engine's skinny GEMM: " + equation(roofline.SkinnyGEMM),
		"wgmma_gemm":  "Products of a decode step of 17 to 64 sequences by the engine's wgmma kernel: " + equation(roofline.WGMMAGEMM),
		"grouped_gemm": "The grouped products of the experts, of decode steps and of prompts, by Triton, CUTLASS or TensorRT-LLM: " + equation(
			roofline.GroupedGEMM),
		"moe_decode":  "The mixture of a layer in a decode step, from router to experts: " + equation(roofline.MoEDecode),
		"moe_prefill": "The grouped products of a prompt's experts: " + equation(roofline.MoEPrefill),
		"moe_routing": "Top-k of a prompt's tokens and the sort of the pairs of a token and an expert: " + equation(roofline.MoERouting),
		"attention":   "Softmax attention between its projections: " + equation(roofline.AttentionPrefill) + "; decode has no ramp",
		"latent_attention": "Multi-head latent attention, over expanded keys and values in prefill and over the compressed cache in decode: " +
			equation(roofline.LatentPrefill),
		"scan":             "The recurrence of linear attention over a prompt, in chunks: " + equation(roofline.ChunkedScan),
		"scan_step":        "The recurrence of linear attention of one token of each sequence: " + equation(roofline.ScanStep),
		"conv":             "The causal convolution ahead of a recurrence over a prompt: " + equation(roofline.Convolution),
		"conv_step":        "The causal convolution of one token of each sequence: " + equation(roofline.ConvolutionStep),
		"element":          "Norms, activations, rotary embedding, cache writes: " + equation(roofline.Elementwise),
		"graph":            "Kernels of a CUDA graph",
		"stream":           "Kernels outside a CUDA graph",
		"link":             "All-reduce over n GPUs: " + equation(roofline.AllReduce),
		"one_shot":         "Latency of small all-reduces over peer memory: base + n × per_gpu",
		"fused_all_reduce": "Latency of all-reduces that products do themselves: base + n × per_gpu",
		"power":            "What the GPU draws beside arithmetic, as shares of what lies between waiting power and limit, added up",
		"host":             "The engine and its host",
	}
	for _, section := range slices.Collect(maps.Keys(all)) {
		for scheme := roofline.FP8; scheme < roofline.NumSchemes; scheme++ {
			if name := section + "_" + scheme.String(); keysBySection()[name] != nil {
				all[name] = "The same, " + scheme.Help()
			}
		}
	}
	return all
})
