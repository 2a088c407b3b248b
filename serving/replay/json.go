package replay

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// next reads the next record of those that are not within another one: objects one after the other or in lists.
func (v *values) next() (*record, error) {
	for {
		kind := v.PeekKind()
		if kind != 0 && kind != ']' && (kind != '[' || v.StackDepth() > 0) {
			return v.record()
		}
		if _, err := v.ReadToken(); err != nil {
			return nil, v.wrong(err)
		}
	}
}

// record reads an object.
func (v *values) record() (*record, error) {
	if v.PeekKind() != '{' {
		return nil, v.wrong(v.other("a request begins: want objects, as " + inJSON))
	}
	r := &record{line: v.line()}
	v.in.left, v.in.words = mostRecord, false
	err := v.wrong(v.read(r, field{}, 0))
	v.in.left, v.in.words = mostWord, true
	return r, err
}

// mostNested is how deep fields of use are within others, and mostListed how many numbers a list has.
const (
	mostNested = 3
	mostListed = 1 << 22
)

// read adds the fields of an object, which is the record or a field of it.
func (v *values) read(r *record, above field, depth int) error {
	return v.fields(func(key string) (err error) {
		f := field{key: above.key + key, name: above.name + plain(key)}
		switch kind := v.PeekKind(); {
		case kind == '{' && depth < mostNested:
			f.value = "{...}"
			err = v.read(r, field{key: f.key + ".", name: f.name + "."}, depth+1)
		case kind == '{' || kind == '[':
			var value jsontext.Value
			f.line = v.line()
			value, err = v.ReadValue()
			f.value = string(value)
		default:
			var value jsontext.Token
			value, err = v.ReadToken()
			f.value = value.String()
		}
		if err != nil {
			return err
		}
		return r.add(f)
	})
}

// topOf tells which fields the object has that a file begins with, as far as its beginning has them.
func topOf(head []byte) func(name string) bool {
	all, v := map[string]bool{}, newValues(bytes.NewReader(head), 1)
	_ = v.fields(func(key string) error { // The beginning may end anywhere.
		all[plain(key)] = true
		return v.SkipValue()
	})
	return func(name string) bool { return all[name] }
}

// walk lets take read the values to which a path leads: names of fields, and items for those of a list.
func (v *values) walk(path []string, take func() error) error {
	found := ""
	switch {
	case len(path) == 0:
		return take()
	case v.PeekKind() == 'n': // It is null.
		return v.SkipValue()
	case path[0] == items:
		return v.list(func() error { return v.walk(path[1:], take) })
	}
	return v.fields(func(key string) error {
		switch {
		case plain(key) != path[0]:
			return v.SkipValue()
		case found != "":
			return fmt.Errorf("line %d: %.60q and %.60q are one name: leave one out", v.line(), found, key)
		}
		found = key
		return v.walk(path[1:], take)
	})
}

const items = "[]"

// results gathers the requests of the results of benchmarks, of which a file may have several.
func (t *Trace) results(v *values) (err error) {
	path := strings.Split(t.form.list, ".")
	for err == nil && v.PeekKind() != 0 {
		if t.form.columns {
			err = t.run(v)
		} else {
			err = v.walk(path, func() error { return t.listed(v) })
		}
	}
	if err == nil {
		_, err = v.ReadToken()
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return v.wrong(err)
}

// listed takes a record of a list, or those of the list that it has in place of a request, as the subagents of an agent have.
func (t *Trace) listed(v *values) error {
	r, err := v.record()
	if err != nil {
		return err
	}
	if within := r.get("requests"); within != nil && r.get(t.form.prompt) == nil {
		return t.all(newValues(strings.NewReader(within.value), within.line).next)
	}
	return t.gather(r)
}

// run takes the requests of the results of a benchmark that have a list for each field.
func (t *Trace) run(v *values) error {
	r, at, prompts, gens, lasted := &record{line: v.line()}, []float64(nil), []int(nil), []int(nil), 0.0
	err := v.fields(func(key string) (err error) {
		if err := r.add(field{key: key, name: plain(key)}); err != nil {
			return err
		}
		switch name, kind := names(plain(key)), v.PeekKind(); {
		case name == t.form.at && kind != 'n': // It is not null.
			at, err = numbers(v, key, t.moment)
		case name == t.form.prompt && kind != 'n':
			prompts, err = numbers(v, key, tokens)
		case name == t.form.gen && kind != 'n':
			gens, err = numbers(v, key, tokens)
		case name == "duration" && kind == '0':
			var value jsontext.Token
			value, err = v.ReadToken()
			lasted, _ = strconv.ParseFloat(value.String(), 64) // It only orders runs.
		default:
			err = v.SkipValue()
		}
		return err
	})
	switch {
	case err != nil:
		return err
	case len(at)+len(prompts)+len(gens) == 0:
		return t.form.refused()
	case len(at) != len(prompts) || len(at) != len(gens):
		return fmt.Errorf("line %d: %s with %d start_times, %d input_lens and %d output_lens: want as many of each: %s", r.line, t.form.what,
			len(at), len(prompts), len(gens), t.form.available)
	}
	shift := t.follow(at, lasted)
	for i, at := range at {
		w := row{at: at + shift, prompt: prompts[i], gen: gens[i], line: r.line}
		if err := t.keep(w); err != nil {
			return err
		}
	}
	return nil
}

// numbers reads a list of times or of tokens.
func numbers[T any](v *values, key string, read func(key, text string) (T, error)) (all []T, err error) {
	err = v.list(func() error {
		token, err := v.ReadToken()
		if err != nil {
			return err
		}
		n, err := read(key, token.String())
		if all = append(all, n); len(all) > mostListed {
			err = fmt.Errorf("a list of more than %d numbers, the most that are read", mostListed)
		}
		if err != nil {
			err = broken(v.line(), err)
		}
		return err
	})
	return all, err
}

// follow puts a run of a benchmark behind those that the file has before it: their clocks may have begun anew. It
// gives what its times are later by.
func (t *Trace) follow(at []float64, lasted float64) (shift float64) {
	begin := slices.Min(at)
	if t.sorted.runs++; t.sorted.runs > 1 {
		shift = max(t.sorted.ended-begin, 0)
	}
	t.sorted.ended = shift + max(slices.Max(at), begin+lasted)
	return shift
}
