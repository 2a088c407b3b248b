package experiment

import (
	"encoding"
	"fmt"
	"math"
	"reflect"
	"slices"

	"llmprof/internal/fileerror"
	"llmprof/internal/spelling"
	"llmprof/internal/tree"
)

// settingFields are the fields of a Point in order, and settingKeys their keys in
// the files.
var settingFields, settingKeys = listSettings()

func listSettings() (fields []reflect.StructField, keys []string) {
	for _, f := range reflect.VisibleFields(reflect.TypeFor[Point]()) {
		if key := f.Tag.Get("json"); !f.Anonymous && key != "-" {
			fields, keys = append(fields, f), append(keys, key)
		}
	}
	return fields, keys
}

// Settings lists the keys of all settings.
func Settings() []string { return slices.Clone(settingKeys) }

// field is the setting of a key, the zero Value if there is none.
func (p *Point) field(key string) reflect.Value {
	i := slices.Index(settingKeys, key)
	if i < 0 {
		return reflect.Value{}
	}
	return reflect.ValueOf(p).Elem().FieldByIndex(settingFields[i].Index)
}

// Value is the setting of a key, nil if there is none.
func (p *Point) Value(key string) any {
	if v := p.field(key); v.IsValid() {
		return v.Interface()
	}
	return nil
}

// set gives a setting the value of a node.
func (p *Point) set(key string, n *tree.Node) *fileerror.Error {
	v := p.field(key)
	if !v.IsValid() {
		return n.At.Errorf("%.60q is not a setting; %s", key, spelling.Hint(key, settingKeys))
	}
	if err := assign(v, n); err != nil {
		return n.At.Errorf("%s: %v", key, err)
	}
	return nil
}

// assign converts n to the type of v. Nothing is rounded, and no text is taken
// for a number except one with a unit.
func assign(v reflect.Value, n *tree.Node) error {
	switch v.Kind() {
	case reflect.String:
		s, ok := n.Scalar.(string)
		if !ok {
			return fmt.Errorf("%s: want a text", n.What())
		}
		v.SetString(s)
	case reflect.Bool:
		b, ok := n.Scalar.(bool)
		if !ok {
			return fmt.Errorf("%s: want true or false", n.What())
		}
		v.SetBool(b)
	case reflect.Int:
		i, ok := tree.Whole(n.Scalar)
		if !ok || i > tree.MostCount {
			return fmt.Errorf("%s: want a whole number from 0 to %d", n.What(), tree.MostCount)
		}
		v.SetInt(int64(i))
	case reflect.Uint64:
		u, ok := tree.Whole(n.Scalar)
		if !ok {
			return fmt.Errorf("%s: want a whole number from 0 to %d", n.What(), uint64(math.MaxUint64))
		}
		v.SetUint(u)
	case reflect.Float64:
		return assignFloat(v, n)
	case reflect.Slice:
		return assignList(v, n)
	case reflect.Pointer: // a setting whose zero means something else than its absence
		own := reflect.New(v.Type().Elem())
		if err := assign(own.Elem(), n); err != nil {
			return err
		}
		v.Set(own)
	}
	return nil
}

func assignFloat(v reflect.Value, n *tree.Node) error {
	f := math.NaN()
	switch s := n.Scalar.(type) {
	case float64:
		f = s
	case int64:
		f = float64(s)
	case uint64:
		f = float64(s)
	case string:
		if u, ok := v.Addr().Interface().(encoding.TextUnmarshaler); ok {
			if err := u.UnmarshalText([]byte(s)); err != nil {
				return err
			}
			f = v.Float()
		}
	}
	if !(f >= 0 && f <= math.MaxFloat64) {
		return fmt.Errorf("%s: want a number from 0 up", n.What())
	}
	v.SetFloat(f)
	return nil
}

// assignList reads a list of names, of which some may be written as numbers.
func assignList(v reflect.Value, n *tree.Node) error {
	if n.Kind != tree.ListKind {
		return fmt.Errorf("%s: want a list", n.What())
	}
	list := []string{}
	for _, item := range n.Items {
		switch s := item.Scalar.(type) {
		case string:
			list = append(list, s)
		case int64, uint64:
			list = append(list, fmt.Sprint(s))
		default:
			return fmt.Errorf("%s in the list: want texts", item.What())
		}
	}
	v.Set(reflect.ValueOf(list))
	return nil
}
