package models_test

import (
	"reflect"
	"testing"

	"llmprof"
	"llmprof/models"
)

// A model that is found by its line is the one that the whole table has.
func TestFind(t *testing.T) {
	table, err := models.Load(llmprof.ModelsJSON)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range table.Names() {
		want, err := table.Model(name)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := models.Find(llmprof.ModelsJSON, name); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: found %v, %v", name, got, err)
		}
	}
	for _, name := range []string{"", "llama3.1", `llama3.1-8b","aliases":["x`, "meta-llama/Llama-3.1-8B", "Llama3.1-8B"} {
		if got, err := models.Find(llmprof.ModelsJSON, name); got != nil || err != nil {
			t.Errorf("%s: found %v, %v, want nothing", name, got, err)
		}
	}
	for _, bad := range []string{"[\n{\"name\":\"a\",\"config\":{}}\n]", "[\n{\"name\":\"a\",\"config\"\n]"} {
		if got, err := models.Find([]byte(bad), "a"); err == nil {
			t.Errorf("%s: found %v", bad, got)
		}
	}
}
