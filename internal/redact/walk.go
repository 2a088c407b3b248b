package redact

import (
	"encoding/json"
	"reflect"
)

// Struct takes the secrets out of every string that the struct at p leads to.
// Lists, maps and structs behind pointers are copied first: others may have them.
// Raw JSON and keys of maps stay.
func (r Redactor) Struct(p any) { r.walk(reflect.ValueOf(p).Elem()) }

func (r Redactor) walk(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(r.Text(v.String()))
	case reflect.Struct:
		if v.Type().PkgPath() == "time" {
			return
		}
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				r.walk(v.Field(i))
			}
		}
	case reflect.Pointer:
		if !v.IsNil() && texts(v.Type()) {
			own := reflect.New(v.Type().Elem())
			own.Elem().Set(v.Elem())
			r.walk(own.Elem())
			v.Set(own)
		}
	case reflect.Slice:
		if v.IsNil() || !texts(v.Type()) {
			return
		}
		own := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
		reflect.Copy(own, v)
		for i := range own.Len() {
			r.walk(own.Index(i))
		}
		v.Set(own)
	case reflect.Map:
		if v.IsNil() || !texts(v.Type()) {
			return
		}
		own := reflect.MakeMapWithSize(v.Type(), v.Len())
		for _, key := range v.MapKeys() {
			value := reflect.New(v.Type().Elem()).Elem()
			value.Set(v.MapIndex(key))
			r.walk(value)
			own.SetMapIndex(key, value)
		}
		v.Set(own)
	}
}

// texts reports whether values of a type lead to strings: a million samples do not.
func texts(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Slice, reflect.Map, reflect.Pointer:
		return t != reflect.TypeFor[json.RawMessage]() && texts(t.Elem())
	case reflect.String, reflect.Struct, reflect.Interface:
		return true
	}
	return false
}
