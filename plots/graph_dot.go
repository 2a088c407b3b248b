package plots

import (
	"fmt"
	"html"
	"image/color"
	"strings"

	"llmprof/analytic"
)

// GraphDOT is the graph in the language of Graphviz (graphviz.org/doc/info/lang.html),
// to be laid out or changed elsewhere. Nodes are tables: the operator, and a row
// for each phase with its figures on a field of the bound's colour.
func GraphDOT(c *analytic.Case, r *analytic.Report) (string, error) {
	g, err := newGraph(c, r)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "digraph llmprof {\n  label=%s; labelloc=t; fontname=\"Liberation Sans\"; fontsize=10;\n", quote(g.caption))
	b.WriteString("  rankdir=TB; ranksep=0.16; nodesep=0.2;\n  node [shape=plain, fontname=\"Liberation Sans\", fontsize=8];\n  edge [arrowsize=0.5];\n")
	for i := range g.clusters {
		cl := &g.clusters[i]
		indent := "  "
		if cl.title != "" {
			fmt.Fprintf(&b, "  subgraph cluster_%d {\n    label=%s; labeljust=l; style=filled; color=\"#f5f6f8\"; pencolor=\"#5f6368\"; fontsize=9;\n", i, quote(g.heading(cl)))
			indent = "    "
		}
		for k, n := range cl.nodes {
			fmt.Fprintf(&b, "%sn%d_%d [label=<%s>];\n", indent, i, k, n.table())
		}
		g.dotEdges(&b, i, indent)
		if cl.title != "" {
			b.WriteString("  }\n")
		}
		if i > 0 && len(cl.nodes) > 0 && len(g.clusters[i-1].nodes) > 0 {
			fmt.Fprintf(&b, "  n%d_%d -> n%d_0;\n", i-1, len(g.clusters[i-1].nodes)-1, i)
		}
	}
	b.WriteString("}\n")
	return b.String(), nil
}

// dotEdges writes the edges within a cluster. A residual edge leads from what
// writes the stream to what adds to it.
func (g *graph) dotEdges(b *strings.Builder, i int, indent string) {
	cl := &g.clusters[i]
	for k := 1; k < len(cl.nodes); k++ {
		if !cl.nodes[k].broken {
			fmt.Fprintf(b, "%sn%d_%d -> n%d_%d;\n", indent, i, k-1, i, k)
		}
	}
	edge := func(from, to int, look string) {
		if from >= 0 && to < len(cl.nodes) && from < to {
			fmt.Fprintf(b, "%sn%d_%d -> n%d_%d [%s];\n", indent, i, from, i, to, look)
		}
	}
	for k, s := range cl.branches {
		from := s.from - 1
		if k%2 == 0 && from < 0 {
			from = s.from
		}
		edge(from, s.to+1, "style=dashed")
	}
	for _, s := range cl.residual {
		edge(max(s.from-1, 0), s.to, `color="#5f6368", style=bold, xlabel="+", constraint=false`)
	}
}

// table is a node as an HTML-like label.
func (n *node) table() string {
	var b strings.Builder
	b.WriteString(`<table border="1" cellborder="0" cellspacing="0" cellpadding="2" bgcolor="white">`)
	fmt.Fprintf(&b, `<tr><td colspan="5" align="left"><b>%s</b> %s</td></tr>`, html.EscapeString(n.name), html.EscapeString(n.shape))
	if n.more != "" {
		fmt.Fprintf(&b, `<tr><td colspan="5" align="left">%s</td></tr>`, html.EscapeString(n.more))
	}
	for _, p := range []struct {
		name string
		w    *work
	}{{"prefill", &n.prefill}, {"decode", &n.decode}} {
		if !p.w.done {
			continue
		}
		flops, intensity, bytes := "", "", p.w.bytes.String()
		if p.w.flops > 0 {
			flops = p.w.flops.String()
			if p.w.bytes > 0 {
				intensity = brief(p.w.intensity()) + " FLOP/B"
			}
		}
		if n.wire {
			bytes += " on the wire"
		}
		fmt.Fprintf(&b, `<tr><td bgcolor="%s"><font color="%s">%s %s</font></td><td>%s</td><td>%s</td><td>%s</td><td>%s</td></tr>`,
			hex(BoundColor(p.w.bound)), hex(BoundInk(p.w.bound)), p.name, html.EscapeString(shareText(p.w.share)), flops, bytes, html.EscapeString(intensity), p.w.bound)
	}
	b.WriteString("</table>")
	return b.String()
}

// quote is text as a string of DOT.
func quote(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", " ").Replace(s) + `"`
}

// hex is an opaque colour as DOT and CSS write it.
func hex(c color.Color) string {
	r, g, b, _ := c.RGBA()
	return fmt.Sprintf("#%02x%02x%02x", r>>8, g>>8, b>>8)
}
