package plots

import (
	"slices"
	"strings"

	"llmprof/analytic/breakdown"
	"llmprof/analytic/operator"
	"llmprof/models"
)

// A group is a kind of operator that breakdowns add up.
type group uint8

// The groups, in the order in which a breakdown shows them.
const (
	attentionProjections group = iota
	attentionCore
	feedForward
	experts
	sharedExperts
	routers
	scanProjections
	scanCore
	embeddings
	lmHead
	elementwise
	collectives
	host
	other
	numGroups
)

// String names a group.
func (g group) String() string {
	return [numGroups]string{
		"attention projections", "attention", "feed-forward", "routed experts", "shared experts", "router",
		"scan projections", "scan", "embedding", "LM head", "norms, element-wise", "collectives", "host", "other",
	}[min(g, other)]
}

// groupOf finds the group of an operator: of a GEMM by the block of the model
// whose matrix it is, of what else there is by its kind.
func groupOf(m *models.Model, l *breakdown.Operator) group {
	switch {
	case l.Kind == operator.Collective:
		return collectives
	case l.Name == "host":
		return host
	case l.Kind == operator.Attention:
		return attentionCore
	case l.Name == "embedding":
		return embeddings
	case l.Name == "lm_head":
		return lmHead
	case l.State > 0 || strings.HasSuffix(l.Name, "scan"):
		return scanCore
	case l.Kind == operator.Element:
		return elementwise
	}
	return groupOfGEMM(m, l)
}

// groupOfGEMM finds the group of a GEMM with weights.
func groupOfGEMM(m *models.Model, l *breakdown.Operator) group {
	switch at := slices.IndexFunc(m.Layers, func(k models.Layer) bool { return k.Name == l.Layer }); {
	case strings.HasPrefix(l.Name, "experts"):
		return experts
	case strings.HasPrefix(l.Name, "shared"):
		return sharedExperts
	case strings.HasPrefix(l.Name, "router"):
		return routers
	case at >= 0 && l.Block < len(m.Layers[at].Blocks):
		return groupOfBlock(&m.Layers[at].Blocks[l.Block])
	}
	return other
}

// groupOfBlock is the group of the matrices of a block, its experts aside.
func groupOfBlock(b *models.Block) group {
	switch {
	case b.Attention != nil:
		return attentionProjections
	case b.Scan != nil:
		return scanProjections
	}
	return feedForward
}

func paramsByGroup(m *models.Model) (n [numGroups]float64) {
	var sum int64
	add := func(g group, params int64) {
		n[g] += float64(params)
		sum += params
	}
	for i := range m.Layers {
		l := &m.Layers[i]
		for j := range l.Blocks {
			b := &l.Blocks[j]
			if b.Reused {
				continue
			}
			for g, params := range blockParams(b) {
				add(group(g), params*int64(l.Count))
			}
		}
	}
	add(embeddings, m.EmbeddingParams())
	if !m.TiedHead {
		add(lmHead, m.Head.Params())
	}
	n[elementwise] += float64(m.Params() - sum) // final norms
	return n
}

// blockParams counts the parameters of a block by group; they add up to all of it.
func blockParams(b *models.Block) (n [numGroups]int64) {
	rest := b.Params()
	take := func(g group, params int64) {
		params = min(params, rest)
		n[g] += params
		rest -= params
	}
	norms := b.Extra
	for _, x := range b.Norms {
		norms += x.Params
	}
	take(elementwise, norms)
	if e := b.Experts; e != nil {
		take(routers, linearParams(e.Router))
		if e.Shared != nil {
			take(sharedExperts, linearParams(e.Shared.In)+linearParams(e.Shared.Out))
		}
		take(experts, int64(e.Count)*(linearParams(e.In)+linearParams(e.Out)))
	}
	take(groupOfBlock(b), rest)
	return n
}

func linearParams(ls []models.Linear) (n int64) {
	for _, l := range ls {
		n += l.Params()
	}
	return n
}
