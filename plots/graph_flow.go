package plots

import (
	"fmt"
	"slices"

	"llmprof/analytic"
	"llmprof/analytic/breakdown"
)

// A GraphFlow is what one node or sum hands on to another.
type GraphFlow struct {
	From     string `json:"from"`
	To       string `json:"to"`
	Residual bool   `json:"residual"` // The flow is the residual stream into a sum.
	Branch   bool   `json:"branch"`   // into a branch or out of one
}

// A sum adds a block to the residual stream.
type sum struct {
	id      string
	cluster int
}

// nodeID names node k of cluster i in DOT.
func nodeID(i, k int) string { return fmt.Sprintf("n%d_%d", i, k) }

// A tracer follows what flows in each lane down the graph.
type tracer struct {
	last  [numLanes][]string // outputs that the next node of each lane reads
	flows []GraphFlow
	sums  []sum
}

// trace finds all flows and sums of a graph.
func (g *graph) trace() *tracer {
	t := &tracer{}
	for i := range g.clusters {
		cl := &g.clusters[i]
		for k := 0; k <= len(cl.nodes); k++ {
			for _, e := range cl.events(k) {
				t.event(e, i, k)
			}
			if k < len(cl.nodes) && !cl.nodes[k].apart {
				t.node(nodeID(i, k), cl.lane(k))
			}
		}
	}
	return t
}

func (t *tracer) event(e event, i, k int) {
	switch e {
	case leaves:
		t.last[blockLane] = t.last[streamLane]
	case forks:
		t.last[branchLane] = t.last[blockLane]
	case merges:
		t.last[blockLane] = append(t.last[blockLane][:len(t.last[blockLane]):len(t.last[blockLane])], t.last[branchLane]...)
	case adds:
		s := sum{fmt.Sprintf("s%d_%d", i, k), i}
		t.sums = append(t.sums, s)
		for _, from := range t.last[streamLane] {
			t.flows = append(t.flows, GraphFlow{From: from, To: s.id, Residual: true})
		}
		for _, from := range t.last[blockLane] {
			t.flows = append(t.flows, GraphFlow{From: from, To: s.id})
		}
		t.last[streamLane] = []string{s.id}
	}
}

func (t *tracer) node(id string, lane int) {
	for _, from := range t.last[lane] {
		t.flows = append(t.flows, GraphFlow{From: from, To: id, Branch: lane == branchLane})
	}
	t.last[lane] = []string{id}
}

// A graph is drawn as its operators run, one row each, with what flows between
// them in lanes at the left of the rows: the residual stream, the operators of
// a block, which reads the stream and adds to it, and a branch beside those.
const (
	streamLane = iota
	blockLane
	branchLane
	numLanes
)

// A span is the nodes from one to another: a block between the gap above node
// from, where it reads the residual stream, and that below node to, where it
// adds to it.
type span struct{ from, to int }

// A branch leaves the lane of its block in gap fork and runs beside it to the gap
// below node to. It has the nodes from one to another.
type branch struct{ fork, from, to int }

// An event is what happens to the edges in a gap between two nodes, in the order
// in which it happens.
type event uint8

const (
	merges event = iota // a branch ends
	adds                // a block adds to the stream
	leaves              // a block reads the stream
	forks               // a branch begins
)

// events are those of gap i, which is above node i.
func (cl *cluster) events(i int) (es []event) {
	for _, b := range cl.branches {
		if b.to+1 == i {
			es = append(es, merges)
		}
		if b.fork == i {
			es = append(es, forks)
		}
	}
	for _, s := range cl.residual {
		if s.to+1 == i {
			es = append(es, adds)
		}
		if s.from == i {
			es = append(es, leaves)
		}
	}
	slices.Sort(es)
	return es
}

func (cl *cluster) lane(i int) int {
	for _, b := range cl.branches {
		if b.from <= i && i <= b.to {
			return branchLane
		}
	}
	for _, s := range cl.residual {
		if s.from <= i && i <= s.to {
			return blockLane
		}
	}
	return streamLane
}

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
	Title string       `json:"title"` // empty for what the model has once
	Count int          `json:"count"`
	Nodes []*GraphNode `json:"nodes"`
	Sums  []string     `json:"sums"` // ids of the sums with the residual stream
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
	d.Flows = t.flows
	for i := range g.clusters {
		cl := &g.clusters[i]
		part := GraphPart{Count: cl.count, Nodes: cl.nodes, Sums: []string{}}
		if cl.title != "" {
			part.Title = g.heading(cl)
		}
		for k, n := range cl.nodes {
			n.ID = nodeID(i, k)
		}
		for _, s := range t.sums {
			if s.cluster == i {
				part.Sums = append(part.Sums, s.id)
			}
		}
		d.Groups = append(d.Groups, part)
	}
	return d, nil
}
