package plots

import (
	"math"
	"os"
	"path/filepath"
	"testing"

	"llmprof"
	"llmprof/analytic"
	"llmprof/models"
)

// TestGraphGolden holds the graphs to the SVG and DOT in testdata, and their text
// inside and apart.
func TestGraphGolden(t *testing.T) {
	for _, s := range subjects() {
		t.Run(s.model, func(t *testing.T) {
			c := testCase(t, s.model, s.gpu, s.batch, s.tp)
			r := explain(t, c)
			f, err := Graph(c, r)
			if err != nil {
				t.Fatal(err)
			}
			checkLayout(t, f)
			if f.Height > 1.66*Width {
				t.Errorf("the graph is %v high, more than a page of A4", f.Height)
			}
			got, err := f.SVG()
			if err != nil {
				t.Fatal(err)
			}
			if dir := os.Getenv("LOOK_AT"); dir != "" {
				look(t, f, filepath.Join(dir, s.model+"-graph.png"))
			}
			golden(t, s.model+"-graph.svg", []byte(got))
			dot, err := GraphDOT(c, r)
			if err != nil {
				t.Fatal(err)
			}
			golden(t, s.model+"-graph.dot", []byte(dot))
		})
	}
}

// TestGraphAddsUp finds the time, FLOPs and bytes of the report in the nodes,
// though some are folded and some split.
func TestGraphAddsUp(t *testing.T) {
	for _, s := range subjects() {
		c := testCase(t, s.model, s.gpu, s.batch, s.tp)
		r := explain(t, c)
		g, err := newGraph(c, r)
		if err != nil {
			t.Fatal(err)
		}
		var prefill, decode, flops, want float64
		for _, cl := range g.clusters {
			for _, n := range cl.nodes {
				prefill += n.prefill.share
				decode += n.decode.share
				flops += float64(n.prefill.flops)
			}
		}
		for i := range r.PrefillOps {
			want += float64(r.PrefillOps[i].FLOPs)
		}
		if math.Abs(prefill-1) > 1e-9 || math.Abs(decode-1) > 1e-9 || math.Abs(flops/want-1) > 1e-9 {
			t.Errorf("%s: nodes have %v of prefill, %v of decode, %v of the FLOPs", s.model, prefill, decode, flops/want)
		}
	}
}

// TestGraphOfEveryModel draws each model of the table, on one GPU and on four
// where it can be split so.
func TestGraphOfEveryModel(t *testing.T) {
	table, err := models.Load(llmprof.ModelsJSON)
	if err != nil {
		t.Fatal(err)
	}
	drawn := 0
	for i, name := range table.Names() {
		c := testCase(t, name, "h200", 4, 1+3*(i%2))
		c.Workload = analytic.Workload{Batch: 4, Prompt: 64, Gen: 1 + 8*(i%3)}
		r, err := analytic.Explain(c)
		if err != nil {
			continue // it cannot be split, or has fewer positions
		}
		f, err := Graph(c, &r)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		checkLayout(t, f)
		drawn++
	}
	if all := len(table.Names()); drawn < all*9/10 {
		t.Errorf("%d of %d models are drawn", drawn, all)
	}
}
