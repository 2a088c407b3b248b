package validate

import (
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"llmprof/analytic"
	"llmprof/hardware"
	"llmprof/unit"
)

// fieldsOf lists the numbers and flags of a struct, those of structs within it
// included.
func fieldsOf(t reflect.Type, path string) (all []string) {
	for i := range t.NumField() {
		f := t.Field(i)
		switch name := path + "." + f.Name; f.Type.Kind() {
		case reflect.Struct:
			all = append(all, fieldsOf(f.Type, name)...)
		case reflect.String:
		default:
			all = append(all, name)
		}
	}
	return all
}

// TestConstantsComplete holds that no constant is forgotten: a field that is added
// to a calibration or an engine has to be listed with its ideal, or with why no
// prediction depends on it.
func TestConstantsComplete(t *testing.T) {
	want := append(fieldsOf(reflect.TypeFor[hardware.Calibration](), "Calibration"), fieldsOf(reflect.TypeFor[analytic.Engine](), "Engine")...)
	var got, names []string
	for _, c := range append(Constants(), Unscored()...) {
		if c.About == "" || slices.Contains(got, c.Field) || slices.Contains(names, c.Name) {
			t.Errorf("%s says nothing of itself, or stands twice", c.Field)
		}
		got, names = append(got, c.Field), append(names, c.Name)
	}
	for _, f := range want {
		if !slices.Contains(got, f) {
			t.Errorf("%s is a constant that validate/ablate.go does not list", f)
		}
	}
	for _, f := range got {
		if !slices.Contains(want, f) {
			t.Errorf("%s is listed and is no field", f)
		}
	}
}

// TestConstantNames holds the names to those of calibration files: a value that a
// file has under a name is that of the field.
func TestConstantNames(t *testing.T) {
	g, err := scorer(t).GPU("h200")
	if err != nil {
		t.Fatal(err)
	}
	file, err := hardware.NewCalibration(g, unit.BF16)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]float64{}
	for i, k := range hardware.Constants() {
		want[k.Key] = 0.01 + float64(i)/1000
		file.Values[k.Key] = hardware.Value{Value: want[k.Key]}
	}
	file.Engine = "native"
	c, host, err := file.Apply(g, "native")
	if err != nil {
		t.Fatal(err)
	}
	e := analytic.Engine{}.With(host)
	for _, k := range Constants() {
		v, err := k.find(&c, &e)
		if err != nil {
			t.Fatal(err)
		}
		if value, ok := want[k.Name]; ok && v.Float() != value {
			t.Errorf("%s is %v, the file has %v", k.Name, v.Float(), value)
		}
		delete(want, k.Name)
	}
	if len(want) > 0 {
		t.Errorf("of a calibration file, and not listed: %v", want)
	}
}

// TestFittedNames holds what is said to be fitted to the constants' names.
func TestFittedNames(t *testing.T) {
	names := map[string]bool{}
	for _, k := range Constants() {
		names[k.Name] = true
	}
	for _, f := range fits() {
		known := 0
		for word := range strings.FieldsSeq(f.constant) {
			if names[word] {
				known++
			} else if strings.Contains(word, ".") {
				t.Errorf("%q: %s is no constant", f.constant, word)
			}
		}
		if known == 0 {
			t.Errorf("%q names no constant", f.constant)
		}
	}
}

// TestIdealize sets each constant alone.
func TestIdealize(t *testing.T) {
	for _, k := range Constants() {
		var c, c2 hardware.Calibration
		var e, e2 analytic.Engine
		for _, v := range []reflect.Value{reflect.ValueOf(&c).Elem(), reflect.ValueOf(&c2).Elem(), reflect.ValueOf(&e).Elem(), reflect.ValueOf(&e2).Elem()} {
			fillFloats(v)
		}
		if k.Ideal == 0 { // from true
			e.Join, e2.Join, e.Stream, e2.Stream = true, true, true, true
		}
		if err := k.idealize(&c, &e); err != nil {
			t.Fatal(err)
		}
		if reflect.DeepEqual(c, c2) == reflect.DeepEqual(e, e2) {
			t.Errorf("%s: want a change of the calibration or of the engine", k.Field)
		}
	}
	for _, bad := range []string{"Calibration.Speed", "Engine.Name", "Calibration.GEMM", "Calibration.Launch.Fast"} {
		k := Constant{Field: bad}
		if err := k.idealize(&hardware.Calibration{}, &analytic.Engine{}); err == nil {
			t.Errorf("%s: want an error", bad)
		}
	}
}

func fillFloats(v reflect.Value) {
	for i := range v.NumField() {
		switch f := v.Field(i); f.Kind() {
		case reflect.Struct:
			fillFloats(f)
		case reflect.Float64:
			f.SetFloat(0.5)
		}
	}
}

// TestIdealIsFaster holds that no constant's ideal makes a prediction faster than
// the floor, and that all of them together make none slower: else they are no
// ideals.
func TestIdealIsFaster(t *testing.T) {
	rows := scorer(t).Score(embedded(t)).Rows
	for _, k := range append(Constants(), Constant{Field: ""}) {
		s := scorer(t)
		s.change = func(c *hardware.Calibration, e *analytic.Engine) error {
			if k.Field != "" {
				return k.idealize(c, e)
			}
			for _, k := range Constants() {
				if err := k.idealize(c, e); err != nil {
					return err
				}
			}
			return nil
		}
		for i := range rows {
			r := &rows[i]
			p, err := s.predict(r.Config)
			if err != nil {
				t.Fatal(err)
			}
			now, err := p.of(&r.Config, r.Metric)
			if err != nil {
				t.Fatal(err)
			}
			if k.Field == "" && !r.Metric.Energy() && now.expected > r.Predicted*(1+1e-12) {
				t.Errorf("all ideal: %s takes %v, before %v", r.name(), now.expected, r.Predicted)
			}
			if now.floor != nil && now.expected < *now.floor*(1-1e-12) {
				t.Errorf("%s ideal: %s takes %v, at least %v", k.Field, r.name(), now.expected, *now.floor)
			}
		}
	}
}

// TestAblate holds an effect to scoring the rows anew with the constant changed.
func TestAblate(t *testing.T) {
	s := scorer(t)
	score := s.Score(embedded(t))
	each, all, err := s.Ablate(score.Rows)
	if err != nil {
		t.Fatal(err)
	}
	if len(each) != len(Constants()) {
		t.Fatalf("%d constants, want %d", len(each), len(Constants()))
	}
	last := math.Inf(1)
	for i := range each {
		mean, ok := each[i].Buys(false)
		if !ok || mean > last {
			t.Errorf("%s buys %v, more than %v before it", each[i].Field, mean, last)
		}
		last = mean
	}
	if mean, _ := all.Buys(false); mean <= 0 {
		t.Errorf("all constants together buy %v", mean)
	}
	const field = "Calibration.GEMM.Memory"
	at := slices.IndexFunc(each, func(a Ablation) bool { return a.Field == field })
	other := scorer(t)
	other.change = func(c *hardware.Calibration, _ *analytic.Engine) error { c.GEMM.Memory = 1; return nil }
	summary := map[Metric]map[bool]Summary{}
	for _, sum := range Summarize(other.Score(embedded(t)).Rows) {
		if summary[sum.Metric] == nil {
			summary[sum.Metric] = map[bool]Summary{}
		}
		summary[sum.Metric][sum.Fitted] = sum
	}
	for _, e := range each[at].Effects {
		if want := summary[e.Metric][e.Fitted]; e.N != want.N || e.Ideal != want.MedianAPE || e.Moved == 0 {
			t.Errorf("%+v, want %+v", e, want)
		}
	}
}
