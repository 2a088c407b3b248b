package deployment

import (
	"slices"

	"llmprof/analytic"
	"llmprof/hardware"
	"llmprof/unit"
)

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
