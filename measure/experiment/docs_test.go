package experiment

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestDocumented checks that docs/experiments.md names every key of a file, and
// that the example in it is one.
func TestDocumented(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("..", "..", "docs", "experiments.md"))
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	for _, key := range append(Settings(), frameKeys()...) {
		if !strings.Contains(text, "| `"+key+"`") && !strings.Contains(text, ", `"+key+"`") {
			t.Errorf("docs/experiments.md does not say what %s is", key)
		}
	}
	_, rest, _ := strings.Cut(text, "```toml\n")
	example, _, _ := strings.Cut(rest, "```")
	e := mustLoad(t, "example.toml", "-- example.toml --\n"+example+"-- h200.toml --\nrandom_weights = true\n")
	if len(e.Points) != 3*3-2+1 || e.Cycles != 3 || e.Gap != 10 || !e.Points[7].RandomWeights || e.Points[7].Batch != 64 {
		t.Errorf("%+v", e)
	}
}
