package operator

import (
	"llmprof/models"
	"llmprof/roofline"
	"llmprof/unit"
)

// allReduce appends the sum of a message of size bytes over the TP ranks. A ring
// sends 2(n−1)/n of the message from every GPU (Patarasuk and Yuan, 2009); over
// several nodes of g GPUs it is reduced and gathered within each node, 1/g of it
// summed between the nodes. With sequence parallelism it is a reduce-scatter and
// an all-gather, which move the same.
func (s *Step) allReduce(dst []Op, name string, size unit.Bytes) []Op {
	if s.Par.SP {
		name = "reduce_scatter_all_gather"
	}
	return s.ring(dst, Reduce, name, size, 2)
}

// allGather appends the all-gather of a message of size bytes, of which each TP rank has
// a part.
func (s *Step) allGather(dst []Op, name string, size unit.Bytes) []Op {
	return s.ring(dst, Gather, name, size, 1)
}

// ring appends a collective that passes around the TP ranks once or twice.
func (s *Step) ring(dst []Op, t Type, name string, size unit.Bytes, passes float64) []Op {
	n, g := float64(s.Par.TP), float64(s.Par.GPUsPerNode)
	dst, o := add(dst, name, t)
	o.Shape.Ranks = min(n, g)
	if n > g {
		nodes := n / g
		o.Work.NodeWire = size.Times(passes * (nodes - 1) / nodes / g)
		n = g
	}
	o.Work.Wire = size.Times(passes * (n - 1) / n)
	return dst
}

// allToAll appends the exchange of tokens between the n EP ranks, of which each has size bytes of its own. A token
// crosses the network to a node once, and a link to a rank once, however many of its experts are there; the rank of a node that
// receives it passes it on.
func (s *Step) allToAll(dst []Op, name string, e *models.Experts, size unit.Bytes) []Op {
	n := float64(s.Par.EP)
	near := min(n, float64(s.Par.GPUsPerNode))
	each, imbalance := float64(e.Count)/n, 1.0
	if r := s.routing(float64(e.Count)); r != nil {
		imbalance = r.Imbalance // The busiest rank ends last.
	}
	rank := min(ReachedExpertsOf(e, each)*imbalance, 1)
	node := min(ReachedExpertsOf(e, each*near)*imbalance, 1)
	far := (n/near - 1) * node
	dst, o := add(dst, name, Shuffle)
	o.Shape.Ranks, o.Work.Wire, o.Work.NodeWire = near, size.Times((n-1)*rank-far), size.Times(far)
	return dst
}

// AllGather sets the bytes that a GPU sends for the all-gather of size bytes of each of n ranks, near of them in a node, or
// for the reduce-scatter to them. Rings pass through all GPUs of a node, so a node receives everything once, by the
// networks of all its GPUs.
func AllGather(w *roofline.Work, size unit.Bytes, n, near float64) {
	w.NodeWire = size.Times((n - near) / near)
	w.Wire = size.Times(n-1) - w.NodeWire
}

// amongReplicas appends the all-gather of size bytes of tokens of each of the replicas that share experts, or the
// reduce-scatter of the experts' results to them. A rank exchanges with its peer of each other replica.
func (s *Step) amongReplicas(dst []Op, name string, size unit.Bytes) []Op {
	n := float64(s.Par.ExpertReplicas())
	near := min(n, max(float64(s.Par.GPUsPerNode/s.Par.TP), 1))
	dst, o := add(dst, name, Exchange)
	o.Shape.Ranks = near
	AllGather(&o.Work, size, n, near)
	return dst
}

// AppendHops appends the sends of the residual stream from stage to stage of the pipeline.
func (s *Step) AppendHops(dst []Op) []Op {
	near, far := s.Par.Hops()
	size := s.Bytes(s.Tokens() * float64(s.Model.Hidden) / float64(s.Par.TP)) // each rank sends its part
	if near > 0 {
		dst = append(dst, Op{Name: "pipeline_send", Count: near, Type: Send, Shape: roofline.Shape{Ranks: 2}, Work: roofline.Work{Wire: size}})
	}
	if far > 0 {
		dst = append(dst, Op{Name: "pipeline_send_node", Count: far, Type: Send, Shape: roofline.Shape{Ranks: 1}, Work: roofline.Work{
			NodeWire: size}})
	}
	return dst
}
