// Package settings lets flags set the tagged fields of structs, and reads values as people write them. It knows neither terminal nor
// commands, so that the page, which is the same code compiled to WebAssembly, asks in the same words.
package settings

import (
	"cmp"
	"encoding"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/spf13/pflag"

	"llmprof/deployment"
	"llmprof/internal/spelling"
	"llmprof/serving"
	"llmprof/unit"
)

// A UsageError is a mistake in the flags.
type UsageError struct{ error }

// Unwrap returns what was wrong.
func (e UsageError) Unwrap() error { return e.error }

// Wrong is err as a UsageError, with settings by their flags.
func Wrong(err error) error { return UsageError{InFlags(err)} }

// Usage is a UsageError with a text of its own.
func Usage(format string, args ...any) error { return UsageError{fmt.Errorf(format, args...)} }

// Flag is the flag of the setting that a key names.
func Flag(key string) string { return "--" + strings.ReplaceAll(key, "_", "-") }

// InFlags is an error with settings by their flags; a mistake in a request is one in the flags then.
func InFlags(err error) error {
	wrong := (*unit.Error)(nil)
	if !errors.As(err, &wrong) {
		return err
	}
	said := spelt{unit.Text(err, Flag), err}
	if wrong.Failed {
		return said
	}
	return UsageError{said}
}

// spelt is an error in other words.
type spelt struct {
	text string
	error
}

func (e spelt) Error() string { return e.text }

// Unwrap returns the error that it is.
func (e spelt) Unwrap() error { return e.error }

// Completed is the annotation of a flag with the words that complete it.
const Completed = "llmprof_words"

// Words are those that complete a flag.
func Words(f *pflag.FlagSet, name string, words ...string) {
	_ = f.SetAnnotation(name, Completed, words)
}

// Choice adds a flag that takes one of some words, in any case of their letters, which its help lists in place of %s. An empty text, which
// few flags may be given, is refused with those of other flags.
func Choice(f *pflag.FlagSet, to *string, name, value, usage string, words ...string) {
	*to = value
	f.Var(OwnText(func() string { return *to }, func(text string) error {
		*to = strings.ToLower(text)
		if text == "" || slices.Contains(words, *to) {
			return nil
		}
		if near := spelling.Near(text, words); len(near) > 0 {
			return fmt.Errorf("want %s; did you mean %q?", listed(words), near[0])
		}
		return errors.New("want " + listed(words))
	}), name, strings.Replace(usage, "%s", listed(words), 1))
	Words(f, name, words...)
}

func listed(words []string) string {
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// Refuse is an error where one of some flags is given. The first %s of the format is its name.
func Refuse(given func(flag string) bool, flags []string, format string, more ...any) error {
	if i := slices.IndexFunc(flags, given); i >= 0 {
		return Usage(format, append([]any{flags[i]}, more...)...)
	}
	return nil
}

// The groups of the settings of a deployment. All are those of an estimate, in the order of the axes of a grid: the load varies fastest of
// them, so that a server's steps are priced once for all loads.
const (
	Model    = "Model"
	Hardware = "Hardware"
	Workload = "Workload"
	Media    = "Media"
	Engine   = "Engine"
	Experts  = "Experts"
	Server   = "Server"
	Load     = "Load"
)

// All are the groups.
var All = []string{Model, Hardware, Workload, Media, Engine, Experts, Server, Load}

// Flags are all settings of a deployment as flags.
func Flags(q *deployment.Request) *pflag.FlagSet {
	f := pflag.NewFlagSet("estimate", pflag.ContinueOnError)
	f.SortFlags = false
	Bind(f, q, All...)
	return f
}

// Bind defines the flags of the fields of a struct that are in some groups, in the order of these.
func Bind(f *pflag.FlagSet, to any, groups ...string) {
	for _, group := range groups {
		for field, v := range Fields(to) {
			if field.Group == group {
				field.flag(f, v)
			}
		}
	}
}

// A Field is a setting of a struct.
type Field struct {
	reflect.StructField
	Group, Key string
	help       string // what its flag does, with its value in backquotes; a setting without help has no flag
}

// Fields are the settings of a struct, with the group that each is in.
func Fields(to any) func(yield func(Field, reflect.Value) bool) {
	return func(yield func(Field, reflect.Value) bool) {
		v := reflect.ValueOf(to).Elem()
		for _, f := range fieldsOf(v.Type()) {
			if !yield(f, v.FieldByIndex(f.Index)) {
				return
			}
		}
	}
}

// known has the fields of each type of settings that flags were made of: most commands have those of an estimate.
var known sync.Map

func fieldsOf(t reflect.Type) []Field {
	if all, ok := known.Load(t); ok {
		return all.([]Field)
	}
	var all []Field
	group := ""
	for _, f := range reflect.VisibleFields(t) {
		if !f.Anonymous {
			group = cmp.Or(f.Tag.Get("group"), group)
			all = append(all, Field{f, group, f.Tag.Get("json"), help(&f)})
		}
	}
	known.Store(t, all)
	return all
}

// Flag is the flag of the setting, "" for one that only files have.
func (f *Field) Flag() string {
	return strings.TrimPrefix(cmp.Or(f.Tag.Get("flag"), strings.ReplaceAll(strings.TrimSuffix(f.Key, "_s"), "_", "-")), "-")
}

// FlagOf is the flag of a setting of a struct by its key, and whether there is such a setting.
func FlagOf(in any, key string) (flag string, known bool) {
	for f := range Fields(in) {
		if f.Key == key {
			return f.Flag(), true
		}
	}
	return "", false
}

func help(f *reflect.StructField) string {
	help, key := f.Tag.Get("help"), f.Tag.Get("json")
	switch help {
	case "":
		help = deployment.Help(key)
	case "=":
		for of := range Fields(&deployment.Request{}) {
			if of.Key == key {
				return of.help
			}
		}
	}
	if words := f.Tag.Get("words"); words != "" {
		help = strings.Replace(help, "%s", listed(strings.Split(words, ",")), 1)
	}
	return unit.Say(strings.ReplaceAll(strings.NewReplacer("<", "`", ">", "`").Replace(help), "%", "%%")).In(Flag)
}

func (f *Field) flag(set *pflag.FlagSet, v reflect.Value) {
	if f.help == "" {
		return
	}
	name := f.Flag()
	flag := set.VarPF(&value{v}, name, f.Tag.Get("short"), f.help)
	if otherwise, ok := f.Tag.Lookup("default"); ok {
		flag.DefValue = otherwise
	}
	if v.Kind() == reflect.Bool {
		flag.NoOptDefVal = "true"
	}
	words := deployment.Words(f.Key)
	if tagged := f.Tag.Get("words"); tagged != "" {
		words = strings.Split(tagged, ",")
	}
	if words != nil {
		Words(set, name, words...)
	}
}

// Value is the value of a flag that sets a field of the type of a setting.
func Value(to any) pflag.Value { return &value{reflect.ValueOf(to).Elem()} }

// A value is a field that a flag sets. A pointer is nil where the flag is not given.
type value struct{ to reflect.Value }

// String is the value as it is given.
func (v *value) String() string {
	if !v.to.IsValid() || v.to.IsZero() {
		if v.to.IsValid() && v.to.Kind() == reflect.Bool {
			return "false"
		}
		return ""
	}
	own := reflect.Indirect(v.to)
	switch x := own.Interface().(type) {
	case unit.Hertz:
		return number(float64(x / megahertz))
	case unit.Bytes:
		return number(float64(x)/1e9) + "GB"
	case unit.BytesPerSec:
		return number(float64(x)/1e9) + "GB/s"
	case serving.Lengths:
		return x.String()
	case unit.Format:
		return x.String()
	}
	if own.Kind() == reflect.Float64 {
		return number(own.Float())
	}
	if own.Kind() == reflect.Slice {
		return strings.Join(strings.Fields(strings.Trim(fmt.Sprint(own.Interface()), "[]")), ",")
	}
	return fmt.Sprint(own.Interface())
}

func number(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

// Set reads the value.
func (v *value) Set(text string) error {
	own := v.to
	if own.Kind() == reflect.Pointer {
		own = reflect.New(own.Type().Elem()).Elem()
	}
	if err := Read(own, text); err != nil {
		return err
	}
	if v.to.Kind() == reflect.Pointer {
		own = own.Addr()
	}
	v.to.Set(own)
	return nil
}

// Type tells how a value is read, as package pflag does.
func (v *value) Type() string {
	t := v.to.Type()
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.PkgPath() == "" {
		return t.Kind().String()
	}
	return "value"
}

// megahertz is the unit of clocks as people write them.
const megahertz = unit.Hertz(1e6)

// Read reads a value of one of the types of settings.
func Read(to reflect.Value, text string) (err error) {
	switch p := to.Addr().Interface().(type) {
	case *string:
		*p = text
	case *bool:
		*p, err = strconv.ParseBool(text)
	case *int:
		*p, err = count(text)
	case *float64:
		*p, err = strconv.ParseFloat(text, 64)
	case *uint64:
		*p, err = strconv.ParseUint(text, 0, 64)
	case *[]string:
		if *p == nil {
			*p = []string{} // The list was given, and is empty.
		}
		if text != "" {
			*p = append(*p, strings.Split(text, ",")...)
		}
	case *[]int:
		for part := range strings.SplitSeq(text, ",") {
			var n int
			if n, err = count(part); err != nil {
				return err
			}
			*p = append(*p, n)
		}
	case *unit.Seconds:
		err = TimeFlag(p).Set(text)
	case *unit.Watts:
		err = quantity(p, 1, text)
	case *unit.Hertz:
		err = quantity(p, megahertz, text)
	case *unit.DollarsPerHour:
		*p, err = deployment.ParsePrice(text)
	case *deployment.Rate:
		if strings.Contains(text, ",") {
			return errors.New("which load? Give one; llmprof simulate and sweep take several")
		}
		err = p.UnmarshalText([]byte(text))
	case encoding.TextUnmarshaler:
		err = p.UnmarshalText([]byte(text))
	default:
		err = fmt.Errorf("no setting is of type %v", to.Type())
	}
	return err
}
