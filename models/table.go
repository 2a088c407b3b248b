package models

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"llmprof/internal/concurrent"
)

// A Table is the built-in models by name. It builds the one that is asked for:
// to build all of them would take longer than the command may.
type Table struct {
	entries []entry
	byName  map[string]int // folded names and aliases
}

// An entry is one model as the table's file has it.
type entry struct {
	Name    string   `json:"name"`
	Aliases []string `json:"aliases"`
	Source  string   `json:"source"`
	Published
	EncoderParams int64 `json:"tower_params,omitempty"` // parameters of vision and audio encoders, which params leaves out
	// Quantized are repositories of the hub with quantized weights of the model, whose names say how.
	Quantized []string        `json:"quantized,omitempty"`
	Config    json.RawMessage `json:"config"`
}

// Load reads a table and checks all of it but the shapes, which Model checks
// when it builds one.
func Load(data []byte) (*Table, error) {
	t := &Table{byName: make(map[string]int)}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields() // a misspelt field is not an absent one
	if err := d.Decode(&t.entries); err != nil {
		return nil, fmt.Errorf("the table of models, byte %d: %w", d.InputOffset(), err)
	}
	if rest := bytes.TrimSpace(data[d.InputOffset():]); len(rest) > 0 {
		return nil, fmt.Errorf("the table of models, byte %d: %.20q after its end", d.InputOffset(), rest)
	}
	for i := range t.entries {
		if err := t.add(i); err != nil {
			return nil, fmt.Errorf("the table of models, entry %d %q: %w", i+1, t.entries[i].Name, err)
		}
	}
	t.addShort()
	return t, nil
}

// addShort lets a hub id be named without its organization, unless that names
// a model already.
func (t *Table) addShort() {
	for i, e := range t.entries {
		for _, alias := range e.Aliases {
			if _, name, ok := strings.Cut(alias, "/"); ok && !t.Has(name) {
				t.byName[fold(name)] = i
			}
		}
	}
}

// add checks entry i and enters its names.
func (t *Table) add(i int) error {
	e := &t.entries[i]
	switch {
	case e.Name == "":
		return errors.New("has no name")
	case e.Source == "":
		return errors.New("has no source")
	case len(e.Config) == 0:
		return errors.New("has no config")
	}
	if err := e.check(); err != nil {
		return err
	}
	for j, name := range append([]string{e.Name}, e.Aliases...) {
		key := fold(name)
		if key == "" {
			return fmt.Errorf("alias %d is empty", j)
		}
		if other, taken := t.byName[key]; taken && (other != i || j == 0) {
			return fmt.Errorf("%q is a name of %q already", name, t.entries[other].Name)
		}
		t.byName[key] = i
	}
	return nil
}

// fold makes names equal that differ in case, '-', '_' and spaces only.
func fold(name string) string {
	return strings.Map(func(r rune) rune {
		if r == '-' || r == '_' || r == ' ' {
			return -1
		}
		return r
	}, strings.ToLower(name))
}

// Names lists the models in the order of the table.
func (t *Table) Names() []string {
	names := make([]string, len(t.entries))
	for i, e := range t.entries {
		names[i] = e.Name
	}
	return names
}

// Has reports whether the table has a model of that name or alias.
func (t *Table) Has(name string) bool {
	_, ok := t.byName[fold(name)]
	return ok
}

// Lookup is the table's own name of the model with that name or alias.
func (t *Table) Lookup(name string) (string, bool) {
	i, ok := t.byName[fold(name)]
	if !ok {
		return "", false
	}
	return t.entries[i].Name, true
}

// Aliases lists the other names of a model; of a hub id, the part after the
// slash is one too.
func (t *Table) Aliases(name string) []string {
	i, ok := t.byName[fold(name)]
	if !ok {
		return nil
	}
	return append([]string(nil), t.entries[i].Aliases...)
}

// Config is the config.json of that name or alias as the table has it: the
// fields that a shape needs, in Hugging Face's names.
func (t *Table) Config(name string) (json.RawMessage, error) {
	i, ok := t.byName[fold(name)]
	if !ok {
		return nil, t.unknown(name)
	}
	return append(json.RawMessage(nil), t.entries[i].Config...), nil
}

// Model builds the model of that name or alias, and fails if its shape does not
// reproduce the published count.
func (t *Table) Model(name string) (*Model, error) {
	i, ok := t.byName[fold(name)]
	if !ok {
		return nil, t.unknown(name)
	}
	return t.entries[i].build()
}

// All builds every model; the error names each that fails.
func (t *Table) All() ([]*Model, error) {
	built, errs := make([]*Model, len(t.entries)), make([]error, len(t.entries))
	concurrent.Each(len(built), func(i int) { built[i], errs[i] = t.entries[i].build() })
	return slices.DeleteFunc(built, func(m *Model) bool { return m == nil }), errors.Join(errs...)
}

// build makes the model and holds it against the published count.
func (e *entry) build() (*Model, error) {
	m, err := Read(e.Name, e.Config)
	if err != nil {
		return nil, fmt.Errorf("model %s of the table: %w", e.Name, err)
	}
	m.Source, m.Quantized = e.Source, e.Quantized
	if m.EncoderParams == 0 {
		m.countEncoders(e.EncoderParams)
	}
	if e.EncoderParams != m.EncoderParams && e.EncoderParams > 0 {
		return nil, fmt.Errorf("model %s of the table: its encoders have %d parameters, published are %d",
			e.Name, m.EncoderParams, e.EncoderParams)
	}
	if err := e.reproduce(m.Params()); err != nil {
		return nil, fmt.Errorf("model %s of the table: %w", e.Name, err)
	}
	return m, nil
}

// Published is a model's number of parameters as its publisher states it, which
// the shape must reproduce: to the last one if Exact, and to half a unit of the
// last digit of Text otherwise.
type Published struct {
	Params int64  `json:"params"`
	Exact  bool   `json:"params_exact"`
	Text   string `json:"params_published,omitempty"` // a rounded count: "46.7B"
	Source string `json:"params_source"`
}

// check reports whether the statement is complete and agrees with itself.
func (p Published) check() error {
	switch {
	case p.Params <= 0:
		return errors.New("has no published count (params)")
	case p.Source == "":
		return errors.New("has no source of its count (params_source)")
	case p.Exact && p.Text != "":
		return errors.New("has both an exact count and a rounded one (params_published)")
	case p.Exact:
		return nil
	}
	rounded, _, err := parseRounded(p.Text)
	if err != nil {
		return err
	}
	if rounded != p.Params {
		return fmt.Errorf("params is %d but params_published says %s", p.Params, p.Text)
	}
	return nil
}

// reproduce compares the count of a shape with the published one.
func (p Published) reproduce(params int64) error {
	diff := params - p.Params
	if p.Exact {
		if diff != 0 {
			return fmt.Errorf("its shape has %d parameters, published are %d (%s): %+d", params, p.Params, p.Source, diff)
		}
		return nil
	}
	_, unit, err := parseRounded(p.Text)
	if err != nil {
		return err
	}
	if 2*max(diff, -diff) > unit {
		return fmt.Errorf("its shape has %d parameters, published are %s (%s): %+d is more than rounding",
			params, p.Text, p.Source, diff)
	}
	return nil
}

// parseRounded reads a count such as "46.7B": the count, and the unit of its
// last digit.
func parseRounded(text string) (count, unit int64, err error) {
	const most = 12 // digits, well within an int64 at any scale
	bad := fmt.Errorf("params_published %q is not a count such as \"46.7B\" or \"560M\"", text)
	if text == "" {
		return 0, 0, bad
	}
	switch text[len(text)-1] {
	case 'M':
		unit = 1e6
	case 'B':
		unit = 1e9
	case 'T':
		unit = 1e12
	default:
		return 0, 0, bad
	}
	whole, fraction, _ := strings.Cut(text[:len(text)-1], ".")
	digits := whole + fraction
	if len(digits) > most || strings.ContainsAny(digits, "+-_") {
		return 0, 0, bad
	}
	for range fraction {
		if unit%10 != 0 {
			return 0, 0, bad
		}
		unit /= 10
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n <= 0 || n > 1e6*1e12/unit {
		return 0, 0, bad
	}
	return n * unit, unit, nil
}
