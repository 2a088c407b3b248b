//go:build !js

package view

import (
	"fmt"
	"reflect"
	"strings"

	"llmprof/cmd/llmprof/internal/render"
	"llmprof/measure/aggregate"
)

// AggregateTable has a row for each experiment, and a column for each figure under
// its key in the JSON.
func AggregateTable(r *aggregate.Report) *render.Table {
	t := &render.Table{}
	var none aggregate.Aggregate
	for _, f := range flatten("", &none) {
		t.Columns = append(t.Columns, render.Column{Key: f.key})
	}
	for i := range r.Experiments {
		var row render.Row
		for _, f := range flatten("", &r.Experiments[i]) {
			row.Cells = append(row.Cells, f.value)
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// A flat is one value of a struct, with the JSON keys that lead to it.
type flat struct {
	key   string
	value any
}

// flatten lists the values of a struct that is written as JSON, without its lists and
// maps. All structs of a type give the same keys.
func flatten(path string, v any) []flat {
	var list []flat
	r := reflect.ValueOf(v).Elem()
	for i := range r.NumField() {
		f, name := r.Field(i), r.Type().Field(i)
		key, _, _ := strings.Cut(name.Tag.Get("json"), ",")
		if key == "" {
			continue
		}
		key = strings.TrimPrefix(path+"."+key, ".")
		switch {
		case f.Kind() == reflect.Slice || f.Kind() == reflect.Map:
		case f.Kind() == reflect.Struct && f.Type().PkgPath() != "time":
			list = append(list, flatten(key, f.Addr().Interface())...)
		case f.Kind() == reflect.Pointer && f.Type().Elem().Kind() == reflect.Struct:
			inner := f
			if f.IsNil() {
				inner = reflect.New(f.Type().Elem())
			}
			for _, below := range flatten(key, inner.Interface()) {
				if f.IsNil() {
					below.value = nil
				}
				list = append(list, below)
			}
		default:
			list = append(list, flat{key, plainCell(f)})
		}
	}
	return list
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
	case bool:
		return fmt.Sprint(v)
	case uint64:
		return fmt.Sprint(v)
	case interface{ Format(string) string }:
		return v.Format("2006-01-02T15:04:05.999999999Z07:00")
	}
	return f.Interface()
}
