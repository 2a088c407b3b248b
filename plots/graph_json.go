package plots

import (
	"llmprof/analytic"
	"llmprof/analytic/breakdown"
	"llmprof/roofline"
	"llmprof/unit"
)

// A GraphDocument is the model's graph for programs: the nodes of Graph with what flows
// between them.
type GraphDocument struct {
	Caption string      `json:"caption"`
	Strip   string      `json:"strip"` // how kinds of layers alternate; empty where there is one kind
	Groups  []GraphPart `json:"groups"`
	Flows   []GraphFlow `json:"flows"`
}

// A GraphPart is what the model has once, or one layer of a kind.
type GraphPart struct {
	Title string      `json:"title"` // empty for what the model has once
	Count int         `json:"count"`
	Nodes []GraphNode `json:"nodes"`
	Sums  []string    `json:"sums"` // ids of the sums with the residual stream
}

// A GraphNode is an operator.
type GraphNode struct {
	ID        string      `json:"id"`
	Name      string      `json:"name"`
	Shape     string      `json:"shape"`
	More      string      `json:"more"`
	Wire      bool        `json:"wire"`      // a collective: its bytes go on the wire
	Operators [][2]string `json:"operators"` // layer and name of the report's operators whose work it does
	Prefill   *GraphWork  `json:"prefill"`
	Decode    *GraphWork  `json:"decode"`
}

// A GraphWork is what an operator does in a phase.
type GraphWork struct {
	Share    float64        `json:"share"`
	FLOPs    unit.FLOPs     `json:"flops"`
	Bytes    unit.Bytes     `json:"bytes"`
	Expected unit.Seconds   `json:"expected_s"`
	Bound    roofline.Bound `json:"bound"`
}

// A GraphFlow is what one node or sum hands on to another.
type GraphFlow struct {
	From     string `json:"from"`
	To       string `json:"to"`
	Residual bool   `json:"residual"`
	Branch   bool   `json:"branch"`
}

// DocumentGraph is the graph of a model for programs.
func DocumentGraph(c *analytic.Case, r *breakdown.Report) (*GraphDocument, error) {
	g, err := newGraph(c, r)
	if err != nil {
		return nil, err
	}
	d := &GraphDocument{Caption: g.caption}
	if len(g.strip.order) > 0 {
		d.Strip = g.strip.text()
	}
	t := g.trace()
	for i := range g.clusters {
		cl := &g.clusters[i]
		part := GraphPart{Count: cl.count, Sums: []string{}}
		if cl.title != "" {
			part.Title = g.heading(cl)
		}
		for k, n := range cl.nodes {
			part.Nodes = append(part.Nodes, GraphNode{
				ID: nodeID(i, k), Name: n.name, Shape: n.shape, More: n.more, Wire: n.wire,
				Operators: append([][2]string{}, n.operators...), Prefill: n.prefill.document(), Decode: n.decode.document(),
			})
		}
		for _, s := range t.sums {
			if s.cluster == i {
				part.Sums = append(part.Sums, s.id)
			}
		}
		d.Groups = append(d.Groups, part)
	}
	for _, f := range t.flows {
		d.Flows = append(d.Flows, GraphFlow{f.from, f.to, f.residual, f.beside})
	}
	return d, nil
}

// document is the work of a phase for programs; nil if there is none.
func (w *work) document() *GraphWork {
	if !w.done {
		return nil
	}
	return &GraphWork{w.share, w.flops, w.bytes, w.time, w.bound}
}
