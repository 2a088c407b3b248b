package replay

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"llmprof/input"
)

// A record is one request as a file has it.
type record struct {
	line   int
	fields []field
	size   int // bytes, about
}

// A field has its key as the file has it, the key's plain name, and its value without quotes.
type field struct{ key, name, value string }

// mostFields bounds a record's fields: each is compared with all others.
const mostFields = 1024

// add takes a field. Two of one name are a mistake, since either may be meant.
func (r *record) add(f field) error {
	if i := r.find(f.name); i >= 0 && f.name != "" {
		return r.wrong("it has %.60q and %.60q, which are one name: leave one out", r.fields[i].key, f.key)
	}
	if len(r.fields) == mostFields {
		return r.wrong("it has more than %d fields", mostFields)
	}
	r.fields = append(r.fields, f)
	r.size += len(f.key) + len(f.value)
	return nil
}

func (r *record) find(name string) int {
	return slices.IndexFunc(r.fields, func(f field) bool { return f.name == name })
}

// get is the first field that there is of some names; nil if there is none.
func (r *record) get(names []string) *field {
	for _, name := range names {
		if i := r.find(name); i >= 0 {
			return &r.fields[i]
		}
	}
	return nil
}

func (r *record) names() []string {
	all := make([]string, len(r.fields))
	for i := range r.fields {
		all[i] = r.fields[i].name
	}
	return all
}

// wrong is a mistake in a record, with what it says.
func (r *record) wrong(format string, args ...any) error {
	var b strings.Builder
	for _, f := range r.fields {
		if b.Len() > 1000 {
			break
		}
		fmt.Fprintf(&b, "%s%.100s: %.100s", map[bool]string{true: ", "}[b.Len() > 0], f.key, f.value)
	}
	return fmt.Errorf("line %d: %s:\n%s", r.line, fmt.Sprintf(format, args...), input.Excerpt(b.String(), 1, b.Len()))
}

// row reads a record of a form, whose times are in the unit that was decided.
func (t *Trace) row(r *record) (w row, err error) {
	if f := r.get(t.form.failed); f != nil && !slices.Contains([]string{"", "null", "false"}, f.value) {
		return w, errSkip
	}
	at, prompt, gen := r.get(t.form.at), r.get(t.form.prompt), r.get(t.form.gen)
	if at == nil || prompt == nil || gen == nil {
		return w, r.wrong("%s", t.form.missing(r))
	}
	w.at, err = moment(at.value, t.scale)
	if err == nil {
		w.prompt, err = tokens(prompt.value)
	}
	if err == nil {
		w.gen, err = tokens(gen.value)
	}
	if h := r.get(hashNames); err == nil && h != nil && h.value != "null" && json.Unmarshal([]byte(h.value), &w.hashes) != nil {
		err = errors.New("hash_ids are no list of whole numbers")
	}
	switch {
	case err != nil:
		return w, r.wrong("%v", err)
	case w.prompt == 0 || w.gen == 0:
		return w, errSkip
	}
	return w, nil
}

var hashNames = []string{"hashids"}

// missing says which fields a record has not.
func (f *form) missing(r *record) string {
	var none []string
	for _, x := range []struct {
		what  string
		names []string
	}{{"time", f.at}, {"prompt tokens", f.prompt}, {"generated tokens", f.gen}} {
		if r.get(x.names) == nil {
			none = append(none, x.what)
		}
	}
	return "no field for " + strings.Join(none, ", ") + ": want time, prompt and generated, as in " + example
}

const example = `{"time": 0.5, "prompt": 1024, "generated": 128}`

func tokens(text string) (int, error) {
	v, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	if err != nil || !(v >= 0 && v <= 1<<26) || v != math.Trunc(v) {
		return 0, fmt.Errorf("%.40q is no number of tokens", text)
	}
	return int(v), nil
}

// moment reads a time: a number of a unit of that many seconds, or a date with a time.
func moment(text string, scale float64) (float64, error) {
	text = strings.TrimSpace(text)
	if v, err := strconv.ParseFloat(text, 64); err == nil {
		if v *= scale; !(math.Abs(v) < 1e12) {
			return 0, fmt.Errorf("%.40q is no time in %s", text, unitOf(scale))
		}
		return v, nil
	}
	if when, ok := date(text); ok {
		return when, nil
	}
	return 0, fmt.Errorf("%.40q is no time: want a number, or a date as 2023-11-16 18:15:46.68", text)
}

func unitOf(scale float64) string {
	for unit, s := range units {
		if s == scale {
			return unitNames[unit]
		}
	}
	return ""
}

// date reads a date with a time, as seconds.
func date(text string) (float64, bool) {
	for _, layout := range []string{"2006-01-02 15:04:05.999999999", "2006-01-02 15:04:05.999999999-07:00", time.RFC3339Nano} {
		if when, err := time.Parse(layout, text); err == nil {
			return float64(when.Unix()) + float64(when.Nanosecond())*1e-9, true
		}
	}
	return 0, false
}
