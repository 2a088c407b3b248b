// Package schematest holds documents in tests to the schemas that package schema makes of their types.
package schematest

import (
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"llmprof/internal/schema"
	"llmprof/internal/testkit"
)

// A Schema is a schema that documents are held to.
type Schema struct{ compiled *jsonschema.Schema }

// Of is the schema of the form of documents of types.
func Of(t testing.TB, form string, types ...any) *Schema {
	t.Helper()
	text, err := schema.Of(form, nil, types...)
	testkit.Must(t, err)
	return Read(t, string(text))
}

// Read is the schema of a text.
func Read(t testing.TB, text string) *Schema {
	t.Helper()
	v, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	testkit.Must(t, err)
	c := jsonschema.NewCompiler()
	testkit.Must(t, c.AddResource("schema.json", v))
	s, err := c.Compile("schema.json")
	testkit.Must(t, err)
	return &Schema{s}
}

// Check says what of a document the schema does not take.
func (s *Schema) Check(text string) error {
	v, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		return err
	}
	return s.compiled.Validate(v)
}
