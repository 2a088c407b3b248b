package view

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"llmprof/plots/render"
)

// flat is a table for programs of documents that are written as JSON, a row each. A column has the key of its
// values in the JSON, with a dot where one document is within another, or is given as "column=key" where it has
// another name. Without columns given it is all of them but lists.
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
		if !named {
			key = column
		}
		at, t.Columns = append(at, slices.IndexFunc(keys, func(v keyed) bool { return v.key == key })),
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

// A keyed is one value of a struct, with the JSON keys that lead to it.
type keyed struct {
	key   string
	value any
	list  bool // the value is a list of texts, which one cell holds
}

// flatten lists the values of a struct that is written as JSON, without its maps and lists other than of texts. All
// structs of a type give the same keys.
func flatten(path string, r reflect.Value) (all []keyed) {
	for i := range r.NumField() {
		f, field := r.Field(i), r.Type().Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		key := strings.TrimPrefix(path+"."+name, ".")
		list := f.Type() == reflect.TypeFor[[]string]()
		switch {
		case name == "" && field.Anonymous && f.Kind() == reflect.Struct:
			all = append(all, flatten(path, f)...)
		case list && name != "":
			all = append(all, keyed{key, joined(f.Interface().([]string)), true})
		case name == "" || name == "-" || f.Kind() == reflect.Slice || f.Kind() == reflect.Map:
		case f.Kind() == reflect.Struct && f.Type().PkgPath() != "time":
			all = append(all, flatten(key, f)...)
		case f.Kind() == reflect.Pointer && f.Type().Elem().Kind() == reflect.Struct:
			if !f.IsNil() {
				all = append(all, flatten(key, f.Elem())...)
				continue
			}
			for _, below := range flatten(key, reflect.New(f.Type().Elem()).Elem()) {
				all = append(all, keyed{below.key, nil, below.list})
			}
		default:
			all = append(all, keyed{key, plainCell(f), false})
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
