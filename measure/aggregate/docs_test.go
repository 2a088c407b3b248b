package aggregate

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// TestDocumented checks that docs/results.md names every key of a report.
func TestDocumented(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "results.md"))
	if err != nil {
		t.Fatal(err)
	}
	seen := map[reflect.Type]bool{}
	var walk func(reflect.Type)
	walk = func(of reflect.Type) {
		for of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice {
			of = of.Elem()
		}
		if of.Kind() != reflect.Struct || seen[of] || strings.HasSuffix(of.PkgPath(), "/result") || of.PkgPath() == "time" {
			return
		}
		seen[of] = true
		for f := range of.Fields() {
			key, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if key == "" || key == "schema" || key == "experiments" {
				continue
			}
			if doc := string(text); !strings.Contains(doc, "`"+key+"`") && !strings.Contains(doc, "."+key+"`") {
				t.Errorf("docs/results.md does not say what %s of %s is", key, of.Name())
			}
			walk(f.Type)
		}
	}
	walk(reflect.TypeFor[Report]())
}
