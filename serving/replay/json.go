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
	lists int // that are open where records are read
}

func newDocument(from *text) *document {
	from.json = true
	d := &document{from: from, d: json.NewDecoder(from)}
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
		names = append(names, plain(fmt.Sprint(key)))
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
		fileerror.Excerpt(written(first[:min(len(first), 1000)]), 1, len(first)))
}

// written is JSON without the blanks that stand before commas.
func written(json []byte) string { return strings.ReplaceAll(string(json), " ,", ",") }

// line is where the reading is.
func (d *document) line() int { return d.from.line(d.d.InputOffset()) }

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
	f := field{key: above + key.(string), name: aboveName + plain(fmt.Sprint(key)), value: written(value)}
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

// takers take the values at paths of an object: ".name" for a field, and ".[]" for each item of a list.
type takers map[string]func() error

// lead reports whether values are taken at a path or below it.
func (t takers) lead(path string) bool {
	for to := range t {
		if to == path || strings.HasPrefix(to, path+".") {
			return true
		}
	}
	return false
}

// walk reads the value at a path. What nobody takes is passed over.
func (d *document) walk(path string, takes takers) error {
	if take := takes[path]; take != nil {
		return take()
	}
	if !takes.lead(path) {
		return d.skip()
	}
	open, err := d.token()
	if err != nil || open == nil {
		return err
	}
	item := path + ".[]"
	switch list := takes.lead(item); {
	case list && open == json.Delim('['):
		for err == nil && d.d.More() {
			err = d.walk(item, takes)
		}
	case !list && open == json.Delim('{'):
		err = d.members(path, takes)
	default:
		return fmt.Errorf("line %d: %.40v where %s is wanted", d.line(), open, map[bool]string{true: "a list", false: "an object"}[list])
	}
	if err == nil {
		_, err = d.token()
	}
	return err
}

// members reads the fields of an object that was opened. Two of one name are a mistake, since either may be meant.
func (d *document) members(path string, takes takers) error {
	seen := map[string]json.Token{}
	for d.d.More() {
		key, err := d.token()
		if err != nil {
			return err
		}
		below := path + "." + plain(fmt.Sprint(key))
		if first, again := seen[below]; again && takes.lead(below) {
			return fmt.Errorf("line %d: %.60q and %.60q are one name: leave one out", d.line(), first, key)
		}
		seen[below] = key
		if err := d.walk(below, takes); err != nil {
			return err
		}
	}
	return nil
}

// results gathers the requests of the results of benchmarks, of which a file may have several.
func (t *Trace) results(d *document) error {
	all := &columns{}
	takes := takers{"." + t.form.list: func() error { return t.listed(d) }}
	if t.form.columns {
		takes = t.taking(d, all)
	}
	for {
		d.from.renew()
		if !d.d.More() {
			if _, err := d.d.Token(); !errors.Is(err, io.EOF) {
				return d.broken(err)
			}
			t.inOrder()
			return nil
		}
		line := d.line()
		err := d.walk("", takes)
		if err == nil && t.form.columns {
			err = t.run(all, line)
		}
		if err != nil {
			return err
		}
	}
}

// listed takes a record of a list, or those of the list that it has in place of a request, as the subagents of an agent have.
func (t *Trace) listed(d *document) error {
	open, err := d.token()
	switch {
	case err != nil:
		return err
	case open != json.Delim('{'):
		return fmt.Errorf("line %d: %.40v where a request begins: want an object", d.line(), open)
	}
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

// columns are results that have a list for each field.
type columns struct {
	at          []float64
	prompt, gen []int32
	lasted      float64
}

// taking takes the columns of results.
func (t *Trace) taking(d *document, c *columns) takers {
	counts := func(name string, to *[]int32) func() error {
		return d.listed(func(text string) error {
			n, err := tokens(name, text)
			*to = append(*to, int32(n))
			return err
		})
	}
	return takers{
		"." + t.form.at[0] + ".[]": d.listed(func(text string) error {
			v, err := t.moment("start_times", text)
			c.at = append(c.at, v)
			return err
		}),
		"." + t.form.prompt[0] + ".[]": counts("input_lens", &c.prompt),
		"." + t.form.gen[0] + ".[]":    counts("output_lens", &c.gen),
		".duration": func() error {
			var value json.RawMessage
			if err := d.d.Decode(&value); err != nil {
				return d.broken(err)
			}
			if json.Unmarshal(value, &c.lasted) != nil { // It only orders runs.
				c.lasted = 0
			}
			return nil
		},
	}
}

// mostListed bounds the lists of numbers of a file, each of which has one name.
const mostListed = 1 << 22

// listed takes the numbers of a list one by one.
func (d *document) listed(add func(text string) error) func() error {
	n := 0
	var value json.RawMessage // It takes less time than a token.
	return func() error {
		d.from.renew()
		if err := d.d.Decode(&value); err != nil {
			return d.broken(err)
		}
		if n++; n > mostListed {
			return fmt.Errorf("line %d: lists of more than %d numbers, the most that are read", d.line(), mostListed)
		}
		if err := add(string(bytes.Trim(value, `"`))); err != nil {
			return fmt.Errorf("line %d: %w", d.line(), err)
		}
		return nil
	}
}

// run takes the requests of results that begin in a line, and empties the columns.
func (t *Trace) run(c *columns, line int) error {
	n, prompts, gens := len(c.at), len(c.prompt), len(c.gen)
	switch {
	case n == 0 && prompts == 0 && gens == 0:
		return t.form.refused()
	case n == 0 || prompts == 0 || gens == 0:
		return t.form.without(line, n, prompts)
	case n != prompts || n != gens:
		return fmt.Errorf("line %d: %s with %d start_times, %d input_lens and %d output_lens: want as many of each", line, t.form.what, n,
			prompts, gens)
	}
	shift := t.follow(c.at, c.lasted)
	for i, at := range c.at {
		if err := t.keep(row{at: at + shift, prompt: int(c.prompt[i]), gen: int(c.gen[i])}); err != nil {
			return err
		}
	}
	*c = columns{at: c.at[:0], prompt: c.prompt[:0], gen: c.gen[:0]}
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
	if t.sorted.runs++; t.sorted.runs > 1 {
		shift = max(t.sorted.ended-begin, 0)
	}
	t.sorted.ended = shift + max(end, begin+lasted)
	return shift
}
