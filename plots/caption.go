package plots

import (
	"fmt"
	"strings"

	"llmprof/analytic"
	"llmprof/unit"
)

// Caption names the configuration that a picture is of, as
// "llama2-70b · 8 × A100 SXM 80GB · TP 8 · batch 32 · 1024+128 · bf16 · llmprof".
func Caption(c *analytic.Case) string {
	parts := append(machineParts(c), splitParts(&c.Parallel)...)
	parts = append(parts, fmt.Sprintf("batch %d", c.Workload.Batch), lengths(&c.Workload))
	return strings.Join(append(parts, FormatName(&c.Scheme), "llmprof"), " · ")
}

// machineParts are the model and the GPUs.
func machineParts(c *analytic.Case) []string {
	gpu := c.Machine.GPU.Name
	if n := c.Parallel.GPUs(); n > 1 {
		gpu = fmt.Sprintf("%d × %s", n, gpu)
	}
	return []string{c.Model.Name, gpu}
}

// splitParts are the degrees of parallelism above 1.
func splitParts(p *analytic.Parallelism) (parts []string) {
	for _, d := range [...]struct {
		name string
		n    int
	}{{"TP", p.TP}, {"PP", p.PP}, {"EP", p.EP}, {"DP", p.DP}} {
		if d.n > 1 {
			parts = append(parts, fmt.Sprintf("%s %d", d.name, d.n))
		}
	}
	return parts
}

// lengths are the tokens of prompt and answer.
func lengths(w *analytic.Workload) string {
	s := fmt.Sprintf("%d+%d tokens", w.Prompt, w.Gen)
	if w.CachedPrefix > 0 {
		s += fmt.Sprintf(", %d cached", w.CachedPrefix)
	}
	if w.Chunk > 0 && w.Chunk < w.Prompt {
		s += fmt.Sprintf(", chunks of %d", w.Chunk)
	}
	return s
}

// FormatName is a scheme as captions name it: the format alone where weights and
// products have the same.
func FormatName(s *analytic.Scheme) string {
	name := s.Weights.String()
	if s.Weights != s.Act || s.Group > 0 {
		name = s.Name
	}
	if s.KV != unit.NoFormat && s.KV != s.Act {
		name += ", KV " + s.KV.String()
	}
	return name
}
