package operator

import (
	"cmp"
	"fmt"

	"llmprof/models"
)

// Parallelism says how a model is split over GPUs. The zero value of a degree
// is 1. Ranks of a TP group sit side by side in a node, then the stages of the
// pipeline, then the replicas.
type Parallelism struct {
	TP int  // tensor parallelism: every matrix is cut (Megatron-LM, arXiv:1909.08053)
	PP int  // pipeline parallelism: every stage has some of the layers
	EP int  // expert parallelism: every rank of EP has some of the experts
	DP int  // replicas, each with its batch
	SP bool // sequence parallelism: norms run on a part of the tokens (arXiv:2205.05198)

	// MoETP is the tensor parallelism within one expert, where it is given: with EP it says how many ranks hold one set of
	// experts, and several replicas share a set of more ranks than TP. At 0 it is what EP leaves of TP.
	MoETP int

	MicroBatches int // parts of the batch that follow each other through the pipeline
	GPUsPerNode  int // 0 for all in one node
}

// Whole is p with every degree at least 1.
func (p Parallelism) Whole() Parallelism {
	p.TP, p.PP, p.EP, p.DP = max(p.TP, 1), max(p.PP, 1), max(p.EP, 1), max(p.DP, 1)
	p.MicroBatches = max(p.MicroBatches, 1)
	if p.GPUsPerNode <= 0 {
		p.GPUsPerNode = p.GPUs()
	}
	return p
}

// GPUs is the number of GPUs of all replicas.
func (p Parallelism) GPUs() int { return max(p.TP, 1) * max(p.PP, 1) * max(p.DP, 1) }

// Nodes is the number of nodes that the GPUs fill.
func (p Parallelism) Nodes() int {
	if p.GPUsPerNode <= 0 {
		return 1
	}
	return (p.GPUs() + p.GPUsPerNode - 1) / p.GPUsPerNode
}

// ExpertTP is the tensor parallelism within one expert.
func (p *Parallelism) ExpertTP() int {
	return cmp.Or(max(p.MoETP, 0), max(p.TP, 1)/max(p.EP, 1), 1)
}

// ExpertRanks is the number of ranks that hold one set of experts.
func (p *Parallelism) ExpertRanks() int { return max(p.EP, 1) * p.ExpertTP() }

// ExpertReplicas is the number of replicas that share one set of experts.
func (p *Parallelism) ExpertReplicas() int { return max(p.ExpertRanks()/max(p.TP, 1), 1) }

// GathersTokens reports whether replicas that share experts need each other's tokens on every rank, since the experts are
// cut: no rank has a whole expert to which tokens could be sent alone.
func (p *Parallelism) GathersTokens() bool { return p.ExpertReplicas() > 1 && p.ExpertTP() > 1 }

// StageShare is the share of the layers in the longest stage.
func (p *Parallelism) StageShare(layers int) float64 {
	return float64((layers+p.PP-1)/p.PP) / float64(layers)
}

const maxGPUs = 1 << 20

// Check returns what is wrong with the degrees, if anything is.
func (p *Parallelism) Check() error {
	for _, d := range [...]struct {
		name string
		n    int
	}{{"tp", p.TP}, {"pp", p.PP}, {"ep", p.EP}, {"dp", p.DP}, {"moe-tp", p.MoETP}, {"micro-batches", p.MicroBatches},
		{"gpus-per-node", p.GPUsPerNode}} {
		if d.n < 0 || d.n > maxGPUs {
			return fmt.Errorf("%s is %d: it must be from 1 to %d", d.name, d.n, maxGPUs)
		}
	}
	w := p.Whole()
	if n := float64(w.TP) * float64(w.PP) * float64(w.DP); n > maxGPUs {
		return fmt.Errorf("tp × pp × dp is %.0f GPUs: at most %d are understood", n, maxGPUs)
	}
	switch {
	case w.SP && w.TP == 1:
		return fmt.Errorf("sequence parallelism splits the tokens over the TP ranks: it needs tp above 1")
	case w.MicroBatches > 1 && w.PP == 1:
		return fmt.Errorf("%d micro-batches: only a pipeline has them, give pp above 1", w.MicroBatches)
	case w.TP > w.GPUsPerNode && w.TP%w.GPUsPerNode != 0:
		return fmt.Errorf("tp %d over nodes of %d GPUs: a group that spans nodes has to fill them", w.TP, w.GPUsPerNode)
	}
	return w.checkExperts()
}

// checkExperts checks the rule of expert groups: the ranks that hold one set of experts are one TP group or several whole
// ones, or EP is a part of one TP group.
func (p *Parallelism) checkExperts() error {
	ranks := p.ExpertRanks()
	switch {
	case p.MoETP > 0 && ranks%p.TP != 0:
		return fmt.Errorf("moe-tp %d × ep %d is %d ranks for one set of experts: it has to be tp %d or a multiple of it, whole replicas that "+
			"share the experts", p.MoETP, p.EP, ranks, p.TP)
	case p.MoETP > 0 && p.TP*p.DP%ranks != 0:
		return fmt.Errorf("moe-tp %d × ep %d is %d ranks, which does not divide tp × dp = %d: experts are spread over the ranks of tp and dp",
			p.MoETP, p.EP, ranks, p.TP*p.DP)
	case p.EP == 1 || p.MoETP > 0:
		return nil
	case p.TP*p.DP%p.EP != 0:
		return fmt.Errorf("ep %d does not divide tp × dp = %d: experts are spread over the ranks of tp and dp", p.EP, p.TP*p.DP)
	case p.EP < p.TP && p.TP%p.EP != 0, p.EP > p.TP && p.EP%p.TP != 0:
		return fmt.Errorf("ep %d and tp %d: one has to be a multiple of the other", p.EP, p.TP)
	}
	return nil
}

// CheckModel returns why m cannot be split by p, whose degrees are at least 1, if it cannot.
func (p *Parallelism) CheckModel(m *models.Model) error {
	if p.PP > 1 && p.PP > m.NumLayers() {
		return fmt.Errorf("pp %d: %s has only %d layers", p.PP, m.Name, m.NumLayers())
	}
	for _, b := range m.Blocks() {
		if err := p.checkBlock(m, b); err != nil {
			return err
		}
	}
	switch {
	case m.HasExperts():
	case p.EP > 1:
		return fmt.Errorf("ep %d: %s has no experts", p.EP, m.Name)
	case p.MoETP > 0:
		return fmt.Errorf("moe-tp %d: %s has no experts", p.MoETP, m.Name)
	}
	return nil
}

// checkBlock checks that the degrees divide the matrices and the experts of a block.
func (p *Parallelism) checkBlock(m *models.Model, b *models.Block) error {
	err := cmp.Or(checkLinears(m, b, b.In, "tp", p.TP), checkLinears(m, b, b.Out, "tp", p.TP))
	e := b.Experts
	switch {
	case err != nil || e == nil:
		return err
	case e.Count%p.EP != 0:
		return fmt.Errorf("ep %d does not divide the %d experts of %s", p.EP, e.Count, m.Name)
	case p.MoETP > 0:
		err = checkLinears(m, b, e.In, "moe-tp", p.ExpertTP())
	default:
		err = checkLinears(m, b, e.In, "tp", p.ExpertTP())
	}
	if err == nil && e.Shared != nil {
		err = checkLinears(m, b, e.Shared.In, "tp", p.TP)
	}
	return err
}

// checkLinears checks that a degree of parallelism, named as its flag, divides matrices.
func checkLinears(m *models.Model, b *models.Block, ls []models.Linear, degree string, ranks int) error {
	for i := range ls {
		if l := &ls[i]; ranks > 1 && l.Parts(ranks) == 0 {
			what, n := "outputs", l.Out
			switch {
			case l.Heads > 0:
				what, n = "heads", l.Heads
			case l.Split == models.Rows:
				what, n = "inputs", l.In
			}
			return fmt.Errorf("%s %d does not divide the %d %s of %s in %s of %s", degree, ranks, n, what, l.Name, b.Name, m.Name)
		}
	}
	return nil
}

// Groups are the numbers of GPUs of a node that talk to each other: of a TP group, of neighbouring stages, and of ranks that exchange
// tokens of experts.
func (p *Parallelism) Groups() []int {
	w := p.Whole()
	all := []int{min(w.TP, w.GPUsPerNode)}
	if near, _ := w.Hops(); near > 0 {
		all = append(all, 2)
	}
	switch n := w.ExpertReplicas(); {
	case w.GathersTokens():
		all = append(all, min(n, max(w.GPUsPerNode/w.TP, 1)))
	case n > 1:
		all = append(all, min(w.EP, w.GPUsPerNode))
	}
	return all
}

// Hops counts the borders between stages within a node and between nodes.
func (p *Parallelism) Hops() (near, far float64) {
	stride := p.TP * p.ExpertReplicas()
	for stage := 1; stage < p.PP; stage++ {
		last := (stage*stride - 1) / p.GPUsPerNode
		if stage*stride/p.GPUsPerNode == last {
			near++
		} else {
			far++
		}
	}
	return near, far
}
