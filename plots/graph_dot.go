//go:build !js

package plots

import (
	"fmt"
	"html"
	"strings"

	"llmprof/analytic"
	"llmprof/analytic/breakdown"
	"llmprof/plots/colors"
)

// GraphDOT is the graph in the language of Graphviz (graphviz.org/doc/info/lang.html),
// to be laid out or changed elsewhere. Nodes are tables: the operator, and a row
// for each phase with its figures on a field of the bound's colour. Circles are
// sums with the residual stream.
func GraphDOT(c *analytic.Case, r *breakdown.Report, p Phases) (string, error) {
	only, err := p.of(r)
	if err != nil {
		return "", err
	}
	g, err := newGraph(c, only)
	if err != nil {
		return "", err
	}
	label := g.caption
	if len(g.strip.order) > 0 {
		label += "\n" + g.strip.text()
	}
	t := g.trace()
	var b strings.Builder
	fmt.Fprintf(&b, "digraph llmprof {\n  label=%s; labelloc=t; fontname=\"Liberation Sans\"; fontsize=10;\n", quote(label))
	b.WriteString("  rankdir=TB; ranksep=0.16; nodesep=0.3;\n  node [shape=plain, fontname=\"Liberation Sans\", fontsize=8];\n  edge " +
		"[arrowsize=0.5];\n")
	for i := range g.clusters {
		g.dotCluster(&b, i, t.sums)
	}
	for _, f := range t.flows {
		look := ""
		switch {
		case f.Residual:
			look = ` [color="#5f6368", style=bold, weight=0]`
		case f.Branch:
			look = " [style=dashed]"
		}
		fmt.Fprintf(&b, "  %s -> %s%s;\n", f.From, f.To, look)
	}
	g.dotApart(&b)
	b.WriteString("}\n")
	return b.String(), nil
}

// dotApart keeps what is no part of the stream below what it is listed after, which
// nothing else would.
func (g *graph) dotApart(b *strings.Builder) {
	above := ""
	for i := range g.clusters {
		for k, n := range g.clusters[i].nodes {
			if n.apart && above != "" {
				fmt.Fprintf(b, "  %s -> %s [style=invis];\n", above, nodeID(i, k))
			}
			above = nodeID(i, k)
		}
	}
}

// dotCluster writes the nodes and sums of cluster i.
func (g *graph) dotCluster(b *strings.Builder, i int, sums []sum) {
	cl := &g.clusters[i]
	indent := "  "
	if cl.title != "" {
		title := g.heading(cl)
		if len(g.strip.order) > 0 {
			title = letter(cl.kind) + ": " + title
		}
		fmt.Fprintf(b, "  subgraph cluster_%d {\n    label=%s; labeljust=l; style=filled; color=\"#f5f6f8\"; pencolor=\"#5f6368\"; fontsize=9;\n",
			i, quote(title))
		indent = "    "
	}
	for k, n := range cl.nodes {
		fmt.Fprintf(b, "%s%s [label=<%s>];\n", indent, nodeID(i, k), g.table(n))
	}
	for _, s := range sums {
		if s.cluster == i {
			fmt.Fprintf(b, "%s%s [label=\"+\", shape=circle, fixedsize=true, width=0.18, height=0.18];\n", indent, s.id)
		}
	}
	if cl.title != "" {
		b.WriteString("  }\n")
	}
}

// table is a node as an HTML-like label.
func (g *graph) table(n *GraphNode) string {
	var b strings.Builder
	b.WriteString(`<table border="1" cellborder="0" cellspacing="0" cellpadding="2" bgcolor="white">`)
	name := html.EscapeString(n.Name)
	if name != "" { // Graphviz takes no empty <b>
		name = "<b>" + name + "</b>"
	}
	if n.Shape != "" {
		name += "&#160;&#160;" + html.EscapeString(n.Shape) // Graphviz drops plain spaces behind a tag
	}
	fmt.Fprintf(&b, `<tr><td colspan="5" align="left">%s</td></tr>`, name)
	if n.More != "" {
		fmt.Fprintf(&b, `<tr><td colspan="5" align="left">%s</td></tr>`, html.EscapeString(n.More))
	}
	for _, col := range g.columns {
		w := col.of(n)
		if w == nil {
			continue
		}
		flops, intensity, bytes := "", "", w.Bytes.String()
		if w.FLOPs > 0 {
			flops = w.FLOPs.String()
			if w.Bytes > 0 {
				intensity = engineering(w.intensity()) + " FLOP/B"
			}
		}
		if n.Wire {
			bytes += " on the wire"
		}
		fmt.Fprintf(&b, `<tr><td bgcolor="%s"><font color="%s">%s %s</font></td><td>%s</td><td>%s</td><td>%s</td><td>%s</td></tr>`,
			hex(colors.Bound(w.Bound)), hex(colors.Bound(w.Bound).On()), col.name, html.EscapeString(shareText(w.Share)), flops, bytes,
			html.EscapeString(intensity), w.Bound)
	}
	b.WriteString("</table>")
	return b.String()
}

// quote is text as a label in DOT, where a backslash begins an escape and an
// ampersand an entity.
func quote(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "&", "&amp;", "\n", `\n`).Replace(s) + `"`
}

// hex is an opaque colour as DOT and CSS write it.
func hex(c colors.Color) string { return colors.Hex(c.Light) }
