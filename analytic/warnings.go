package analytic

import (
	"fmt"

	"llmprof/roofline"
	"llmprof/unit"
)

// warnings lists what a reader has to know: they do not stop the estimate.
func (c *Case) warnings(par *Parallelism, e *Estimate) []string {
	var w []string
	add := func(format string, args ...any) { w = append(w, fmt.Sprintf(format, args...)) }
	m, g := &e.Memory, c.Machine.GPU
	if !m.Fits() {
		add("does not fit: %v needed of the %v of one %s, %v short", m.Total, m.Capacity, g.Name, m.Total-m.Capacity)
	}
	if limit, need := c.Model.MaxContext, c.Workload.context(); limit > 0 && need > limit {
		add("context of %d tokens is over the %d that %s was made for", need, limit, c.Model.Name)
	}
	c.warnFormats(add)
	if weights := m.Weights; weights < g.L2 {
		add("the weights (%v) fit into the L2 cache (%v): a step may read them faster than the floor, which takes them from memory", weights, g.L2)
	}
	if par.PP > 1 && par.MicroBatches == 1 {
		add("one micro-batch keeps one of the %d pipeline stages busy at a time; more fill the others", par.PP)
	}
	if par.PP > 1 && par.MicroBatches > 1 && par.MicroBatches < par.PP {
		add("%d micro-batches leave %d of %d pipeline stages idle in decode", par.MicroBatches, par.PP-par.MicroBatches, par.PP)
	}
	if !e.Energy.IdleKnown {
		add("no source gives the idle power of %s: %v assumed, %.0f %% of its limit", g.Name, unit.Watts(c.Machine.constant(roofline.PowerIdle)*float64(g.TDP)), 100*c.Machine.constant(roofline.PowerIdle))
	}
	if c.hasExperts() {
		add("experts are taken as chosen evenly and at random: skewed routing reads fewer of them and waits for the busiest")
	}
	return append(w, c.Model.Notes...)
}

// warnFormats names the formats that run in another than was asked for.
func (c *Case) warnFormats(add func(string, ...any)) {
	s, g := &c.Scheme, c.Machine.GPU
	if run, _ := c.Machine.Runs(s.Act); run != s.Act {
		add("%s has no unit for %v: products run in %v", g.Name, s.Act, run)
	}
	if stream := s.Stream(); stream != s.Act {
		if run, _ := c.Machine.Runs(stream); run != stream {
			add("%s has no unit for %v: attention and the LM head run in %v", g.Name, stream, run)
		}
	}
	if s.Weights == unit.FP16 && !g.Has(unit.BF16) {
		add("fp16 in place of bf16, which %s has no unit for", g.Name)
	}
}

// hasExperts reports whether any layer routes its tokens.
func (c *Case) hasExperts() bool {
	for i := range c.Model.Layers {
		for j := range c.Model.Layers[i].Blocks {
			if c.Model.Layers[i].Blocks[j].Experts != nil {
				return true
			}
		}
	}
	return false
}
