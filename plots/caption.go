package plots

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"llmprof/analytic"
)

// fixed is the variable of a picture that varies nothing.
const fixed Variable = ""

// Caption names all that the figures of a picture depend on, as
// "llama2-70b · 8 × A100 SXM 80GB · native engine · TP 8 · batch 32 · prompt 1024,
// context 1152 · weights, KV, activations bf16 · llmprof".
func Caption(c *analytic.Case) string { return SweepCaption(fixed, c) }

// SweepCaption is the caption of a picture of several cases, with what it varies
// left open. Where they differ it names each of them once, in their order.
func SweepCaption(v Variable, cases ...*analytic.Case) string {
	var parts []string
	for _, of := range []func(*analytic.Case, Variable) string{
		func(c *analytic.Case, _ Variable) string { return c.Model.Name },
		gpusPart, enginePart, splitsPart, batchPart, contextPart, formatsPart,
	} {
		var texts []string
		for _, c := range cases {
			if s := of(c, v); s != "" && !slices.Contains(texts, s) {
				texts = append(texts, s)
			}
		}
		if len(texts) > 0 {
			parts = append(parts, strings.Join(texts, alternative))
		}
	}
	return printable(strings.Join(append(parts, "llmprof"), separator))
}

// These stand between the parts of a caption, and between what one part may be.
const (
	separator   = " · "
	alternative = " or "
)

// gpusPart is the GPUs and how many of them there are.
func gpusPart(c *analytic.Case, v Variable) string {
	if n := c.Parallel.GPUs(); n > 1 && v != ByTP {
		return fmt.Sprintf("%d × %s", n, c.Machine.GPU.Name)
	}
	return c.Machine.GPU.Name
}

func enginePart(c *analytic.Case, _ Variable) string {
	if e := c.Machine.Engine.Profile().Name; e != "" {
		return e + " engine"
	}
	return ""
}

// splitsPart is how the model is split: the degrees of parallelism above 1.
func splitsPart(c *analytic.Case, v Variable) string {
	p := &c.Parallel
	var parts []string
	for _, d := range [...]struct {
		name string
		n    *int
	}{{"TP", &p.TP}, {"PP", &p.PP}, {"EP", &p.EP}, {"MoE TP", &p.MoETP}, {"DP", &p.DP}} {
		switch {
		case v == ByTP && (d.n == &p.TP || d.n == expertRanks(p)):
			parts = append(parts, d.name+" varied")
		case *d.n > 1:
			parts = append(parts, fmt.Sprintf("%s %d", d.name, *d.n))
		}
	}
	if p.SP {
		parts = append(parts, "SP")
	}
	if n := p.MicroBatches; n > 1 {
		parts = append(parts, fmt.Sprintf("%d micro-batches", n))
	}
	return strings.Join(parts, separator)
}

func batchPart(c *analytic.Case, v Variable) string {
	if v == ByBatch {
		return "batch varied"
	}
	s := fmt.Sprintf("batch %d", c.Workload.Batch)
	if c.Parallel.DP > 1 {
		s += " a replica"
	}
	return s
}

// contextPart is the prompt, and the context that it makes with what is generated.
func contextPart(c *analytic.Case, v Variable) string {
	w := &c.Workload
	s := fmt.Sprintf("prompt %d", w.PromptLen)
	if v == ByContext {
		s = "prompt varied"
	}
	if w.CachedPrefix > 0 {
		s += fmt.Sprintf(" (%d cached)", w.CachedPrefix)
	}
	if w.Chunk > 0 && (v == ByContext || w.Chunk < w.PromptLen) {
		s += fmt.Sprintf(" in chunks of %d", w.Chunk)
	}
	if w.AllLogits {
		s += " with all logits"
	}
	if v == ByContext {
		return s + fmt.Sprintf(", %d generated", w.GenLen)
	}
	return s + fmt.Sprintf(", context %d", w.PromptLen+w.GenLen)
}

// formatsPart returns the number formats, and the scheme's name if they alone do not identify it.
func formatsPart(c *analytic.Case, _ Variable) string {
	s := c.Scheme.For(c.Machine.GPU)
	weights := s.Weights.String()
	if s.Name != weights && (s.Group > 0 || s.Experts || s.Zero) {
		weights += " (" + s.Name + ")"
	}
	kv, act := s.KV.String(), s.Act.String()
	switch {
	case weights == kv && kv == act:
		return "weights, KV, activations " + weights
	case weights == act:
		return "weights, activations " + weights + ", KV " + kv
	case kv == act:
		return "weights " + weights + ", KV, activations " + kv
	}
	return "weights " + weights + ", KV " + kv + ", activations " + act
}

// printable is text on one line without what no document may hold: control
// characters, what is not UTF-8, and what Unicode has no characters for.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, strings.ToValidUTF8(s, " "))
}
