package tree

import (
	"errors"
	"testing"

	"llmprof/internal/fileerror"
)

// depthOf is how deep a tree is nested, and nodesOf how many values it has.
func (n *Node) depthOf() int {
	deepest := 0
	for _, i := range n.Items {
		deepest = max(deepest, i.depthOf())
	}
	for _, p := range n.Pairs {
		deepest = max(deepest, p.Value.depthOf())
	}
	return deepest + 1
}

// parsed checks what is true of every form: a tree within the limits, or a mistake
// that is short and stands in the file.
func parsed(t *testing.T, form func(*Source) (*Node, error), text string) {
	t.Helper()
	n, err := form(&Source{Name: "x", Text: text})
	if err == nil {
		if d := n.depthOf(); d > 2*deepest+2 { // a header's key, then a value's
			t.Errorf("%d deep", d)
		}
		return
	}
	var m *fileerror.Error
	if !errors.As(err, &m) {
		t.Fatalf("no mistake with a place: %v", err)
	}
	if m.Line < 0 || m.Column < 0 || len(m.Error()) > 4000 {
		t.Errorf("%d:%d, %d bytes of text", m.Line, m.Column, len(m.Error()))
	}
}

func FuzzYAML(f *testing.F) {
	f.Add("a: &a [*a]\nb: *b\n<<: {model: x}\n? x\n: y")
	f.Add("- - - ? a: !t &b 'x'\n  \"y\": |\n   z\n...\n---\n# c")
	f.Add("a: {b: [1, 2e3, .inf, 0x10, ~], <<: [*x]}")
	f.Fuzz(func(t *testing.T, text string) { parsed(t, ParseYAML, text) })
}

func FuzzTOML(f *testing.F) {
	f.Add("points = [{}]\n[[exclude]]\n'model' = 1")
	f.Add("a.b.\"c.d\" = {e = [\"\"\"x\"\"\"\", '''y''']}\n[x.y]\nz = 1979-05-27T07:32:00Z # c")
	f.Add("[a.b]\nc = inf\n[[a.d]]\n[a.d.e]\n")
	f.Fuzz(func(t *testing.T, text string) { parsed(t, ParseTOML, text) })
}
