package replay

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"llmprof/internal/fileerror"
)

// A document reads JSON: objects one after the other, lists of them, or objects that have lists of them within.
type document struct {
	from  *text
	d     *json.Decoder
	names map[string]string // plain names of keys
	lists int               // that are open where records are read
}

func newDocument(from *text) *document {
	from.json = true
	d := &document{from: from, d: json.NewDecoder(from), names: map[string]string{}}
	d.d.UseNumber()
	from.renew()
	return d
}

// topNames are the names of the fields of the object that a file begins with, as far as its beginning has them.
func topNames(head []byte) (names []string) {
	from := text{b: bufferOf(bytes.NewReader(head))}
	d := newDocument(&from)
	if open, err := d.d.Token(); err != nil || open != json.Delim('{') {
		return nil
	}
	for d.d.More() && len(names) < mostFields {
		key, err := d.token()
		if err != nil {
			break
		}
		names = append(names, d.plain(key))
		if d.skip() != nil {
			break
		}
	}
	return names
}

// token is the next one. The file may not end before it.
func (d *document) token() (json.Token, error) {
	d.from.renew()
	token, err := d.d.Token()
	if err != nil {
		return nil, d.broken(err)
	}
	return token, nil
}

// broken says why the JSON could not be read, at the place up to which it was.
func (d *document) broken(err error) error {
	if e := new(json.SyntaxError); !errors.As(err, &e) || errors.Is(err, io.ErrUnexpectedEOF) {
		return d.from.broken(err)
	}
	line := d.line()
	rest, _ := io.ReadAll(io.LimitReader(d.d.Buffered(), mostRecord))
	trimmed := bytes.TrimLeft(rest, " \t\r\n,:")
	line += bytes.Count(rest[:len(rest)-len(trimmed)], []byte("\n"))
	first, _, _ := bytes.Cut(trimmed, []byte("\n"))
	return fmt.Errorf("line %d: not JSON: %s:\n%s", line, fileerror.Short(err.Error()),
		fileerror.Excerpt(string(first[:min(len(first), 1000)]), 1, len(first)))
}

// line is where the reading is.
func (d *document) line() int { return d.from.line(d.d.InputOffset()) }

func (d *document) plain(key json.Token) string {
	text, _ := key.(string)
	name, ok := d.names[text]
	if !ok {
		name = plain(text)
		if len(d.names) < mostFields {
			d.names[text] = name
		}
	}
	return name
}

// skip passes a value over.
func (d *document) skip() error {
	for depth := 0; ; {
		token, err := d.token()
		if err != nil {
			return err
		}
		switch token {
		case json.Delim('{'), json.Delim('['):
			depth++
		case json.Delim('}'), json.Delim(']'):
			depth--
		}
		if depth == 0 {
			return nil
		}
	}
}

// next reads the next record: an object, in a list or not.
func (d *document) next() (*record, error) {
	for {
		d.from.renew()
		token, err := d.d.Token()
		switch {
		case errors.Is(err, io.EOF) && d.lists == 0:
			return nil, io.EOF
		case err != nil:
			return nil, d.broken(err)
		}
		switch {
		case token == json.Delim('{'):
			return d.record()
		case token == json.Delim('[') && d.lists == 0:
			d.lists++
		case token == json.Delim(']'):
			d.lists--
		default:
			return nil, fmt.Errorf("line %d: %.40v where a request begins: want objects, as %s", d.line(), token, inJSON)
		}
	}
}

// record reads an object that was opened.
func (d *document) record() (*record, error) {
	r := &record{line: d.line()}
	for d.d.More() {
		key, err := d.d.Token()
		var value json.RawMessage
		if err == nil {
			err = d.d.Decode(&value)
		}
		if err != nil {
			return nil, d.broken(err)
		}
		if err := d.add(r, "", "", key, value, 0); err != nil {
			return nil, err
		}
	}
	if _, err := d.d.Token(); err != nil {
		return nil, d.broken(err)
	}
	return r, nil
}

// mostNested is how deep fields of use are within others.
const mostNested = 3

// add takes a field of a record, and those within it.
func (d *document) add(r *record, above, aboveName string, key json.Token, value json.RawMessage, depth int) error {
	f := field{key: above + key.(string), name: aboveName + d.plain(key), value: string(value)}
	switch {
	case value[0] == '"':
		if err := json.Unmarshal(value, &f.value); err != nil {
			return r.wrong("not JSON: %v", err)
		}
	case value[0] == '{' && depth < mostNested:
		within := json.NewDecoder(bytes.NewReader(value))
		_, err := within.Token()
		for err == nil && within.More() {
			var inner json.Token
			var raw json.RawMessage
			if inner, err = within.Token(); err == nil {
				err = within.Decode(&raw)
			}
			if err == nil {
				err = d.add(r, f.key+".", f.name+".", inner, raw, depth+1)
			}
		}
		if err != nil {
			return err
		}
		f.value = "{...}"
	}
	return r.add(f)
}

// walk calls each for the objects that a path leads to: names of fields, and "[]" for each item of a list.
func (d *document) walk(path []string, each func() error) error {
	open, err := d.token()
	if err != nil {
		return err
	}
	if len(path) == 0 {
		if open != json.Delim('{') {
			return fmt.Errorf("line %d: %.40v where a request begins: want an object", d.line(), open)
		}
		return each()
	}
	switch {
	case open == json.Delim('{') && path[0] != "[]":
		err = d.members(func(name string) (func() error, bool) {
			return func() error { return d.walk(path[1:], each) }, name == path[0]
		})
	case open == json.Delim('[') && path[0] == "[]":
		for err == nil && d.d.More() {
			err = d.walk(path[1:], each)
		}
	case open == nil:
		return nil
	default:
		return fmt.Errorf("line %d: %.40v where %s is wanted", d.line(), open,
			map[bool]string{true: "a list", false: "an object"}[path[0] == "[]"])
	}
	if err == nil {
		_, err = d.token()
	}
	return err
}

// members reads the fields of an object that was opened by what of gives for their names, and passes the others over.
func (d *document) members(of func(name string) (read func() error, ok bool)) error {
	seen := map[string]string{}
	for d.d.More() {
		key, err := d.token()
		if err != nil {
			return err
		}
		name := d.plain(key)
		read, ok := of(name)
		if !ok {
			if err := d.skip(); err != nil {
				return err
			}
			continue
		}
		if first, again := seen[name]; again {
			return fmt.Errorf("line %d: %.60q and %.60q are one name: leave one out", d.line(), first, key)
		}
		seen[name], _ = key.(string)
		if err := read(); err != nil {
			return err
		}
	}
	return nil
}

// results gathers the requests of the results of benchmarks, of which a file may have several.
func (t *Trace) results(d *document) error {
	var path []string
	if t.form.list != "" {
		path = strings.Split(t.form.list, ".")
	}
	for {
		d.from.renew()
		open, err := d.d.Token()
		switch {
		case errors.Is(err, io.EOF):
			t.sorted()
			return nil
		case err != nil:
			return d.broken(err)
		case open != json.Delim('{'):
			return fmt.Errorf("line %d: %.40v where the results of a benchmark begin: want an object", d.line(), open)
		}
		if t.form.columns {
			err = t.lists(d)
		} else {
			err = d.members(func(name string) (func() error, bool) {
				return func() error { return d.walk(path[1:], func() error { return t.listed(d) }) }, name == path[0]
			})
		}
		if err == nil {
			_, err = d.token()
		}
		if err != nil {
			return err
		}
	}
}

// listed takes a record of a list, or those of the list that it has in place of a request, as the subagents of an agent have.
func (t *Trace) listed(d *document) error {
	r, err := d.record()
	if err != nil {
		return err
	}
	within := r.get([]string{"requests"})
	if within == nil || r.get(t.form.at) == nil || r.get(t.form.prompt) != nil {
		return t.gather(r)
	}
	inner := newDocument(&text{b: bufferOf(strings.NewReader(within.value))})
	for {
		one, err := inner.next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = t.gather(one)
		}
		if err != nil {
			return fmt.Errorf("line %d: within it, %w", r.line, err)
		}
	}
}

// lists reads results that have a list for each field.
func (t *Trace) lists(d *document) error {
	var at []float64
	var prompt, gen []int32
	lasted := 0.0
	counts := func(name string, to *[]int32) func() error {
		return func() error {
			return d.numbers(func(text string) error {
				n, err := tokens(name, text)
				*to = append(*to, int32(n))
				return err
			})
		}
	}
	line := d.line()
	err := d.members(func(name string) (func() error, bool) {
		switch name {
		case t.form.at[0]:
			return func() error {
				return d.numbers(func(text string) error {
					v, err := t.moment("start_times", text)
					at = append(at, v)
					return err
				})
			}, true
		case "duration":
			return func() error {
				var value json.RawMessage
				if err := d.d.Decode(&value); err != nil {
					return d.broken(err)
				}
				if json.Unmarshal(value, &lasted) != nil { // It only orders runs.
					lasted = 0
				}
				return nil
			}, true
		case t.form.prompt[0]:
			return counts("input_lens", &prompt), true
		case t.form.gen[0]:
			return counts("output_lens", &gen), true
		}
		return nil, false
	})
	switch {
	case err != nil:
		return err
	case len(at) == 0 && len(prompt) == 0 && len(gen) == 0:
		return t.form.refused()
	case len(at) == 0 || len(prompt) == 0 || len(gen) == 0:
		return t.form.without(line, len(at), len(prompt))
	case len(at) != len(prompt) || len(at) != len(gen):
		return fmt.Errorf("line %d: %s with %d start_times, %d input_lens and %d output_lens: want as many of each",
			line, t.form.what, len(at), len(prompt), len(gen))
	}
	shift := t.follow(at, lasted)
	for i := range at {
		if err := t.keep(row{at: at[i] + shift, prompt: int(prompt[i]), gen: int(gen[i])}); err != nil {
			return err
		}
	}
	return nil
}

// without says which list results lack that have others, of so many times and prompts.
func (f *form) without(line, times, prompts int) error {
	lacks := "output_lens, the generated tokens"
	if times == 0 {
		lacks = "start_times, the times of arrival"
	} else if prompts == 0 {
		lacks = "input_lens, the tokens of the prompts"
	}
	return fmt.Errorf("line %d: %s without %s: %s", line, f.what, lacks, f.available)
}

// follow puts a run of a benchmark behind those that the file has before it: their clocks may have begun anew. It
// gives what its times are later by.
func (t *Trace) follow(at []float64, lasted float64) (shift float64) {
	begin, end := slices.Min(at), slices.Max(at)
	if t.runs++; t.runs > 1 {
		shift = max(t.ended-begin, 0)
	}
	t.ended = shift + max(end, begin+lasted)
	return shift
}

// mostListed bounds a list of numbers.
const mostListed = 1 << 22

// numbers reads a list of numbers.
func (d *document) numbers(each func(text string) error) error {
	open, err := d.token()
	if err != nil {
		return err
	}
	if open != json.Delim('[') {
		return fmt.Errorf("line %d: %.40v where a list is wanted", d.line(), open)
	}
	for n := 0; d.d.More(); n++ {
		token, err := d.token()
		switch {
		case err != nil:
			return err
		case n == mostListed:
			return fmt.Errorf("line %d: a list of more than %d numbers, the most that are read of one", d.line(), mostListed)
		}
		number, ok := token.(json.Number)
		if !ok {
			number = json.Number(fmt.Sprint(token))
		}
		if err := each(string(number)); err != nil {
			return fmt.Errorf("line %d: %w", d.line(), err)
		}
	}
	_, err = d.token()
	return err
}
