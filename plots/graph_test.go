package plots

import (
	"os"
	"path/filepath"
	"testing"

	"llmprof/internal/testkit"
)

// TestGraphGolden compares the graphs with the SVG and DOT in testdata, and checks that their text
// is inside and does not overlap.
func TestGraphGolden(t *testing.T) {
	for i, s := range subjects() {
		t.Run(s.model, func(t *testing.T) {
			c := testCase(t, s.model, s.gpu, s.batch, s.tp)
			r := explain(t, c)
			f, err := Graph(c, r, BothPhases)
			testkit.Must(t, err)
			checkGraph(t, c, r)
			checkSums(t, c, r)
			got, err := f.SVG()
			testkit.Must(t, err)
			if again, _ := f.SVG(); again != got {
				t.Error("a second drawing differs from the first")
			}
			if dir := os.Getenv("LOOK_AT"); dir != "" {
				look(t, f, filepath.Join(dir, s.model+"-graph.png"))
			}
			if i >= reviewed {
				return
			}
			golden(t, s.model+"-graph.svg", []byte(got))
			dot, err := GraphDOT(c, r, BothPhases)
			testkit.Must(t, err)
			golden(t, s.model+"-graph.dot", []byte(dot))
		})
	}
}
