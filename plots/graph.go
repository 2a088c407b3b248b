package plots

import (
	"fmt"
	"slices"
	"strings"

	"llmprof/analytic"
	"llmprof/analytic/breakdown"
	"llmprof/analytic/operator"
	"llmprof/models"
	"llmprof/roofline"
	"llmprof/unit"
)

// A graph is a model as its operators run: what it has once before the layers,
// one layer of each kind, and what it has once after them.
type graph struct {
	caption  string
	clusters []cluster
	columns  []column
	strip    strip
	most     float64 // the greatest share of either phase, which fills a bar
}

// A cluster is operators that run one after the other, count times.
type cluster struct {
	title    string // "" for what the model has once
	count    int
	kind     int // among the kinds of layers, by which the strip letters them
	nodes    []*GraphNode
	residual []span
	branches []branch
}

// A GraphNode is one operator, or the experts of a MoE layer as one.
type GraphNode struct {
	ID        string      `json:"id"`
	Name      string      `json:"name"`
	Shape     string      `json:"shape"`
	More      string      `json:"more"`
	Wire      bool        `json:"wire"`      // a collective: its bytes go on the wire
	Operators [][2]string `json:"operators"` // layer and name of the report's operators whose work it does
	Prefill   *GraphWork  `json:"prefill"`   // nil where it does nothing in the phase
	Decode    *GraphWork  `json:"decode"`

	apart bool // neither reads the stream nor adds to it
	block int  // number of its block in the layer
}

// A GraphWork is what a node does in one phase.
type GraphWork struct {
	Share    float64        `json:"share"`
	FLOPs    unit.FLOPs     `json:"flops"`
	Bytes    unit.Bytes     `json:"bytes"` // bytes of memory, or of the wire for collectives
	Expected unit.Seconds   `json:"expected_s"`
	Bound    roofline.Bound `json:"bound"`

	parts [4]unit.Seconds // expected time by bound, to bound a sum by
}

// intensity is matrix FLOPs for each byte of memory.
func (w *GraphWork) intensity() float64 { return w.FLOPs.Per(w.Bytes) }

// add adds a part of an operator, which is nil where the phase lacks it.
func (w *GraphWork) add(l *breakdown.Operator, part float64) *GraphWork {
	switch {
	case l == nil:
		return w
	case w == nil:
		w = &GraphWork{}
	}
	bytes := l.Traffic()
	if l.Kind == operator.Collective {
		bytes = l.Wire
	}
	w.Share += l.Share * part
	w.FLOPs += l.FLOPs.Times(part)
	w.Bytes += bytes.Times(part)
	w.Expected += l.Expected.Times(part)
	w.parts[l.Bound] += l.Expected.Times(part)
	for b := range w.parts {
		if w.parts[b] > w.parts[w.Bound] {
			w.Bound = roofline.Bound(b)
		}
	}
	return w
}

// newGraph arranges the operators of a report.
func newGraph(c *analytic.Case, r *breakdown.Report) (*graph, error) {
	if err := drawable(r); err != nil {
		return nil, err
	}
	g := &graph{caption: Caption(c), columns: columns(r)}
	ops := merge(r.PrefillOps, r.DecodeOps)
	first, last := layered(ops)
	g.clusters = append(g.clusters, once(c, ops[:first]))
	g.layers(c, ops[first:last])
	g.clusters = append(g.clusters, once(c, ops[last:]))
	g.clusters = slices.DeleteFunc(g.clusters, func(cl cluster) bool { return len(cl.nodes) == 0 })
	for i := range g.clusters {
		for _, n := range g.clusters[i].nodes {
			for _, w := range []*GraphWork{n.Prefill, n.Decode} {
				if w != nil {
					g.most = max(g.most, w.Share)
				}
			}
		}
	}
	if g.most <= 0 {
		return nil, fmt.Errorf("model graph: nothing to draw, no operator takes time")
	}
	return g, nil
}

// layers adds a cluster for each name of a kind of layer: kinds that differ in
// what costs nothing have the same name, and the report has them as one.
func (g *graph) layers(c *analytic.Case, ops []op) {
	var names []string
	own := map[string][]op{}
	for _, o := range ops {
		if _, ok := own[o.layer]; !ok {
			names = append(names, o.layer)
		}
		own[o.layer] = append(own[o.layer], o)
	}
	for k, name := range names {
		var l models.Layer
		for i := range c.Model.Layers {
			if m := &c.Model.Layers[i]; m.Name == name {
				count := l.Count + m.Count
				l = *m
				l.Count = count
			}
		}
		cl := layerCluster(c, &l, own[name])
		cl.title, cl.kind = printable(name), k
		g.clusters = append(g.clusters, cl)
	}
	g.strip = newStrip(c.Model, names)
}

// drawable refuses figures that no bar can show.
func drawable(r *breakdown.Report) error {
	for _, lines := range [][]breakdown.Operator{r.PrefillOps, r.DecodeOps} {
		for _, l := range lines {
			switch {
			case !finite(l.Share, float64(l.FLOPs), float64(l.Traffic()), float64(l.Wire), float64(l.Expected)):
				return fmt.Errorf("model graph: a figure of operator %.80q is not a number of at least 0", l.Name)
			case l.Share > 1+1e-9:
				return fmt.Errorf("model graph: operator %.80q has a share of %v of the time, more than all", l.Name, l.Share)
			case int(l.Bound) >= len(GraphWork{}.parts):
				return fmt.Errorf("model graph: operator %.80q is bound by no known resource", l.Name)
			}
		}
	}
	return nil
}

// An op is the lines of one operator in both phases, either nil if it has none.
type op struct {
	name, layer     string
	kind            operator.Kind
	block           int // number of its block in the layer
	prefill, decode *breakdown.Operator
}

// merge pairs the operators of the phases. One that only decode has follows the
// operator that it follows there.
func merge(prefill, decode []breakdown.Operator) []op {
	ops := make([]op, 0, len(prefill)+1)
	for i := range prefill {
		l := &prefill[i]
		ops = append(ops, op{name: l.Name, layer: l.Layer, kind: l.Kind, block: l.Block, prefill: l})
	}
	at := -1
	for i := range decode {
		l := &decode[i]
		found := slices.IndexFunc(ops, func(o op) bool { return o.name == l.Name && o.layer == l.Layer })
		if found < 0 {
			found = at + 1
			ops = slices.Insert(ops, found, op{name: l.Name, layer: l.Layer, kind: l.Kind, block: l.Block})
		}
		ops[found].decode, at = l, found
	}
	return ops
}

// layered are the bounds of what belongs to layers.
func layered(ops []op) (first, last int) {
	first = len(ops)
	for i := range ops {
		if ops[i].layer != "" {
			first, last = min(first, i), i+1
		}
	}
	if last == 0 {
		return len(ops), len(ops)
	}
	return first, last
}

func (o *op) node(part float64) *GraphNode {
	n := &GraphNode{Name: printable(o.name), Wire: o.kind == operator.Collective, block: o.block}
	n.take(o, part)
	return n
}

func (n *GraphNode) take(o *op, part float64) {
	n.Operators = append(n.Operators, [2]string{o.layer, o.name})
	n.Prefill, n.Decode = n.Prefill.add(o.prefill, part), n.Decode.add(o.decode, part)
}

// once is what a model has one of.
func once(c *analytic.Case, ops []op) (cl cluster) {
	m := c.Model
	for i := range ops {
		n := ops[i].node(1)
		switch n.Name {
		case "embedding":
			n.Shape = fmt.Sprintf("%d × %d", m.Vocab, m.Embedding.Width)
		case "lm_head":
			n.Shape = gemmShape([]models.Linear{m.Head}, c.Parallel.TP)
		case "host":
			n.apart = true
		}
		if n.Wire {
			n.Shape = wireShape(n.Name, c)
		}
		cl.nodes = append(cl.nodes, n)
	}
	return cl
}

// wireShape says who takes part in a collective.
func wireShape(name string, c *analytic.Case) string {
	switch {
	case strings.HasPrefix(name, "pipeline"):
		return fmt.Sprintf("%d stages", c.Parallel.PP)
	case strings.HasPrefix(name, "all_to_all"):
		return fmt.Sprintf("EP %d", c.Parallel.EP)
	case strings.HasSuffix(name, "_tokens"):
		return fmt.Sprintf("%d replicas", c.Parallel.ExpertReplicas())
	}
	return fmt.Sprintf("TP %d", c.Parallel.TP)
}

// Phases says which phases a graph shows.
type Phases string

// The phases of a graph.
const (
	BothPhases  Phases = "both"
	PrefillOnly Phases = "prefill"
	DecodeOnly  Phases = "decode"
)

// of is a report with the operators of these phases only.
func (p Phases) of(r *breakdown.Report) (*breakdown.Report, error) {
	only := *r
	if p == DecodeOnly && len(r.DecodeOps) == 0 {
		return nil, fmt.Errorf("model graph: there is no decode: prefill gives the first token, generate 2 or more")
	}
	switch p {
	case PrefillOnly:
		only.DecodeOps = nil
	case DecodeOnly:
		only.PrefillOps = nil
	}
	return &only, nil
}

// A column is one phase of a graph: its name, and its part of a node.
type column struct {
	name string
	of   func(*GraphNode) *GraphWork
}

// columns are those of the phases that a report has.
func columns(r *breakdown.Report) (cs []column) {
	if len(r.PrefillOps) > 0 {
		cs = append(cs, column{"prefill", func(n *GraphNode) *GraphWork { return n.Prefill }})
	}
	if len(r.DecodeOps) > 0 {
		cs = append(cs, column{"decode", func(n *GraphNode) *GraphWork { return n.Decode }})
	}
	return cs
}

// heading is the name of a kind of layer, how often there is one, and its share.
func (g *graph) heading(cl *cluster) string {
	s := fmt.Sprintf("%d × %s: ", cl.count, cl.title)
	for i, col := range g.columns {
		share := 0.0
		for _, n := range cl.nodes {
			if w := col.of(n); w != nil {
				share += w.Share
			}
		}
		if i > 0 {
			s += ", "
		}
		s += shareText(share) + " of " + col.name
	}
	return s
}
