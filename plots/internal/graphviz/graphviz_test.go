// Package graphviz_test reads the DOT of model graphs with Graphviz itself.
//
// It is a package of its own, and the program does not link go-graphviz v0.2.10,
// because that runs its WebAssembly before main, whatever the command: 0.5 s the
// first time, and after that from machine code in a directory that all users of
// a computer share, os.TempDir()/go-graphviz. The second user cannot read what
// the first one has left there and ends in a panic, as everybody does whose
// cached file is damaged.
package graphviz_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/goccy/go-graphviz"

	"llmprof/analytic"
	"llmprof/analytic/breakdown"
	"llmprof/internal/testkit"
	"llmprof/internal/testkit/casetest"
	"llmprof/models"
	"llmprof/plots"
)

// A layout is what Graphviz made of a graph.
type layout struct {
	Label   string
	Objects []struct {
		ID                   int `json:"_gvid"`
		Name, Label, BB, Pos string
		Width, Height        string
	}
	Edges []struct{ Tail, Head int }
}

// render lets Graphviz read and lay out a graph.
func render(t testing.TB, dot string) *layout {
	t.Helper()
	ctx := context.Background()
	engine, err := graphviz.New(ctx)
	testkit.Must(t, err)
	defer engine.Close()
	parsed, err := graphviz.ParseBytes([]byte(dot))
	if err != nil {
		t.Fatalf("%v in\n%s", err, dot)
	}
	defer parsed.Close()
	var b bytes.Buffer
	if err := engine.Render(ctx, parsed, "json0", &b); err != nil {
		t.Fatalf("%v in\n%s", err, dot)
	}
	var l layout
	if err := json.Unmarshal(b.Bytes(), &l); err != nil {
		t.Fatalf("%v in\n%s", err, b.Bytes())
	}
	for _, o := range l.Objects {
		// A table that Graphviz cannot read is drawn as the node's name.
		if w, _ := strconv.ParseFloat(o.Width, 64); strings.HasPrefix(o.Name, "n") && w < 1 {
			t.Errorf("the table of node %s is not read in\n%s", o.Name, dot)
		}
	}
	return &l
}

// testCase is a model in its checkpoint's format on tp GPUs.
func testCase(t testing.TB, model, gpu string, tp int) (*analytic.Case, *breakdown.Report) {
	t.Helper()
	m, machine := casetest.Model(t, model), casetest.Machine(t, gpu, "native")
	c := &analytic.Case{
		Model: m, Machine: machine, Scheme: models.StoredScheme(m).For(machine.GPU),
		Workload: analytic.Workload{Batch: 16, PromptLen: 1024, GenLen: 128}, Parallel: analytic.Parallelism{TP: tp, GPUsPerNode: 8},
	}
	r := casetest.Explain(t, c)
	return c, &r
}

func graphDOT(t testing.TB, c *analytic.Case, r *breakdown.Report, p plots.Phases) string {
	t.Helper()
	dot, err := plots.GraphDOT(c, r, p)
	testkit.Must(t, err)
	return dot
}

// TestLaysOut lets Graphviz lay out graphs, and finds every node and edge, nodes
// that do not overlap, and flows that all lead down.
func TestLaysOut(t *testing.T) {
	for _, q := range []struct {
		model string
		tp    int
	}{{"llama2-70b", 8}, {"qwen3-30b-a3b", 1}, {"deepseek-v3", 8}, {"nemotron-h-8b", 1}, {"gpt-j-6b", 2}} {
		for _, p := range []plots.Phases{plots.BothPhases, plots.PrefillOnly, plots.DecodeOnly} {
			c, r := testCase(t, q.model, "h200", q.tp)
			dot := graphDOT(t, c, r, p)
			l := render(t, dot)
			if edges := strings.Count(dot, " -> "); len(l.Edges) != edges || edges == 0 {
				t.Errorf("%s: Graphviz has %d edges of %d", q.model, len(l.Edges), edges)
			}
			boxes := l.boxes(t)
			for _, a := range boxes {
				for _, b := range boxes {
					if a.id < b.id && a.left < b.right && b.left < a.right && a.low < b.high && b.low < a.high {
						t.Errorf("%s: nodes %+v and %+v overlap", q.model, a, b)
					}
				}
			}
			for _, e := range l.Edges {
				if boxes[e.Tail].low < boxes[e.Head].high {
					t.Errorf("%s: the edge from %+v to %+v does not lead down", q.model, boxes[e.Tail], boxes[e.Head])
				}
			}
		}
	}
}

// A box is a node as it is placed.
type box struct {
	id                     int
	left, right, low, high float64
}

func (l *layout) boxes(t testing.TB) map[int]box {
	t.Helper()
	boxes := map[int]box{}
	for _, o := range l.Objects {
		if o.BB != "" {
			continue // a cluster
		}
		x, y, _ := strings.Cut(o.Pos, ",")
		var v [4]float64
		for i, text := range []string{x, y, o.Width, o.Height} {
			var err error
			if v[i], err = strconv.ParseFloat(text, 64); err != nil {
				t.Fatal(err)
			}
		}
		const half = 72 / 2.0 // sizes are in inches, places in points
		boxes[o.ID] = box{o.ID, v[0] - v[2]*half, v[0] + v[2]*half, v[1] - v[3]*half, v[1] + v[3]*half}
	}
	return boxes
}

// odd is a graph of one operator with names that somebody chose.
func odd(t testing.TB, model, op, layer string) (string, error) {
	t.Helper()
	c, r := testCase(t, "llama3.2-1b", "h200", 1)
	m := *c.Model
	m.Name = model
	c.Model = &m
	line := r.PrefillOps[0]
	line.Name, line.Layer, line.Share = op, layer, 1
	return plots.GraphDOT(c, &breakdown.Report{PrefillOps: []breakdown.Operator{line, line}}, plots.BothPhases)
}

// oddNames are what no file should be broken by.
var oddNames = []string{
	"", " ", `"`, `\`, `\\`, `a\"b`, `\N\G\L`, `<b>&amp;</b>`, "]]>", "{a|b}", "a\nb\r\tc", "\x00\x01\x7f", "\xff\xfe", "\u2028\ufeff\ufffe",
	"-- ->; }", "é中文🙂", "&#0;", strings.Repeat("very_long_", 200), "%s%n", "<!--", "strict digraph {",
}

// TestOddNames reads back what the names say.
func TestOddNames(t *testing.T) {
	for _, name := range oddNames {
		t.Run(fmt.Sprintf("%.20q", name), func(t *testing.T) {
			dot, err := odd(t, name, name, name)
			testkit.Must(t, err)
			render(t, dot)
		})
	}
	dot, err := odd(t, `a "quoted" \N <b>&amp; {x|y}`, "op", "layer")
	testkit.Must(t, err)
	if l := render(t, dot); !strings.HasPrefix(l.Label, `a "quoted" \\N <b>&amp;amp; {x|y} ·`) {
		t.Errorf("Graphviz reads the label as %q", l.Label)
	}
}

// FuzzDOT reads the DOT of names that nobody would choose.
func FuzzDOT(f *testing.F) {
	for _, name := range oddNames {
		f.Add(name, name, name)
	}
	f.Fuzz(func(t *testing.T, model, op, layer string) {
		if dot, err := odd(t, model, op, layer); err == nil {
			if l := render(t, dot); len(l.boxes(t)) == 0 {
				t.Errorf("Graphviz has no node of\n%s", dot)
			}
		}
	})
}
