package plots

import (
	"testing"

	"llmprof/analytic/breakdown"
)

// Every operator of a report belongs to a node, in its own layer.
func TestGraphDocumentOperators(t *testing.T) {
	for _, model := range []string{"deepseek-v3", "nemotron-h-8b", "llama2-70b"} {
		c := testCase(t, model, "h200", 8, 8)
		r, err := breakdown.Explain(c)
		if err != nil {
			t.Fatal(err)
		}
		d, err := DocumentGraph(c, &r)
		if err != nil {
			t.Fatal(err)
		}
		layers := map[[2]string]map[string]bool{}
		for _, g := range d.Groups {
			for _, n := range g.Nodes {
				for _, o := range n.Operators {
					if layers[o] == nil {
						layers[o] = map[string]bool{}
					}
					layers[o][g.Title] = true
				}
			}
		}
		for _, o := range append(r.PrefillOps, r.DecodeOps...) {
			if n := len(layers[[2]string{o.Layer, o.Name}]); n != 1 {
				t.Errorf("%s: %s of %q stands in %d groups, want one", model, o.Name, o.Layer, n)
			}
		}
	}
}
