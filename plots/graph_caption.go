package plots

import (
	"fmt"
	"strings"

	"llmprof/analytic"
)

// graphCaption names all that the figures of a graph depend on, as
// "llama2-70b · 8 × A100 SXM 80GB · native engine · TP 8 · batch 32 · prompt 1024,
// context 1152 · bf16 · llmprof".
func graphCaption(c *analytic.Case) string {
	parts := machineParts(c)
	if e := c.Machine.Engine.Name; e != "" {
		parts = append(parts, e+" engine")
	}
	parts = append(parts, splitParts(&c.Parallel)...)
	if c.Parallel.SP {
		parts = append(parts, "SP")
	}
	if n := c.Parallel.MicroBatches; n > 1 {
		parts = append(parts, fmt.Sprintf("%d micro-batches", n))
	}
	w := &c.Workload
	parts = append(parts, fmt.Sprintf("batch %d", w.Batch), contextPart(w), FormatName(&c.Scheme), "llmprof")
	return strings.Join(parts, " · ")
}

// contextPart is the prompt, and the context that it makes with what is generated.
func contextPart(w *analytic.Workload) string {
	s := fmt.Sprintf("prompt %d", w.Prompt)
	if w.CachedPrefix > 0 {
		s += fmt.Sprintf(" (%d cached)", w.CachedPrefix)
	}
	if w.Chunk > 0 && w.Chunk < w.Prompt {
		s += fmt.Sprintf(" in chunks of %d", w.Chunk)
	}
	return s + fmt.Sprintf(", context %d", w.Prompt+w.Gen)
}
