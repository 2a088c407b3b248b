package hardware

import (
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/BurntSushi/toml"

	"llmprof/internal/fileerror"
	"llmprof/internal/input"
)

// A source is the text of a TOML file, whose errors name the file, the line and the column.
type source struct{ file, text string }

// maxFile (bytes), maxDepth and maxValues are limits of a hardware or calibration file. A thousand
// GPUs are below them.
const (
	maxFile   = 4 << 20
	maxDepth  = 16
	maxValues = 50_000
)

// decode reads the text into v if it is within the limits.
func (s *source) decode(v any) (toml.MetaData, error) {
	err := input.Limits{Bytes: maxFile, Depth: maxDepth, Values: maxValues}.TOML(s.text)
	if limit, ok := errors.AsType[*input.LimitError](err); ok {
		return toml.MetaData{}, s.in(fileerror.Span{Line: limit.Line, Column: limit.Column, Width: 1}, limit.Problem)
	}
	meta, err := toml.Decode(s.text, v)
	if err == nil {
		return meta, s.oneSpelling(meta.Keys())
	}
	return meta, s.located(err)
}

// oneSpelling refuses keys that differ in upper and lower case alone: the library takes each of them for the field, in any order.
func (s *source) oneSpelling(keys []toml.Key) error {
	first := make(map[string]string, len(keys))
	for _, k := range keys {
		key := k.String()
		as := strings.ToLower(key)
		if before, ok := first[as]; ok && before != key {
			return s.at(strings.Join(k, "."), "%.60q and %.60q are one name: leave one out", before, key)
		}
		first[as] = key
	}
	return nil
}

// located gives an error of the TOML library its place.
func (s *source) located(err error) error {
	if err == nil {
		return nil
	}
	var parse toml.ParseError
	if !errors.As(err, &parse) {
		// A value of another type: toml: line 2 (last key "gpu.x.name"): why
		problem := strings.TrimPrefix(err.Error(), "toml: ")
		_, rest, _ := strings.Cut(problem, `(last key "`)
		if key, why, ok := strings.Cut(rest, `"): `); ok {
			return s.at(key, "%s", why)
		}
		return s.at("", "%s", problem)
	}
	_, field, _ := strings.Cut(strings.TrimPrefix(parse.LastKey, "gpu."), ".")
	p := parse.Position
	return s.in(fileerror.Span{Line: p.Line, Column: p.Col, Width: p.Len}, strings.TrimPrefix(field+": "+parse.Message, ": "))
}

// at is an error at a key, or at the nearest table above it where the file does not have the key.
func (s *source) at(key, format string, args ...any) error {
	keys := fileerror.FindTOMLKeys(s.text)
	return s.in(keys.Value(strings.TrimSuffix(key, ".")), fmt.Sprintf(format, args...))
}

func (s *source) in(at fileerror.Span, problem string) error {
	line := ""
	if lines := strings.SplitN(s.text, "\n", at.Line+1); at.Line > 0 && at.Line <= len(lines) {
		line = strings.TrimSuffix(lines[at.Line-1], "\r")
	}
	return fileerror.New(s.file, line, at, "%s", problem)
}

// fields are pointers to the fields of a struct, by their keys in TOML.
func fields(of any) map[string]any {
	all := map[string]any{}
	for key, v := range tomlFields(reflect.ValueOf(of).Elem()) {
		all[key] = v.Addr().Interface()
	}
	return all
}

// A rule is what the value of a key has to be.
type rule struct {
	key   string
	value any // a pointer to it where 0 is not the same as missing
	ok    bool
	want  any // printed in the error
}

// check is the errors of all rules that do not hold, below the table at a path. The first that is missing has the place where it belongs.
func (s *source) check(path string, rules []rule) error {
	var gaps, wrong []error
	for _, r := range rules {
		key, v := path+r.key, reflect.Indirect(reflect.ValueOf(r.value))
		switch {
		case r.ok:
		case v.IsValid() && !v.IsZero():
			wrong = append(wrong, s.at(key, "%s is %v: want %v", key, v, r.want))
		case len(gaps) == 0:
			gaps = append(gaps, s.at(key, "there is no %s: want %v", key, r.want))
		default:
			gaps = append(gaps, fmt.Errorf("there is no %s: want %v", key, r.want))
		}
	}
	return errors.Join(append(gaps, wrong...)...)
}

// between is the rule that a figure lies in a range. Ranges are wide: they are there to catch a
// wrong prefix or a number without its unit.
func between[Q ~float64 | ~int](key string, v, least, most Q) rule {
	return rule{key, v, least <= v && v <= most, span[Q]{least, most}}
}

// optional is between for a figure that may be missing.
func optional[Q ~float64 | ~int](key string, v, least, most Q) rule {
	return rule{key, v, v == 0 || least <= v && v <= most, span[Q]{least, most}}
}

// A span is a range, which prints itself.
type span[Q any] struct{ least, most Q }

func (s span[Q]) String() string { return fmt.Sprintf("%v to %v", s.least, s.most) }
