package replay

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"llmprof/internal/fileerror"
)

// A document is the records of JSON that are not within another one: objects one after the other or in lists.
type document struct {
	values
	list bool // a list has begun
}

// next reads the next record.
func (d *document) next() (*record, error) {
	for {
		switch c := d.peek(); {
		case c == 0 && !d.list:
			return nil, cmp.Or(d.err, io.EOF)
		case c == '[' && !d.list, c == ']' && d.list:
			d.list = !d.list
			d.pass(c)
		case c == ',' && d.list:
			d.pass(c)
		default:
			return d.record()
		}
	}
}

// words are those that Python writes for numbers JSON lacks, besides the strings of a text, in which they may stand.
var words = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|-?\bInfinity\b|\bNaN\b`)

// record reads an object.
func (v *values) record() (*record, error) {
	if v.peek() != '{' {
		v.other("a request begins: want objects, as " + inJSON)
	}
	r := &record{line: v.line}
	raw := v.value(mostRecord)
	if !json.Valid(raw) {
		raw = words.ReplaceAllFunc(raw, func(word []byte) []byte {
			if word[0] == '"' {
				return word
			}
			return strconv.AppendQuote(nil, string(word))
		})
		e := new(json.SyntaxError) // It may be why the record has no end.
		if errors.As(json.Unmarshal(raw, new(json.RawMessage)), &e) && (v.err == nil || int(e.Offset) < len(raw)) {
			at := max(e.Offset-1, 0)
			rest, _, _ := bytes.Cut(raw[at:], []byte("\n"))
			return nil, fmt.Errorf("line %d: not JSON: %s:\n%s", r.line+bytes.Count(raw[:at], []byte("\n")), fileerror.Short(e.Error()),
				fileerror.Excerpt(string(rest[:min(len(rest), 1000)]), 1, len(rest)))
		}
	}
	if v.err != nil {
		return nil, v.err
	}
	return r, r.read(&values{b: bytes.NewReader(raw), line: r.line}, field{}, 0)
}

// mostNested is how deep fields of use are within others, and mostListed how many numbers a list has.
const (
	mostNested = 3
	mostListed = 1 << 22
)

// read adds the fields of an object, which is the record or a field of it.
func (r *record) read(in *values, above field, depth int) error {
	in.fields(func(key string) {
		f := field{key: above.key + key, name: above.name + plain(key)}
		c := in.peek()
		f.line = in.line
		value := in.value(mostRecord)
		f.value = string(value)
		switch {
		case in.err != nil:
			return
		case c == '"':
			in.fail(json.Unmarshal(value, &f.value))
		case c == '{' && depth < mostNested:
			in.fail(r.read(&values{b: bytes.NewReader(value), line: f.line}, field{key: f.key + ".", name: f.name + "."}, depth+1))
			f.value = "{...}"
		}
		in.fail(r.add(f))
	})
	return in.err
}

// topOf tells which fields the object has that a file begins with, as far as its beginning has them.
func topOf(head []byte) func(name string) bool {
	all := map[string]bool{}
	v := &values{b: bytes.NewReader(head)}
	v.fields(func(key string) {
		all[plain(key)] = true
		v.value(0)
	})
	return func(name string) bool { return all[name] }
}

// walk lets take read the values to which a path leads: names of fields, and items for those of a list.
func (v *values) walk(path []string, take func()) {
	found := ""
	switch {
	case len(path) == 0:
		take()
	case v.peek() == 'n': // It is null.
		v.value(0)
	case path[0] == items:
		v.list(func() { v.walk(path[1:], take) })
	default:
		v.fields(func(key string) {
			switch {
			case plain(key) != path[0]:
				v.value(0)
			case found != "":
				v.fail(fmt.Errorf("line %d: %.60q and %.60q are one name: leave one out", v.line, found, key))
			default:
				found = key
				v.walk(path[1:], take)
			}
		})
	}
}

const items = "[]"

// results gathers the requests of the results of benchmarks, of which a file may have several.
func (t *Trace) results(v *values) error {
	for v.peek() != 0 {
		if !t.form.columns {
			v.walk(strings.Split(t.form.list, "."), func() { v.fail(t.listed(v)) })
			continue
		}
		v.fail(t.run(v))
	}
	return v.err
}

// listed takes a record of a list, or those of the list that it has in place of a request, as the subagents of an agent have.
func (t *Trace) listed(v *values) error {
	r, err := v.record()
	if err != nil {
		return err
	}
	if within := r.get("requests"); within != nil && r.get(t.form.prompt) == nil {
		return t.all((&document{values: values{b: strings.NewReader(within.value), line: within.line}}).next)
	}
	return t.gather(r)
}

// run takes the requests of the results of a benchmark that have a list for each field. Its other fields may be long and get no values.
func (t *Trace) run(v *values) error {
	r, lists := &record{line: v.line}, map[names][]float64{}
	v.fields(func(key string) {
		f := field{key: key, name: plain(key)}
		switch name := names(f.name); {
		case name == "duration":
			f.value = string(v.value(mostRecord))
		case !slices.Contains([]names{t.form.at, t.form.prompt, t.form.gen}, name) || v.peek() == 'n': // It is null.
			v.value(0)
		default:
			lists[name] = t.numbers(v, key, name == t.form.at)
		}
		v.fail(r.add(f))
	})
	if v.err != nil {
		return v.err
	}
	at, prompts, gens := lists[t.form.at], lists[t.form.prompt], lists[t.form.gen]
	switch lacks := t.lacks(lists); {
	case len(at)+len(prompts)+len(gens) == 0:
		return t.form.refused()
	case lacks != "":
		return fmt.Errorf("line %d: %s without %s: %s", r.line, t.form.what, lacks, t.form.available)
	case len(at) != len(prompts) || len(at) != len(gens):
		return fmt.Errorf("line %d: %s with %d start_times, %d input_lens and %d output_lens: want as many of each", r.line, t.form.what,
			len(at), len(prompts), len(gens))
	}
	shift := t.follow(at, r)
	for i, at := range at {
		w := row{at: at + shift, prompt: int(prompts[i]), gen: int(gens[i]), line: r.line}
		if err := t.keep(w); err != nil {
			return err
		}
	}
	return nil
}

// numbers reads a list of times or of tokens.
func (t *Trace) numbers(v *values, key string, time bool) (list []float64) {
	v.list(func() {
		n, err := t.number(time, key, string(bytes.Trim(v.value(mostRecord), `"`)))
		switch list = append(list, n); {
		case err != nil:
			v.fail(broken(v.line, err))
		case len(list) > mostListed:
			v.fail(fmt.Errorf("line %d: a list of more than %d numbers, the most that are read", v.line, mostListed))
		}
	})
	return list
}

// lacks names the first list that a run has not.
func (t *Trace) lacks(lists map[names][]float64) string {
	switch {
	case len(lists[t.form.at]) == 0:
		return "start_times, the times of arrival"
	case len(lists[t.form.prompt]) == 0:
		return "input_lens, the tokens of the prompts"
	case len(lists[t.form.gen]) == 0:
		return "output_lens, the generated tokens"
	}
	return ""
}

// number reads one of a list of times or of tokens.
func (t *Trace) number(time bool, key, text string) (float64, error) {
	if time {
		return t.moment(key, text)
	}
	n, err := tokens(key, text)
	return float64(n), err
}

// follow puts a run of a benchmark behind those that the file has before it: their clocks may have begun anew. It
// gives what its times are later by.
func (t *Trace) follow(at []float64, r *record) (shift float64) {
	begin, end := slices.Min(at), slices.Max(at)
	if t.sorted.runs++; t.sorted.runs > 1 {
		shift = max(t.sorted.ended-begin, 0)
	}
	if f := r.get("duration"); f != nil {
		lasted, _ := strconv.ParseFloat(f.value, 64) // It only orders runs.
		end = max(end, begin+lasted)
	}
	t.sorted.ended = shift + end
	return shift
}
