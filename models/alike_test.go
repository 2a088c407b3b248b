package models

import (
	"reflect"
	"testing"
)

// Layers are alike but for windows while everything else of them is equal: each field of theirs, changed alone, makes them differ.
func TestAlikeButWindows(t *testing.T) {
	one := func() Layer {
		linears := func() []Linear { return []Linear{{Name: "x", In: 8, Out: 8, Stored: &Storage{Name: "q"}}} }
		return Layer{Name: "a", Count: 1, Blocks: []Block{{
			Norms: []Norm{{Name: "n"}}, In: linears(), Out: linears(), Scan: &Scan{},
			Attention: &Attention{Latent: &Latent{Expand: linears()[0]}, Indexer: &Indexer{}},
			Experts:   &Experts{Router: linears(), In: linears(), Out: linears(), Shared: &Shared{In: linears(), Out: linears()}},
		}}}
	}
	a, changed := one(), 0
	var change func(v reflect.Value, path string, l *Layer)
	change = func(v reflect.Value, path string, l *Layer) {
		before := reflect.New(v.Type()).Elem()
		before.Set(v)
		switch v.Kind() {
		case reflect.Struct:
			for i := range v.NumField() {
				change(v.Field(i), path+"."+v.Type().Field(i).Name, l)
			}
			return
		case reflect.Pointer:
			change(v.Elem(), path, l)
			v.SetZero()
		case reflect.Slice:
			change(v.Index(0), path, l)
			v.SetZero()
		case reflect.String:
			v.SetString("other")
		case reflect.Bool:
			v.SetBool(!v.Bool())
		case reflect.Float64:
			v.SetFloat(v.Float() + 1)
		case reflect.Uint8:
			v.SetUint(v.Uint() + 1)
		default:
			v.SetInt(v.Int() + 1)
		}
		window := path == ".Attention.Window"
		if changed++; a.AlikeButWindows(l) != window || l.AlikeButWindows(&a) != window {
			t.Errorf("with another %s layers are alike: %v, not %v", path, !window, window)
		}
		v.Set(before)
	}
	b := one()
	b.Name, b.Count = "b", 2
	if !a.AlikeButWindows(&b) {
		t.Error("layers of another name and number are not alike")
	}
	change(reflect.ValueOf(&b.Blocks[0]).Elem(), "", &b)
	if changed < 80 {
		t.Errorf("only %d fields were changed", changed)
	}
}
