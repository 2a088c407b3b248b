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

	"llmprof/internal/fileerror"
)

// A record is one request as a file has it.
type record struct {
	line   int
	fields []field
}

// A field has its key as the file has it, the key's plain name, and its value without quotes, which begins in a line of JSON.
type field struct {
	key, name, value string
	line             int
}

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
	return nil
}

func (r *record) find(name string) int {
	return slices.IndexFunc(r.fields, func(f field) bool { return f.name == name })
}

// get is the first field that there is of some names; nil if there is none.
func (r *record) get(some names) *field {
	for name := range strings.SplitSeq(string(some), " ") {
		if i := r.find(name); i >= 0 {
			return &r.fields[i]
		}
	}
	return nil
}

func (r *record) has(name string) bool { return r.find(name) >= 0 }

// wrong is a mistake in a record, with what it says.
func (r *record) wrong(format string, args ...any) error {
	var b strings.Builder
	for _, f := range r.fields {
		if b.Len() > 1000 {
			break
		}
		fmt.Fprintf(&b, "%s%.100s", map[bool]string{true: ", "}[b.Len() > 0], f.key)
		if f.value != f.key { // as in a header
			fmt.Fprintf(&b, ": %.100s", f.value)
		}
	}
	return fmt.Errorf("line %d: %s:\n%s", r.line, fmt.Sprintf(format, args...), fileerror.Excerpt(b.String(), 1, b.Len()))
}

const hashIDs names = "hashids"

// row reads a record of a form, whose times are in the unit that was decided. That of a request that failed has no generated tokens.
func (t *Trace) row(r *record) (w row, err error) {
	if f := r.get(t.form.failed); f != nil && !slices.Contains([]string{"", "null", "false"}, f.value) {
		return row{prompt: 1}, nil
	}
	at, prompt, gen := r.get(t.form.at), r.get(t.form.prompt), r.get(t.form.gen)
	if at == nil || prompt == nil || gen == nil {
		return w, r.wrong("no field for %s", t.form.missing(r, inJSON))
	}
	w.line = r.line
	w.at, err = t.moment(at.key, at.value)
	if err == nil {
		w.prompt, err = tokens(prompt.key, prompt.value)
	}
	if err == nil {
		w.gen, err = tokens(gen.key, gen.value)
	}
	if h := r.get(hashIDs); err == nil && h != nil && h.value != "null" && json.Unmarshal([]byte(h.value), &w.hashes) != nil {
		err = errors.New("hash_ids are no list of whole numbers")
	}
	if err != nil {
		err = r.wrong("%v", err)
	}
	return w, err
}

// missing names what a record has not, and says what is wanted, by an example.
func (f *form) missing(r *record, example string) string {
	var none []string
	as := ": want time, prompt and generated, as in " + example
	for _, x := range []struct {
		what  string
		names names
	}{{"time", f.at}, {"prompt tokens", f.prompt}, {"generated tokens", f.gen}} {
		if r.get(x.names) != nil {
			continue
		}
		if none = append(none, x.what); f.what != "" {
			as = fmt.Sprintf(": %s has %s in each", f.what, strings.Fields(string(x.names))[0])
		}
	}
	return strings.Join(none, ", ") + as
}

// Records as they can be written.
const (
	inJSON = `{"time": 0.5, "prompt": 1024, "generated": 128}`
	inCSV  = "time,prompt,generated"
)

// mostTokens is more than the context of any model.
const mostTokens = 1 << 26

func tokens(key, text string) (int, error) {
	v, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	switch {
	case err != nil || !(v >= 0) || v != math.Trunc(v):
		return 0, fmt.Errorf("%.60s: %.40q is no number of tokens: want a whole number from 0 up", key, text)
	case v > mostTokens:
		return 0, fmt.Errorf("%.60s: %.40s tokens are more than a prompt or an answer can have: want at most %d", key, text, mostTokens)
	}
	return int(v), nil
}

// number is how a time is written that is no date.
const number = "a number"

// moment reads a time: a number of the unit that was decided, or a date with a time. All of a trace are of one kind.
func (t *Trace) moment(key, text string) (float64, error) {
	text = strings.TrimSpace(text)
	v, err := strconv.ParseFloat(text, 64)
	kind := number
	if err != nil {
		if v, kind = date(text); kind == "" {
			return 0, fmt.Errorf("%.60s: %.40q is no time: want a number, or a date as 2023-11-16 18:15:46.68", key, text)
		}
	}
	if t.times.kind == "" {
		t.times.kind, t.times.key = kind, key
	}
	switch seconds := v * units[t.Unit]; {
	case kind != t.times.kind:
		return 0, fmt.Errorf("%.60s: %.40q is %s, and the times before it are each %s: write all of them in one way", key, text, kind,
			t.times.kind)
	case key != t.times.key && stated(key) != stated(t.times.key):
		return 0, fmt.Errorf("%.60s: the name of the times before it says another unit: give all of them in one", key)
	case kind != number:
		return v, nil
	case !(math.Abs(seconds) < mostMoment):
		return 0, fmt.Errorf("%.60s: %.40q is no time in %s%s", key, text, unitNames[t.Unit], since1970(v))
	case t.times.whole && v != math.Trunc(v):
		return 0, fmt.Errorf("%.60s: %.40q is a fraction, and the times before it are whole milliseconds, as in %s: give all of them in one "+
			"unit", key, text, t.form.what)
	default:
		return seconds, nil
	}
}

// mostMoment is beyond any time in seconds, since 1970 or since the recording began.
const mostMoment = 1e12

// since1970 says in what unit a number that is too large for a time may be one since 1970.
func since1970(v float64) string {
	const from, to = 1e8, 1e10 // from 1973 to 2286
	for _, unit := range []string{"ms", "us", "ns"} {
		if seconds := v * units[unit]; seconds > from && seconds < to {
			return fmt.Sprintf(", and may be one in %s since 1970", unitNames[unit])
		}
	}
	return ""
}

// date reads a date with a time, as seconds, and says of what kind it is; "" for what is no date.
func date(text string) (seconds float64, kind string) {
	for _, x := range []struct{ layout, kind string }{
		{"2006-01-02 15:04:05.999999999", "a date"}, {"2006-01-02 15:04:05.999999999-07:00", "a date with a time zone"},
		{time.RFC3339Nano, "a date with a time zone"},
	} {
		if when, err := time.Parse(x.layout, text); err == nil {
			return float64(when.Unix()) + float64(when.Nanosecond())*1e-9, x.kind
		}
	}
	return 0, ""
}
