package view

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"llmprof/plots/render"
	"llmprof/roofline"
	"llmprof/unit"
)

// finite is a pointer to v, or nil if it is no number.
func finite(v float64) *float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return nil
	}
	return &v
}

// Some leaves a cell empty where there is nothing of it.
func Some[Q unit.FLOPs | unit.Bytes | unit.Seconds](q Q) any {
	if q == 0 {
		return ""
	}
	return q
}

// Rate is a number of tokens a second in four digits.
func Rate(v float64) string {
	decimals := 0
	for limit := 999.95; v < limit && decimals < 3; limit /= 10 {
		decimals++
	}
	return strconv.FormatFloat(v, 'f', decimals, 64)
}

// trimFloat is a number with the decimals that it has, at most one.
func trimFloat(v float64) string {
	if v == float64(int64(v)) {
		return strconv.FormatInt(int64(v), 10)
	}
	return strconv.FormatFloat(v, 'f', 1, 64)
}

// PaintedBound is a bound in its colour.
func PaintedBound(b roofline.Bound) render.Painted {
	colors := [...]render.Color{render.Compute, render.Memory, render.Network, render.Launch}
	return render.Painted{Value: b, Color: colors[int(b)%len(colors)]}
}

// Known is q, or nil if it is not known.
func Known[Q any](q Q, ok bool) any {
	if !ok {
		return nil
	}
	return q
}

// Cell is nil where there is no value.
func Cell[T any](v *T) any {
	if v == nil {
		return nil
	}
	return *v
}

// as converts a figure to a quantity of the unit T. The result is nil where there is no figure.
func as[T ~float64](v *float64) any { return Cell(of(v, func(v *float64) T { return T(*v) })) }

// of gives a figure of something, nil where there is none.
func of[S, T any](s *S, figure func(*S) T) *T {
	if s == nil {
		return nil
	}
	return new(figure(s))
}

// orUnknown is a value as text, "not known" for the zero value.
func orUnknown[T comparable](v T) string {
	var zero T
	if v == zero {
		return "not known"
	}
	return fmt.Sprint(v)
}

// joined puts a list into one cell; it is nil for an empty list.
func joined(list []string) any {
	if len(list) == 0 {
		return nil
	}
	return strings.Join(list, " ")
}

// digits is a number that people read with four significant digits.
type digits float64

// String is the number in at most four digits.
func (d digits) String() string { return fmt.Sprintf("%.4g", float64(d)) }

// times is a number of GPUs of one kind, as "8 × H100".
func times(n int, name string) string {
	if n == 1 {
		return name
	}
	return fmt.Sprintf("%d × %s", n, name)
}

// judged is a good word where something holds, and else a bad one.
func judged(holds bool, good, bad string) render.Painted {
	if holds {
		return render.Painted{Value: good, Color: render.Good}
	}
	return render.Painted{Value: bad, Color: render.Bad}
}

// distinct are the different texts of a list, in its order, without empty ones.
func distinct[T any](all []T, of func(*T) string) (texts []string) {
	for i := range all {
		if text := of(&all[i]); text != "" && !slices.Contains(texts, text) {
			texts = append(texts, text)
		}
	}
	return texts
}

// named is a value and what it is called.
type named[T any] struct {
	name string
	of   T
}

// flat is a table for programs of documents that are written as JSON, a row each. A column has the key of its
// values in the JSON, with a dot where one document is within another, or is given as "column=key" where it has
// another name than that of its key within its document. Without columns given it is all of them but lists.
func flat[T any](rows []T, columns ...string) *render.Table {
	var none T
	keys, t := flatten("", reflect.ValueOf(&none).Elem()), &render.Table{}
	var at []int
	for i, k := range keys {
		if columns == nil && !k.list {
			at, t.Columns = append(at, i), append(t.Columns, render.Column{Key: k.key})
		}
	}
	for _, name := range columns {
		column, key, named := strings.Cut(name, "=")
		if !named { // the last part of the key
			column, key = column[strings.LastIndexByte(column, '.')+1:], column
		}
		at, t.Columns = append(at, slices.IndexFunc(keys, func(v namedValue) bool { return v.key == key })),
			append(t.Columns, render.Column{Key: column})
	}
	for i := range rows {
		values, cells := flatten("", reflect.ValueOf(&rows[i]).Elem()), make([]any, len(at))
		for j, k := range at {
			cells[j] = values[k].value
		}
		t.Add(cells...)
	}
	return t
}

// A namedValue is one value of a struct, with the JSON keys that lead to it.
type namedValue struct {
	key   string
	value any
	list  bool // the value is a list of texts, which one cell holds
}

// flatten lists the values of a struct that is written as JSON, without its maps and lists other than of texts. All
// structs of a type give the same keys.
func flatten(path string, r reflect.Value) (all []namedValue) {
	for i := range r.NumField() {
		f, field := r.Field(i), r.Type().Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		key := strings.TrimPrefix(path+"."+name, ".")
		list := f.Type() == reflect.TypeFor[[]string]()
		switch {
		case name == "" && field.Anonymous && f.Kind() == reflect.Struct:
			all = append(all, flatten(path, f)...)
		case list && name != "":
			all = append(all, namedValue{key, joined(f.Interface().([]string)), true})
		case name == "" || name == "-" || f.Kind() == reflect.Slice || f.Kind() == reflect.Map:
		case f.Kind() == reflect.Struct && f.Type().PkgPath() != "time":
			all = append(all, flatten(key, f)...)
		case f.Kind() == reflect.Pointer && f.Type().Elem().Kind() == reflect.Struct:
			if !f.IsNil() {
				all = append(all, flatten(key, f.Elem())...)
				continue
			}
			for _, below := range flatten(key, reflect.New(f.Type().Elem()).Elem()) {
				all = append(all, namedValue{below.key, nil, below.list})
			}
		default:
			all = append(all, namedValue{key, plainCell(f), false})
		}
	}
	return all
}

// plainCell turns the value of a field into the value of a cell.
func plainCell(f reflect.Value) any {
	if f.Kind() == reflect.Pointer {
		if f.IsNil() {
			return nil
		}
		f = f.Elem()
	}
	switch v := f.Interface().(type) {
	case bool, uint64:
		return fmt.Sprint(v)
	case interface{ Format(string) string }:
		return v.Format("2006-01-02T15:04:05.999999999Z07:00")
	}
	return f.Interface()
}
