package analytic

import (
	"math"

	"llmprof/hardware"
	"llmprof/models"
	"llmprof/unit"
)

// activation appends the non-linearity between the matrices of a feed-forward.
func (s *Step) activation(dst []Op, a *models.Activation, rows float64, tp int, r ride) []Op {
	w := rows * float64(a.Width) / float64(tp)
	in, eager, moved := 1.0, 1.0, 2.0
	if a.Gated {
		in, eager, moved = 2, 2, unfusedGate
	}
	if a.Spelled {
		eager += spelledLaunches - 1
		moved += spelledGELU - 2
	}
	return append(dst, Op{
		Name: "activation", Kind: Element, Vector: unit.FLOPs((4 + in - 1) * w),
		Acts: s.acts((in + 1) * w), Kernels: 1, Eager: eager, Unfused: s.acts(moved * w), Ride: r,
	})
}

// shared appends the feed-forward that every token of a mixture takes.
func (s *Step) shared(dst []Op, e *models.Shared) []Op {
	first := len(dst)
	dst = s.linears(dst, s.Scheme, e.In, s.tokens(), s.Par.TP)
	dst = s.activation(dst, &e.Activation, s.tokens(), s.Par.TP, alone)
	dst = s.linears(dst, s.Scheme, e.Out, s.tokens(), s.Par.TP)
	nameShared(dst[first:])
	return dst
}

func nameShared(ops []Op) {
	for i := range ops {
		switch ops[i].Name {
		case "gate_up_proj":
			ops[i].Name = "shared_gate_up_proj"
		case "up_proj":
			ops[i].Name = "shared_up_proj"
		case "down_proj":
			ops[i].Name = "shared_down_proj"
		case "activation":
			ops[i].Name = "shared_activation"
		}
	}
}

// router appends the scores of the experts and the choice of TopK of them.
func (s *Step) router(dst []Op, e *models.Experts) []Op {
	t, first := s.tokens(), len(dst)
	dst = s.linears(dst, s.Plain, e.Router, t, s.Par.TP)
	for i := first; i < len(dst); i++ {
		dst[i].Mixture = true
	}
	return append(dst, Op{
		Name: "top_k", Mixture: true, Experts: float64(e.Count), Pairs: t * float64(e.TopK), Kind: Element, Vector: unit.FLOPs(5 * t * float64(e.Count)),
		Acts: s.acts(t * float64(e.Count)), Kernels: 1, Eager: 6,
	})
}

// routed appends the experts that the router chose. Memory moves the distinct
// ones that the tokens of the step fall on, arithmetic runs TopK of them for
// every token; a rank of EP has its even share of both. Routing is taken as
// uniform: skew makes fewer experts busy, and the busiest slower.
func (s *Step) routed(dst []Op, m *models.Model, e *models.Experts) []Op {
	if s.Par.EP == 1 {
		return s.experts(dst, e)
	}
	size := s.acts(s.tokens() / float64(s.Par.TP) * float64(e.TopK) * float64(m.Hidden))
	dst = s.allToAll(dst, "all_to_all_dispatch", size)
	dst = s.experts(dst, e)
	return s.allToAll(dst, "all_to_all_combine", size)
}

// experts appends the grouped products of the experts chosen.
func (s *Step) experts(dst []Op, e *models.Experts) []Op {
	p := s.Par
	busy := float64(e.TopK) / float64(e.Count+e.Idle) * float64(e.Count) // of a token, not counting idle ones
	group := s.tokens() * float64(p.expertReplicas())
	hit := Distinct(float64(e.Count), busy, group) / float64(p.EP)
	rows := group * busy / float64(p.EP)
	first := len(dst)
	dst = s.grouped(dst, e.In, rows, busy, hit, e.In[0].In)
	dst = s.activation(dst, &e.Activation, rows, p.expertTP(), behindExperts)
	dst = s.grouped(dst, e.Out, rows, busy, hit, e.Out[0].Out)
	for i := first; i < len(dst); i++ {
		dst[i].Experts, dst[i].Busy, dst[i].Tokens, dst[i].Up = float64(e.Count), busy, group, i == first
		dst[i].Within = i > first && s.fusesMixture(e)
		switch dst[i].Name {
		case "activation":
			dst[i].Name = "experts_activation"
		case "gate_up_proj":
			dst[i].Name = "experts_gate_up"
		case "up_proj":
			dst[i].Name = "experts_up"
		case "down_proj":
			dst[i].Name = "experts_down"
		}
	}
	return dst
}

// grouped appends products of rows rows in all with the weights of hit experts. Each row
// has hidden values of the stream, ahead of the products or behind them.
func (s *Step) grouped(dst []Op, ls []models.Linear, rows, busy, hit float64, hidden int) []Op {
	first := len(dst)
	dst = s.linears(dst, s.Scheme, ls, rows, s.Par.expertTP())
	for i := first; i < len(dst); i++ {
		o := &dst[i]
		o.Weights = o.Weights.Times(hit)
		o.Model = o.Model.Times(s.tokens() * busy / rows)
		o.Eager *= max(hit, 1) // an expert after the other
		o.Ride = alone         // kernels of experts are others
		o.Mixture, o.Pairs, o.Hit = true, rows, hit
		if i == first {
			o.Ordered = s.acts(rows * float64(hidden))
		}
	}
	return dst
}

// GroupPairs is how many pairs of one expert the native engine multiplies together in a decode step
// (pairsOfGroup in measure/engine/native), and PairByPair up to how many sequences the experts'
// first product reads an expert for each pair instead. A test there holds them together.
const (
	GroupPairs = 8
	PairByPair = 16
)

// groups is how many groups of up to GroupPairs pairs of one expert a product of experts has.
func (o *Op) groups() float64 {
	share := o.Pairs / (o.Tokens * o.Busy) // of the experts, one rank's
	return Groups(o.Experts, o.Busy, o.Tokens, GroupPairs) * share
}

// ExpertTile is how many pairs of one expert the native engine multiplies together in a prompt: by
// wgmma on compute capability 9.0, else by mma (pairsOfItem and pairsOfTile there).
func ExpertTile(g *hardware.GPU) float64 {
	if g.ComputeCapability == "9.0" {
		return 160
	}
	return 64
}

// Reread is how often weights of an expert are read from memory by a product whose tiles have so many
// pairs: what is more of them than the L2 holds, for every tile again. Of a GPU whose L2 no table has it is once.
func Reread(g *hardware.GPU, expert unit.Bytes, pairs float64) float64 {
	if g.L2 == 0 {
		return 1
	}
	tiles := max(1, pairs/ExpertTile(g))
	return 1 + (tiles-1)*max(0, 1-float64(g.L2/expert))
}

// Distinct is the expected number of different experts among count that tokens
// touch when each takes k at random: E·(1 − (1 − k/E)^T).
func Distinct(count, k, tokens float64) float64 {
	if k >= count {
		return count
	}
	return -count * math.Expm1(tokens*math.Log1p(-k/count))
}

// Groups is the expected number of groups of up to size tokens, each of one expert, where
// every one of so many tokens takes k of count experts at random: of an expert that n tokens
// take there are ⌈n/size⌉, and n is binomial. Of tokens that are no whole number it lies on
// the line between those on either side.
func Groups(count, k, tokens float64, size int) float64 {
	low := math.Floor(tokens)
	groups := groupsOf(count, k, int(low), size)
	if tokens > low {
		groups += (tokens - low) * (groupsOf(count, k, int(low)+1, size) - groups)
	}
	return groups
}

func groupsOf(count, k float64, tokens, size int) float64 {
	if k >= count {
		return count * float64((tokens+size-1)/size)
	}
	odds := k / (count - k)
	p := math.Exp(float64(tokens) * math.Log1p(-k/count)) // that nobody takes it
	groups := 0.0
	for n := 1; n <= tokens; n++ {
		p *= odds * float64(tokens-n+1) / float64(n)
		groups += p * float64((n+size-1)/size)
	}
	return count * groups
}
