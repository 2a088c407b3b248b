package measure

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"llmprof/measure/result"
)

// measureSchema is that of results.
var measureSchema = sync.OnceValues(func() (*jsonschema.Schema, error) {
	return jsonschema.NewCompiler().Compile(filepath.Join("..", "schema", "measure.v1.json"))
})

// keepsSchema holds the JSON of a result to its schema, whatever engine it is of and
// however the run ended. What a store adds to a result is put in where it is missing.
func keepsSchema(t *testing.T, r *result.Result) {
	t.Helper()
	own := *r
	own.ID = "a-test"
	whole, err := result.Complete(&own)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(whole)
	if err != nil {
		t.Fatal(err)
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	s, err := measureSchema()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Validate(value); err != nil {
		t.Errorf("%#v", err)
	}
}
