package deployment

import (
	"fmt"
	"slices"
	"strings"

	"llmprof/analytic"
	"llmprof/analytic/sensitivity"
	"llmprof/hardware"
	"llmprof/unit"
)

// A Verdict says whether the workload can run at all.
type Verdict struct {
	Possible bool        `json:"possible"`
	Short    *unit.Bytes `json:"memory_short_bytes" jsonschema:"exclusiveMinimum=0"` // shortfall of one GPU; null where the memory suffices
	Over     *int        `json:"context_over_tokens" jsonschema:"minimum=1"`         // null where the model's context suffices
	Text     string      `json:"text"`
}

// Verdict says whether the workload can run at all, and what is missing.
func (ans *Answer) Verdict() Verdict {
	m := &ans.Memory
	v := Verdict{Possible: true, Text: "fits"}
	if why := m.Refusal(); why != "" {
		v.Possible, v.Text = false, why
		if short := m.Short(); short > 0 {
			v.Short = &short
		}
	}
	if over := ans.over(); over > 0 {
		text := ans.OverText(over)
		if v.Possible {
			v.Text = text
		} else {
			v.Text += "; " + text
		}
		v.Possible, v.Over = false, &over
	}
	return v
}

// over is by how many tokens prompt and answer are longer than the model takes; 0 if they are not.
func (ans *Answer) over() int {
	if ans.Model.MaxContext == 0 {
		return 0
	}
	return max(ans.Workload.Context()-ans.Model.MaxContext, 0)
}

// OverText says by how much the context is too long.
func (ans *Answer) OverText(over int) string {
	plural := "s"
	if over == 1 {
		plural = ""
	}
	return fmt.Sprintf("context too long by %d token%s: prompt and answer are %d, %s takes %d", over, plural, ans.Workload.Context(),
		ans.Model.Name, ans.Model.MaxContext)
}

// mostStages is how far a larger split is looked for.
const mostStages = 64

// choices are settings of which each would do.
type choices struct {
	all     []unit.Said
	between string
}

func (c *choices) add(format string, args ...any) { c.all = append(c.all, unit.Say(format, args...)) }

// In lists them with the names of settings.
func (c *choices) In(name func(key string) string) string {
	texts := make([]string, len(c.all))
	for i := range c.all {
		texts[i] = c.all[i].In(name)
	}
	return strings.Join(texts, c.between)
}

// whatFits says, for a case that does not fit, which changes would make it fit: more GPUs, a smaller batch or narrower weights on the same
// ones, or narrower weights on fewer more. None of them lets the model take a context that is too long. It is nil for a case that fits.
func (ans *Answer) whatFits() *unit.Warning {
	if ans.Memory.Fits() || ans.over() > 0 || ans.Offload != nil {
		return nil
	}
	hints := &choices{between: ", or with "}
	split, wide := largerSplit(ans.Case)
	if wide {
		hints.add("%v", splitOf(&split))
	}
	if most := ans.Memory.MaxBatch; most > 0 && most < ans.Workload.Batch {
		hints.add("{batch} %d on the same GPUs", most)
	}
	if narrow, said, ok := ans.narrowerWeights(); ok && (!wide || narrow.GPUs() < split.GPUs()) {
		hints.add("%v", said)
	}
	if ans.fitsAtHome() {
		hints.add("{fit}, a part of it in host memory")
	}
	if len(hints.all) == 0 {
		return new(unit.Warn("fits_nowhere", "no split over nodes of this GPU makes it fit"))
	}
	return new(unit.Warn("fits_with", "it fits with %v", hints))
}

// narrowerWeights finds the widest weights narrower than those of the case that fit on its GPUs; failing these, those that fit on the
// fewest more.
func (ans *Answer) narrowerWeights() (split analytic.Parallelism, said unit.Said, ok bool) {
	for name, c := range sensitivity.Narrowed(&ans.Case) {
		if fits(&c) {
			return c.Parallel, unit.Say("{weights} %s", name), true
		}
		if p, wide := largerSplit(c); wide && (!ok || p.GPUs() < split.GPUs()) {
			split, said, ok = p, unit.Say("{weights} %s %v", name, splitOf(&p)), true
		}
	}
	return split, said, ok
}

// largerSplit doubles TP up to a node, then the stages of a pipeline, until c fits.
func largerSplit(c analytic.Case) (split analytic.Parallelism, ok bool) {
	node := max(c.Parallel.GPUsPerNode, 1)
	for c.Parallel.TP*2 <= node {
		c.Parallel.TP *= 2
		if fits(&c) {
			return c.Parallel, true
		}
	}
	for c.Parallel.PP*2 <= mostStages {
		c.Parallel.PP *= 2
		if fits(&c) {
			return c.Parallel, true
		}
	}
	return c.Parallel, false
}

func splitOf(p *analytic.Parallelism) unit.Said {
	if p.PP > 1 {
		return unit.Say("{tp} %d {pp} %d", p.TP, p.PP)
	}
	return unit.Say("{tp} %d", p.TP)
}

func fits(c *analytic.Case) bool {
	e, err := analytic.Predict(c)
	return err == nil && e.Memory.Fits()
}

// unused refuses settings that nothing about the deployment depends on.
func (d *Deployment) unused() error {
	q, whole := d.Request, d.Parallel.Whole()
	alone := whole.TP*whole.PP*whole.ExpertReplicas() == 1
	switch {
	case q.GPUsPerNode != nil && whole.GPUs() == 1:
		return unit.Errorf("{gpus_per_node}: one GPU needs no node; give {tp}, {pp} or {dp}")
	case q.LinkEff != nil && alone:
		return unit.Errorf("{link_eff}: nothing is sent between GPUs; give {tp}, {pp}, {ep} or {moe_tp}")
	case q.InterNodeEff != nil && (alone || d.Parallel.Nodes() == 1):
		return unit.Errorf("{inter_node_eff}: all %d GPUs are in one node of %d; give a smaller {gpus_per_node} or more GPUs",
			whole.GPUs(), d.Parallel.GPUsPerNode)
	case q.KV != unit.NoFormat && d.Model.CacheBytes(1, d.Scheme.KV) == 0:
		return unit.Errorf("{kv}: %s has no KV cache, its state does not grow", d.Model.Name)
	}
	groups := d.Parallel.Groups()
	for _, c := range hardware.LinkChoices() {
		l := q.links()
		if !*c.Of(&l) {
			continue
		}
		if *c.Of(&l) = false; d.GPU.Linked(l).SameRoutes(d.GPU, groups) {
			return IdleLink(c.Name)
		}
	}
	return nil
}

// CountsPrefixes is an error where prefix caching is turned on or off and no memory depends on it, as none but that of recurrent states
// does.
func (d *Deployment) CountsPrefixes() error {
	key := d.Request.given("no_prefix_cache", "prefix_cache")
	switch {
	case key == "":
		return nil
	case d.Request.NoCache && d.Request.Cache:
		return unit.Errorf("{prefix_cache} and {no_prefix_cache} contradict each other")
	}
	asked, err := d.Predictor()
	if err != nil {
		return err
	}
	byDefault := d.Case
	byDefault.Settings.NoPrefixCache, byDefault.Settings.PrefixCache = false, false
	other, err := analytic.NewPredictor(&byDefault)
	if err != nil {
		return unit.Wrong(err)
	}
	if other.Memory(&d.Workload) != asked.Memory(&d.Workload) {
		return nil
	}
	return unit.Errorf("{"+key+"}: no memory of %s depends on it under %s; simulate counts it of a trace whose prompts share prefixes",
		d.Model.Name, d.runs.Profile().Name)
}

// IdleLink is the error of a setting about links that changes nothing.
func IdleLink(name string) error {
	return unit.Errorf("{"+name+"}: %s; give other GPUs, or {tp}, {pp} or {ep}", map[string]string{
		"p2p":    "no GPUs talk over PCIe whose driver refuses peer access",
		"no_p2p": "no GPUs talk over PCIe that are taken to have peer access",
		"nvlink": "no GPUs talk that a bridge could join",
	}[name])
}

// linked says how the GPUs are taken to be linked and, where there is an estimate, what TPOT would be if one setting about it were turned.
// It is nil where no setting would change anything.
func (d *Deployment) linked(estimated bool) (*unit.Warning, error) {
	groups := d.Parallel.Groups()
	others := &choices{between: ", "}
	for _, c := range hardware.LinkChoices() {
		l, with := d.Request.links(), "with"
		if turned := c.Of(&l); *turned {
			*turned, with = false, "without"
		} else {
			*turned = true
		}
		g := d.GPU.Linked(l)
		if g.SameRoutes(d.GPU, groups) {
			continue
		}
		if !estimated {
			others.add("{" + c.Name + "}")
			continue
		}
		other, err := d.machine(g)
		if err != nil {
			return nil, err
		}
		changed := d.Case
		changed.Machine = other
		e, err := analytic.Predict(&changed)
		if err != nil {
			return nil, err
		}
		others.add("%v %s {"+c.Name+"}", unit.Around(e.TPOT.Expected, e.TPOT.Low, e.TPOT.High), with)
	}
	switch route := d.GPU.Route(slices.Max(groups)); {
	case len(others.all) == 0:
		return nil, nil
	case estimated:
		return new(unit.Warn("links_assumed", "GPUs are taken to talk %s; TPOT is %v", route, others)), nil
	default:
		return new(unit.Warn("links_assumed", "GPUs are taken to talk %s; it would be another way with %v", route, others)), nil
	}
}

// idle notes limits that the workload does not reach.
func (ans *Answer) idle() {
	w := &ans.Workload
	fresh := w.PromptLen - w.CachedPrefix
	if w.Chunk >= fresh {
		ans.Warnings = append(ans.Warnings, unit.Warn("chunk_idle", "{chunk} %d: the %d tokens of the prefill take one step", w.Chunk, fresh))
	}
	if w.AllLogits && fresh == 1 {
		ans.Warnings = append(ans.Warnings, unit.Warn("logits_idle", "{all_logits}: the prefill has one position"))
	}
}
