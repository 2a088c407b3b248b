package measure

import (
	"encoding/json"
	"testing"

	"llmprof/internal/testkit"
	"llmprof/internal/testkit/schematest"
	"llmprof/measure/result"
)

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
	if err := schematest.Of(t, result.Schema, result.Result{}).Check(string(text)); err != nil {
		t.Errorf("%#v", err)
	}
}
