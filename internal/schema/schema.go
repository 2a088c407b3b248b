// Package schema makes JSON Schemas of documents from the Go types that are written: keys and types from the fields,
// descriptions from their comments, bounds from their tags "jsonschema".
package schema

import (
	"cmp"
	"encoding"
	"encoding/json"
	"fmt"
	"io/fs"
	"reflect"
	"slices"
	"strings"

	"github.com/invopop/jsonschema"
)

// An enumeration is a type that lists the texts of its values.
type enumeration interface{ Texts() []string }

// A maker makes one schema.
type maker struct {
	jsonschema.Reflector
	structs map[string]reflect.Type // structs by their names in $defs
}

// Of is the schema of documents of a form, which are of one of the types of values. Descriptions are from the comments of the sources,
// which lie in the folders of their packages; without sources there are none.
func Of(form string, sources fs.FS, values ...any) ([]byte, error) {
	m := &maker{structs: map[string]reflect.Type{}}
	m.Anonymous, m.Mapper, m.Namer = true, basic, m.name
	if sources != nil {
		all, err := commentsOf(sources)
		if err != nil {
			return nil, err
		}
		m.LookupComment = all.of
	}
	whole := &jsonschema.Schema{Definitions: jsonschema.Definitions{}}
	for _, v := range values {
		m.FieldNameTag = nameTag(reflect.TypeOf(v))
		one := m.Reflect(v)
		for name, d := range one.Definitions {
			whole.Definitions[name] = d
		}
		if root := one.Definitions[strings.TrimPrefix(one.Ref, "#/$defs/")]; root != nil {
			key, _ := root.Properties.Get("schema")
			key.Const = form
		}
		one.Version, one.Definitions = "", nil
		whole.AllOf = append(whole.AllOf, one)
	}
	if len(values) > 1 {
		whole.AllOf, whole.OneOf = nil, whole.AllOf
	}
	for name, t := range m.structs {
		if d := whole.Definitions[name]; d != nil && d.Properties != nil {
			amend(t, d)
		}
	}
	whole.Version, whole.ID, whole.Title = jsonschema.Version, jsonschema.ID(form), strings.ReplaceAll(form, ".", " ")
	text, err := json.MarshalIndent(whole, "", "  ")
	return append(text, '\n'), err
}

// nameTag is the tag that has the keys of a type: "parquet" of rows, which are written as Parquet too, else "json".
func nameTag(t reflect.Type) string {
	if t.Kind() == reflect.Slice {
		for _, f := range reflect.VisibleFields(t.Elem()) {
			if f.Tag.Get("parquet") != "" {
				return "parquet"
			}
		}
	}
	return "json"
}

// name is the name of a struct in $defs, which tells those of two packages apart.
func (m *maker) name(t reflect.Type) string {
	if t.Kind() != reflect.Struct {
		return ""
	}
	name := strings.TrimSuffix(t.String(), "JSON")
	m.structs[name] = t
	return name
}

// basic is the schema of what is no list, map or struct. Counts and quantities are 0 at least unless a tag says otherwise.
func basic(t reflect.Type) *jsonschema.Schema {
	if x, ok := reflect.Zero(t).Interface().(enumeration); ok {
		s := &jsonschema.Schema{Type: "string"}
		for _, text := range x.Texts() {
			s.Enum = append(s.Enum, text)
		}
		return s
	}
	switch kind := t.Kind(); {
	case kind != reflect.Struct && t.Implements(reflect.TypeFor[encoding.TextMarshaler]()):
		return &jsonschema.Schema{Type: "string"}
	case kind >= reflect.Int && kind <= reflect.Uint64:
		return &jsonschema.Schema{Type: "integer", Minimum: "0"}
	case kind == reflect.Float64 && t.PkgPath() != "":
		return &jsonschema.Schema{Type: "number", Minimum: "0"}
	}
	return nil
}

// amend says of the properties of a struct what the library does not see: pointers that are written in any case may be null unless their
// tag is "required", and so may columns of rows that are optional; keys with the tag "late", or in a struct with it, are not in all
// files, a whole number may be below 0 where its tag is "signed", and a bound that another one implies is left out.
func amend(t reflect.Type, of *jsonschema.Schema) {
	for _, f := range reflect.VisibleFields(t) {
		key, rest, _ := strings.Cut(cmp.Or(f.Tag.Get("json"), f.Tag.Get("parquet")), ",")
		tag := f.Tag.Get("jsonschema")
		null := f.Type.Kind() == reflect.Pointer && !strings.HasPrefix(rest, "omit") && tag != "required" || strings.HasSuffix(rest, "optional")
		if of, ok := strings.CutPrefix(tag, "nullable="); ok { // an embedded struct has the field
			key, null = of, true
		}
		p, ok := of.Properties.Get(key)
		if !ok {
			continue
		}
		if p.ExclusiveMinimum != "" || tag == "signed" {
			p.Minimum = ""
		}
		if f.Tag.Get("late")+t.Field(f.Index[0]).Tag.Get("late") != "" {
			of.Required = slices.DeleteFunc(of.Required, func(name string) bool { return name == key })
		}
		if null {
			about := p.Description
			p.Description = ""
			of.Properties.Set(key, &jsonschema.Schema{OneOf: []*jsonschema.Schema{p, {Type: "null"}}, Description: about})
		}
	}
}

// Forms are the documents that there are: of each form the types of its documents.
type Forms map[string][]any

// Names are the names of the documents, without versions.
func (f Forms) Names() []string {
	var names []string
	for form := range f {
		names = append(names, unversioned(form))
	}
	slices.Sort(names)
	return names
}

// unversioned is the name of a form without its version: "estimate" of "llmprof.estimate/v1".
func unversioned(form string) string {
	name, _, _ := strings.Cut(strings.TrimPrefix(form, "llmprof."), "/")
	return name
}

// Named is the schema of the document of a name, which may have its version.
func (f Forms) Named(name string, sources fs.FS) ([]byte, error) {
	for form, types := range f {
		if form == name || unversioned(form) == name {
			return Of(form, sources, types...)
		}
	}
	return nil, fmt.Errorf("no document is called %.40q: want %s", name, strings.Join(f.Names(), ", "))
}
