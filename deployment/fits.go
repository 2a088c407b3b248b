package deployment

import (
	"fmt"
	"strings"

	"llmprof/analytic"
	"llmprof/analytic/sensitivity"
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
