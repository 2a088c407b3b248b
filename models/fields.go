package models

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Limits on single figures; today's largest models stay a factor of ten below.
const (
	maxSize   = 1 << 24
	maxLayers = 10_000
)

// fields reads figures from a config by their common names, whatever the
// family calls them. Errors are kept and asked for once, at the end;
// until then a figure that could not be read is 1.
type fields struct {
	config map[string]any
	assume map[string]any      // values that transformers takes where the config is silent
	stated map[string]any      // values that a family worked out, which go before all others
	names  map[string][]string // names of the family's own, by the common name
	err    error               // the first one
	errs   []error             // all of them

	layered map[string]any // what per_layer_config says of the layer that is built

	lookedUp map[string]bool // fields of the config that were looked up
	beside   reads
	lenient  bool     // a field that is not understood is left out of account
	left     []string // notes of the fields that were left out
}

func (f *fields) fail(format string, args ...any) {
	err := fmt.Errorf(format, args...)
	if f.err == nil {
		f.err = err
	}
	same := func(other error) bool { return other.Error() == err.Error() }
	if len(f.errs) < mostErrors && !slices.ContainsFunc(f.errs, same) {
		f.errs = append(f.errs, err)
	}
}

// mostErrors is how many errors of a config are listed.
const mostErrors = 8

// failure is all that is wrong, nil for nothing.
func (f *fields) failure() error {
	all := f.err
	for i, err := range f.errs {
		if i > 0 {
			all = fmt.Errorf("%w; and %w", all, err)
		}
	}
	return all
}

// conclude keeps an error about figures that were worked out from others, which means nothing where one of those is wrong.
func (f *fields) conclude(format string, args ...any) {
	if f.err == nil {
		f.fail(format, args...)
	}
}

// unsupported keeps an error about what a config states and nobody here understands. A lenient
// reader leaves it out and notes so.
func (f *fields) unsupported(format string, args ...any) {
	if !f.lenient {
		f.fail(format, args...)
		return
	}
	f.left = append(f.left, fmt.Sprintf(format, args...)+"; it is left out of account")
}

// look finds a value by its common name, and the name that the config gives
// it. A null is found as nil: it is stated, and nothing is assumed for it.
func (f *fields) look(name string) (v any, as string, found bool) {
	f.markLookedUp(name)
	if v, found := f.stated[name]; found {
		return v, f.name(name), true
	}
	for _, as := range append([]string{name}, f.names[name]...) {
		if v, found := f.layered[as]; found {
			return v, "per_layer_config " + as, true
		}
	}
	for _, as := range f.names[name] {
		if v, found := f.dig(as); found {
			return v, as, true
		}
	}
	if v, found := f.dig(name); found {
		return v, name, true
	}
	for _, as := range append([]string{name}, f.names[name]...) {
		if v, found := f.assume[as]; found {
			return v, as, true
		}
	}
	return nil, f.name(name), false
}

// set states a figure that a family worked out from others.
func (f *fields) set(name string, v any) {
	if f.stated == nil {
		f.stated = make(map[string]any)
	}
	f.stated[name] = v
}

// markLookedUp remembers that a field was asked for, under all of its names.
func (f *fields) markLookedUp(name string) {
	f.dig(name)
	for _, as := range f.names[name] {
		f.dig(as)
	}
}

// dig follows a path of keys in the config, and remembers that the field was asked for.
func (f *fields) dig(path string) (any, bool) {
	key, _, _ := strings.Cut(path, ".")
	if f.lookedUp == nil {
		f.lookedUp = make(map[string]bool)
	}
	f.lookedUp[key] = true
	return dig(f.config, path)
}

// value is what a field holds, nil if it is not there.
func (f *fields) value(name string) any {
	v, _ := f.dig(name)
	return v
}

// dig follows a path of keys, "attn_config.kv_n_heads".
func dig(object map[string]any, path string) (any, bool) {
	key, rest, nested := strings.Cut(path, ".")
	v, ok := object[key]
	if !ok || !nested {
		return v, ok
	}
	inner, ok := v.(map[string]any)
	if !ok {
		return nil, false
	}
	return dig(inner, rest)
}

// name is what the config calls a field, or else the family, for errors.
func (f *fields) name(name string) string {
	for _, own := range f.names[name] {
		if _, found := dig(f.config, own); found {
			return own
		}
	}
	if own := f.names[name]; len(own) > 0 {
		return own[0]
	}
	return name
}

// has reports whether a field is there and not null.
func (f *fields) has(name string) bool {
	v, _, _ := f.look(name)
	return v != nil
}

// size reads a figure of at least 1 that must be there.
func (f *fields) size(name string) int {
	v, as, _ := f.look(name)
	if v == nil {
		f.fail("%s is missing; want a whole number of at least 1", as)
		return 1
	}
	return f.whole(v, as, 1, maxSize)
}

// sizeOr reads a figure of at least 1, or takes def where there is none.
func (f *fields) sizeOr(name string, def int) int {
	if !f.has(name) {
		return def
	}
	return f.size(name)
}

// countOr reads a figure that may be 0, or takes def where there is none.
func (f *fields) countOr(name string, def int) int {
	v, as, _ := f.look(name)
	if v == nil {
		return def
	}
	return f.whole(v, as, 0, maxSize)
}

// whole turns a JSON number into an int between low and high.
func (f *fields) whole(v any, as string, low, high int) int {
	n, ok := v.(json.Number)
	if !ok {
		f.fail("%s is %s; want a whole number", as, kindOf(v))
		return max(low, 1)
	}
	i, err := strconv.Atoi(n.String())
	if err != nil || i < low || i > high {
		f.fail("%s is %s; want a whole number from %d to %d", as, short(n.String()), low, high)
		return max(low, 1)
	}
	return i
}

// flag reads true or false, false where there is none.
func (f *fields) flag(name string) bool { return scalar[bool](f, name, "true or false") }

// text reads a text, "" where there is none.
func (f *fields) text(name string) string { return scalar[string](f, name, "a text") }

// scalar reads a value of one type, its zero value where there is none.
func scalar[T any](f *fields, name, want string) (value T) {
	v, as, _ := f.look(name)
	if v == nil {
		return value
	}
	value, ok := v.(T)
	if !ok {
		f.fail("%s is %s; want %s", as, kindOf(v), want)
	}
	return value
}

// ratio reads a finite number of at least 0, or takes 1 where there is none.
func (f *fields) ratio(name string) float64 {
	v, as, _ := f.look(name)
	if v == nil {
		return 1
	}
	return f.fraction(v, as)
}

// fraction turns a JSON number into a float64 from 0 to maxSize.
func (f *fields) fraction(v any, as string) float64 {
	n, ok := v.(json.Number)
	if !ok {
		f.fail("%s is %s; want a number", as, kindOf(v))
		return 1
	}
	x, err := n.Float64()
	if err != nil || x < 0 || x > maxSize {
		f.fail("%s is %s; want a number from 0 to %d", as, short(n.String()), maxSize)
		return 1
	}
	return x
}

// list reads a list; nil where there is none.
func (f *fields) list(name string) []any {
	v, as, _ := f.look(name)
	if v == nil {
		return nil
	}
	l, ok := v.([]any)
	if !ok {
		f.fail("%s is %s; want a list", as, kindOf(v))
		return nil
	}
	if len(l) > maxLayers {
		f.fail("%s has %d entries; at most %d are read", as, len(l), maxLayers)
		return nil
	}
	return l
}

func (f *fields) texts(name string) []string {
	l := f.list(name)
	out := make([]string, 0, len(l))
	for i, v := range l {
		s, ok := v.(string)
		if !ok {
			f.fail("%s[%d] is %s; want a text", f.name(name), i, kindOf(v))
		}
		out = append(out, s)
	}
	return out
}

// wholes reads a list of whole numbers of at least 0.
func (f *fields) wholes(name string) []int {
	l := f.list(name)
	out := make([]int, 0, len(l))
	for i, v := range l {
		out = append(out, f.whole(v, fmt.Sprintf("%s[%d]", f.name(name), i), 0, maxSize))
	}
	return out
}

// product multiplies counts, of which the result must stay below maxParams.
func (f *fields) product(what string, counts ...int) int64 {
	size := 1.0
	n := int64(1)
	for _, c := range counts {
		size *= float64(c)
		n *= int64(c)
	}
	if size > maxParams {
		f.fail("%s would be %.3g parameters", what, size)
		return 0
	}
	return n
}

// divide is a/b, which must leave no rest; aName and bName are for the error.
func (f *fields) divide(a, b int, aName, bName string) int {
	if b < 1 || a%b != 0 {
		f.conclude("%s (%d) is not a multiple of %s (%d)", f.name(aName), a, f.name(bName), b)
		return 1
	}
	return a / b
}

// isObject reports whether a value is a JSON object.
func isObject(v any) bool {
	_, ok := v.(map[string]any)
	return ok
}
