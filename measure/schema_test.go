package measure

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"llmprof/internal/testkit"
	"llmprof/measure/result"
)

// measureSchema is that of results.
var measureSchema = sync.OnceValues(func() (*jsonschema.Schema, error) {
	return jsonschema.NewCompiler().Compile(filepath.Join("..", "docs", "schema", "measure.v1.json"))
})

// keepsSchema holds the JSON of a result to its schema, whatever engine it is of and
// however the run ended. What a store adds to a result is put in where it is missing.
func keepsSchema(t *testing.T, r *result.Result) {
	t.Helper()
	own := *r
	own.ID = "a-test"
	whole, err := result.Complete(&own)
	testkit.Must(t, err)
	text, err := json.Marshal(whole)
	testkit.Must(t, err)
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	testkit.Must(t, err)
	s, err := measureSchema()
	testkit.Must(t, err)
	if err := s.Validate(value); err != nil {
		t.Errorf("%#v", err)
	}
}
