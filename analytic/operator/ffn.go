package operator

import (
	"llmprof/models"
	"llmprof/roofline"
	"llmprof/unit"
)

// activation appends the non-linearity between the matrices of a feed-forward.
func (s *Step) activation(dst []Op, t Type, a *models.Activation, rows float64, tp int) []Op {
	w := rows * float64(a.Width) / float64(tp)
	in := a.Inputs()
	dst, o := add(dst, "activation", t)
	o.Activation, o.Shape.M, o.Shape.N = a, rows, w/rows
	o.Work.Vector, o.Work.Acts = unit.FLOPs((4+in-1)*w), s.Bytes((in+1)*w)
	return dst
}

// The names that the operators of a feed-forward have in a mixture of experts.
var (
	sharedNames = map[string]string{
		"gate_up_proj": "shared_gate_up_proj", "up_proj": "shared_up_proj", "down_proj": "shared_down_proj", "activation": "shared_activation",
	}
	expertNames = map[string]string{
		"gate_up_proj": "experts_gate_up", "up_proj": "experts_up", "down_proj": "experts_down", "activation": "experts_activation",
	}
)

func rename(ops []Op, names map[string]string) {
	for i := range ops {
		if name, ok := names[ops[i].Name]; ok {
			ops[i].Name = name
		}
	}
}

// shared appends the shared experts, which every token takes.
func (s *Step) shared(dst []Op, e *models.Shared) []Op {
	first := len(dst)
	dst = s.linears(dst, Product, s.Scheme, e.In, s.Tokens(), s.Par.TP)
	dst = s.activation(dst, NonLinear, &e.Activation, s.Tokens(), s.Par.TP)
	dst = s.linears(dst, Product, s.Scheme, e.Out, s.Tokens(), s.Par.TP)
	rename(dst[first:], sharedNames)
	for i := first; i < len(dst); i++ {
		dst[i].Shared = true
	}
	return dst
}

// router appends the scores of the experts and the choice of TopK of them.
func (s *Step) router(dst []Op, e *models.Experts) []Op {
	t := s.Tokens()
	dst = s.linears(dst, Router, s.Plain, e.Router, t, s.Par.TP)
	count, k := float64(e.Count), float64(e.TopK)
	dst, o := add(dst, "top_k", TopK)
	o.Shape.M, o.Shape.Experts, o.Shape.TopK, o.Shape.Pairs = t, count, k, t*k
	o.Work.Vector, o.Work.Acts = unit.FLOPs(5*t*count), s.Bytes(t*count)
	return dst
}

// routed appends the experts that the router chose. Memory traffic is that of the distinct experts that
// tokens are sent to; arithmetic runs TopK experts for every token. The busiest rank of EP counts, whose
// load follows from chance or from a Popularity. The ranks of one TP group all have the group's tokens, and
// sum their results as in a dense feed-forward. Ranks of several groups exchange tokens: each token is sent to a rank
// once, however many of its experts are there, in the format that experts multiply. Where experts are cut over the ranks of several
// groups, every rank needs the tokens of all groups, and has a part of each sum.
func (s *Step) routed(dst []Op, e *models.Experts) []Op {
	switch {
	case s.Par.ExpertReplicas() == 1:
		return s.experts(dst, e)
	case s.Par.GathersTokens():
		size := s.Bytes(s.Tokens() * float64(s.Model.Hidden))
		dst = s.amongReplicas(dst, "all_gather_tokens", size)
		dst = s.experts(dst, e)
		return s.amongReplicas(dst, "reduce_scatter_tokens", size)
	}
	values := s.Tokens() / float64(s.Par.TP) * float64(s.Model.Hidden)
	dst = s.allToAll(dst, "all_to_all_dispatch", e, s.Scheme.ActOf(&e.In[0]).Bytes(values))
	dst = s.experts(dst, e)
	return s.allToAll(dst, "all_to_all_combine", e, s.Bytes(values))
}

// experts appends the grouped GEMMs of the chosen experts.
func (s *Step) experts(dst []Op, e *models.Experts) []Op {
	p := s.Par
	group := s.EPTokens
	if group == 0 {
		group = s.Tokens() * float64(p.ExpertReplicas())
	}
	shape := roofline.Shape{Experts: float64(e.Count), TopK: e.Busy(), Tokens: group}
	shape.Hit, shape.Pairs = s.Chosen(&shape, group)
	first := len(dst)
	dst = s.grouped(dst, e.In, &shape)
	dst = s.activation(dst, ExpertNonLinear, &e.Activation, shape.Pairs, p.ExpertTP())
	dst = s.grouped(dst, e.Out, &shape)
	rename(dst[first:], expertNames)
	return dst
}

// grouped appends GEMMs of all token-expert pairs with the weights of the experts that
// tokens are sent to.
func (s *Step) grouped(dst []Op, ls []models.Linear, shape *roofline.Shape) []Op {
	first := len(dst)
	dst = s.linears(dst, ExpertProduct, s.Scheme, ls, shape.Pairs, s.Par.ExpertTP())
	for i := first; i < len(dst); i++ {
		o := &dst[i]
		o.Work.Weights = o.Work.Weights.Times(shape.Hit)
		o.Model = o.Model.Times(s.Tokens() * shape.TopK / shape.Pairs)
		o.Shape.Experts, o.Shape.TopK, o.Shape.Tokens, o.Shape.Hit, o.Shape.Pairs = shape.Experts, shape.TopK, shape.Tokens, shape.Hit,
			shape.Pairs
	}
	return dst
}

// Chosen is the number of distinct experts of the busiest rank that tokens are sent to, and of its token-expert
// pairs, in the mixture to which a GEMM of this shape belongs.
func (s *Step) Chosen(shape *roofline.Shape, tokens float64) (hit, pairs float64) {
	if r := s.routing(shape.Experts); r != nil {
		return r.Hit(tokens), tokens * r.Pairs
	}
	return BusiestRank(shape.Experts, shape.TopK, tokens, s.Par.EP)
}

// Tiles is the expected number of tiles of so many rows that the grouped GEMM of this shape has on the busiest rank.
func (s *Step) Tiles(shape *roofline.Shape, rows float64) float64 {
	if r := s.routing(shape.Experts); r != nil {
		return r.Tiles(shape.Tokens, rows)
	}
	each := shape.Experts / float64(s.Par.EP)
	return each * ExpertTiles(shape.Pairs/each, min(1, shape.TopK/shape.Experts), rows)
}
