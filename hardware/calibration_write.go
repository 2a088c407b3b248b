package hardware

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/BurntSushi/toml"

	"llmprof/roofline"
	"llmprof/unit"
)

// NewCalibrationFile is a file of g in which every constant is the default of its
// generation, for a fit to put what it found in.
func NewCalibrationFile(g *GPU, dtype unit.Format) (*CalibrationFile, error) {
	peak, ok := g.Peak(dtype)
	if !ok {
		return nil, fmt.Errorf("%s has no peak for %v: the shares of a calibration are of one", g.Key, dtype)
	}
	f := &CalibrationFile{
		GPU: g.Key, DType: dtype, TP: []int{1}, Tools: map[string]string{},
		Device: CalibratedDevice{Peak: peak, Bandwidth: g.Bandwidth},
		Values: map[string]Value{}, HeldOut: map[string]Residual{},
	}
	c := DefaultCalibration(g)
	for _, k := range roofline.All() {
		if i := k.Info(); !i.Optional && !i.Unfiled {
			f.Values[i.Key] = Value{Value: c.Constants[k], From: "default for " + g.Generation}
		}
	}
	return f, nil
}

// A writer writes lines of TOML. The encoder of the library writes no comments, and
// tables of one entry a line.
type writer struct{ strings.Builder }

func (w *writer) line(format string, args ...any) { fmt.Fprintf(w, format+"\n", args...) }

// fields writes the keys of a struct, but for those whose value is zero and for tables.
func (w *writer) fields(of any) {
	for key, v := range tomlFields(reflect.ValueOf(of).Elem()) {
		table := v.Kind() == reflect.Map || v.Kind() == reflect.Pointer || v.Type() == reflect.TypeFor[CalibratedDevice]()
		if !table && !v.IsZero() {
			w.line("%s = %s", key, encoded(v.Interface()))
		}
	}
}

// table writes a table of entries, if there are any, in the order of their constants.
func table[V any](w *writer, head string, entries map[string]V) {
	if len(entries) > 0 {
		w.line("%s", head)
	}
	for _, key := range slices.SortedFunc(maps.Keys(entries), func(a, b string) int {
		return cmp.Or(cmp.Compare(roofline.ConstantOf(a), roofline.ConstantOf(b)), cmp.Compare(a, b))
	}) {
		w.line("%s = %s", encoded(key), encoded(entries[key]))
	}
}

// encoded is a value as the library encodes it, a quantity with its unit, a number with four digits, a struct in a line, and each
// item of a list but those of numbers in a line of its own.
func encoded(v any) string {
	switch x := v.(type) {
	case time.Time: // the library encodes it, though it is a Stringer
	case fmt.Stringer:
		v = x.String()
	case string:
		v = strings.ToValidUTF8(x, "?")
	case float64:
		return strconv.FormatFloat(x, 'g', 4, 64)
	default:
		if text, ok := composed(reflect.ValueOf(v)); ok {
			return text
		}
	}
	text, _ := toml.Marshal(map[string]any{"v": v}) // it fails for types that no file has
	return strings.TrimSuffix(strings.TrimPrefix(string(text), "v = "), "\n")
}

// composed is a struct or a list as encoded.
func composed(v reflect.Value) (text string, ok bool) {
	switch {
	case v.Kind() == reflect.Struct:
		var all []string
		for key, field := range tomlFields(v) {
			if field.Kind() != reflect.Interface || !field.IsNil() {
				all = append(all, key+" = "+encoded(field.Interface()))
			}
		}
		return "{" + strings.Join(all, ", ") + "}", true
	case v.Kind() == reflect.Slice && v.Type().Elem().Kind() != reflect.Int:
		for i := range v.Len() {
			text += "  " + encoded(v.Index(i).Interface()) + ",\n"
		}
		return "[\n" + text + "]", true
	}
	return "", false
}

// Text is the file as people read it; ParseCalibration reads it back. Numbers
// have four digits, which is more than any of them is worth.
func (f *CalibrationFile) Text() string {
	var w writer
	w.line("# What one kind of GPU reaches in practice, measured by llmprof calibrate. docs/calibration.md says what each")
	w.line("# constant is. uncertainty is half of the 95 %% interval; n counts the rows that determine the constant, 0 for none.")
	w.line("schema = %s", encoded(CalibrationSchema))
	head := *f
	head.Made = f.Made.UTC().Truncate(time.Second)
	w.fields(&head)
	table(&w, "\n[versions]", f.Tools)
	left := "a third at a time"
	if f.Tables != nil {
		left = "half of the shapes"
		w.line("\n# The published tables of operator times that the constants were fitted to.\n[tables]")
		w.fields(f.Tables)
	}
	w.line("\n# The board, and the peaks of the data sheet that the shares are of. What is missing was not recorded.\n[device]")
	w.fields(&f.Device)
	w.values(f.Values)
	table(&w, "\n# Errors of rows that were left out of the fit, "+left+", as shares of their time.\n[held_out]", f.HeldOut)
	table(&w, "\n# Errors of the rows of each section as shares of their time: fitted is the median with the constants above; median\n# and "+
		"p90 are of the rows whose shapes were left out, by constants fitted to the other half of the shapes.\n[operators]", f.Operators)
	return w.String()
}

// tomlFields yields the fields of a struct with their keys in TOML.
func tomlFields(v reflect.Value) iter.Seq2[string, reflect.Value] {
	return func(yield func(string, reflect.Value) bool) {
		for _, f := range reflect.VisibleFields(v.Type()) {
			if key := f.Tag.Get("toml"); key != "" && key != "-" && !yield(key, v.FieldByIndex(f.Index)) {
				return
			}
		}
	}
}

// values writes the constants by their sections.
func (w *writer) values(values map[string]Value) {
	last := ""
	for _, c := range roofline.All() {
		k := c.Info()
		v, ok := values[k.Key]
		if !ok {
			continue
		}
		section, key, _ := strings.Cut(k.Key, ".")
		if section != last {
			w.line("")
			if law, ok := sectionLaws[section]; ok {
				w.line("# %s", roofline.LawOf(law).Equation)
			}
			w.line("[%s]", section)
			last = section
		}
		quantity := func(v float64) any {
			if k.Quantity.Timed() {
				return unit.Seconds(v)
			}
			return v
		}
		text := valueText{Value: quantity(v.Value), N: &v.N, From: v.From}
		if v.N >= 2 {
			text.Uncertainty = quantity(v.Uncertainty)
		}
		w.line("%s = %s", key, encoded(text))
	}
}

// sectionLaws are the laws whose equations stand above the tables of their constants. docs/calibration.md describes all tables.
var sectionLaws = map[string]roofline.Class{
	"gemm":             roofline.GEMM,
	"skinny_gemm":      roofline.SkinnyGEMM,
	"wgmma_gemm":       roofline.WGMMAGEMM,
	"grouped_gemm":     roofline.GroupedGEMM,
	"moe_decode":       roofline.MoEDecode,
	"moe_prefill":      roofline.MoEPrefill,
	"moe_routing":      roofline.MoERouting,
	"attention":        roofline.AttentionPrefill,
	"latent_attention": roofline.LatentPrefill,
	"scan":             roofline.ChunkedScan,
	"sparse":           roofline.SparseAttention,
	"index":            roofline.Index,
	"scan_step":        roofline.ScanStep,
	"conv":             roofline.Convolution,
	"conv_step":        roofline.ConvolutionStep,
	"element":          roofline.Elementwise,
	"link":             roofline.AllReduce,
}
