// Package breakdown is an estimate operator by operator, with what a reader has to know before trusting it.
//
//	r, err := breakdown.Explain(&c)
//	layers := breakdown.Layers(r.DecodeOps)
package breakdown

import (
	"fmt"
	"strings"

	"llmprof/analytic"
	"llmprof/models"
	"llmprof/roofline"
	"llmprof/unit"
)

// A Report is an Estimate with its operators, and with what a reader has to know before
// trusting it.
type Report struct {
	analytic.Estimate
	PrefillOps []Operator // operators of the whole prompt
	DecodeOps  []Operator // operators of the mean decode step
	Context    float64    // mean context of a decode step, the new token included
	Count      models.FLOPCount
	Warnings   []unit.Warning
}

// An Operator is the sums of an operator of the model in a phase.
type Operator = analytic.Operator

// Explain is the estimate of a case, operator by operator.
func Explain(c *analytic.Case) (r Report, err error) {
	p, err := analytic.NewPredictor(c)
	if err != nil {
		return r, err
	}
	if r.Estimate, r.PrefillOps, r.DecodeOps, err = p.Explain(&c.Workload); err != nil {
		return r, err
	}
	r.Count = c.Model.FLOPCount()
	if r.Tokens > 0 {
		first := p.FirstDecode(&c.Workload)
		r.Context = first.Past + float64(r.Tokens-1)/2 + 1
	}
	r.Warnings = warnings(c, p, &r.Estimate, r.Computes())
	return r, nil
}

// Computes is the format in which most products with weights run in the prefill: engines round activations to it, and a
// GPU without a unit for it has another.
func (r *Report) Computes() (f unit.Format) {
	most := unit.FLOPs(0)
	for i := range r.PrefillOps {
		if o := &r.PrefillOps[i]; o.Weights > 0 && o.FLOPs > most {
			f, most = o.Format, o.FLOPs
		}
	}
	return f
}

// Warnings lists what a reader has to know of a case, whatever its workload.
func Warnings(c *analytic.Case) ([]unit.Warning, error) {
	p, err := analytic.NewPredictor(c)
	if err != nil {
		return nil, err
	}
	run, _ := c.Machine.Runs(c.Scheme.Act)
	return warnings(c, p, nil, run), nil
}

// warnings lists what a reader has to know: they do not stop the estimate, which is nil where there is none.
func warnings(c *analytic.Case, p *analytic.Predictor, e *analytic.Estimate, computes unit.Format) (all []unit.Warning) {
	add := func(code, format string, args ...any) { all = append(all, unit.Warn(code, format, args...)) }
	g, par := c.Machine.GPU, c.Parallel.Whole()
	if e != nil {
		warnMemory(c, e, add)
	}
	warnFormats(c, computes, add)
	if e != nil && e.Memory.Weights < g.L2 {
		add("weights_in_cache", "the weights (%v) fit into the L2 cache (%v): a step may read them faster than the floor, which takes them from "+
			"memory", e.Memory.Weights, g.L2)
	}
	if par.PP > 1 && par.MicroBatches == 1 {
		add("pipeline_idle", "one micro-batch keeps one of the %d pipeline stages busy at a time; more fill the others", par.PP)
	}
	if par.PP > 1 && par.MicroBatches > 1 && par.MicroBatches < par.PP {
		add("pipeline_idle", "%d micro-batches leave %d of %d pipeline stages idle in decode", par.MicroBatches, par.PP-par.MicroBatches, par.PP)
	}
	if _, known := g.Idle(); !known {
		idle := c.Machine.Cal.Constants[roofline.PowerIdle]
		add("idle_power_assumed", "no source gives the idle power of %s: %v assumed, %.0f %% of its limit", g.Name,
			unit.Watts(idle*float64(g.TDP)), 100*idle)
	}
	warnLimits(c.Machine, e, add)
	text, notes := c.Model.Priced()
	for _, note := range text {
		add("model", "%s", note)
	}
	if c.Model.HasExperts() && c.Popularity.Uniform() {
		add("experts_even", "experts are taken as chosen evenly and at random: skewed routing reads fewer of them and waits for the busiest")
	}
	for _, note := range notes {
		add("model", "%s", note)
	}
	for _, why := range p.Unmeasured() {
		add("unmeasured", "%s: the interval is as wide as such cases have shown", why)
	}
	return all
}

// warnMemory says that the workload does not fit.
func warnMemory(c *analytic.Case, e *analytic.Estimate, add func(string, string, ...any)) {
	if why := e.Memory.Refusal(); why != "" {
		add("memory_short", "%s", why)
	}
	if limit, need := c.Model.MaxContext, c.Workload.Context(); limit > 0 && need > limit {
		add("context_too_long", "context of %d tokens is over the %d that %s was made for", need, limit, c.Model.Name)
	}
}

// warnLimits says what limits below the board's own do.
func warnLimits(m *analytic.Machine, e *analytic.Estimate, add func(string, string, ...any)) {
	var set []string
	if c := m.Cap(); c.Limit > 0 {
		set = append(set, fmt.Sprintf("a power limit of %v, %v as shipped", c.Limit, m.GPU.TDP))
	}
	if c := m.Cap(); c.Clock > 0 {
		set = append(set, fmt.Sprintf("a clock of at most %v", c.Clock))
	}
	switch limits := strings.Join(set, " and "); {
	case len(set) == 0:
	case e == nil:
		add("limited", "each GPU has %s", limits)
	case e.Tokens > 0:
		add("limited", "each GPU has %s: its arithmetic takes %.2f times as long as in a burst in prefill and %.2f times in decode", limits,
			e.Prefill.Clock, e.Decode.Clock)
	default:
		add("limited", "each GPU has %s: its arithmetic takes %.2f times as long as in a burst in prefill", limits, e.Prefill.Clock)
	}
}

// warnFormats names the formats that run in another than was asked for.
func warnFormats(c *analytic.Case, computes unit.Format, add func(string, string, ...any)) {
	s, g := &c.Scheme, c.Machine.GPU
	if run, _ := c.Machine.Runs(s.Act); run != s.Act && run == computes {
		add("format_missing", "%s has no unit for %v: products run in %v", g.Name, s.Act, run)
	}
	if stream := s.Stream(); stream != s.Act {
		if run, _ := c.Machine.Runs(stream); run != stream {
			add("format_missing", "%s has no unit for %v: attention and the LM head run in %v", g.Name, stream, run)
		}
	}
	if s.Weights == unit.FP16 && !g.Has(unit.BF16) {
		add("format_replaced", "fp16 in place of bf16, which %s has no unit for", g.Name)
	}
}

// A Layer is the sum of the operators of all layers of one kind in a phase.
type Layer struct {
	Name  string // "" outside of the layers: embedding, head, host
	Count float64
	roofline.Work
	Floor, Expected unit.Seconds // sums over the operators
	Share           float64
}

// Layers sums operators by the kind of layer that they belong to, in order of appearance.
func Layers(ops []Operator) []Layer {
	var all []Layer
	for i := range ops {
		l := &ops[i]
		s := layerOf(&all, l.Layer)
		s.Count = max(s.Count, l.Layers)
		s.Add(&l.Work, 1)
		s.Floor += l.Floor
		s.Expected += l.Expected
		s.Share += l.Share
	}
	return all
}

func layerOf(all *[]Layer, name string) *Layer {
	for i := range *all {
		if s := &(*all)[i]; s.Name == name {
			return s
		}
	}
	*all = append(*all, Layer{Name: name})
	return &(*all)[len(*all)-1]
}
