package experiment

import (
	"slices"

	"llmprof/input"
	"llmprof/measure/experiment/tree"
)

// longAnswer is the generated length above which a slip is more likely than intent.
const longAnswer = 2048

// advise warns of points that run but show less than they seem to.
func (r *reader) advise(p *Point, from *plan) {
	warn := func(bad bool, key, format string, args ...any) {
		if !bad || len(r.warnings) >= mostMistakes {
			return
		}
		at := from.base.At
		for _, n := range []*tree.Node{from.base, from.grid} {
			if n != nil && n.Get(key) != nil {
				at = n.Get(key).At
			}
		}
		m := at.Mistake(format, args...)
		if !slices.ContainsFunc(r.warnings, func(w *input.Mistake) bool { return *w == *m }) {
			r.warnings = append(r.warnings, m)
		}
	}
	warn(p.Replicas > 1 && len(p.GPUs) == 0, "replicas",
		"replicas: %d processes without gpus: on a machine with fewer GPUs they share one, and each one's energy is that of all", p.Replicas)
	warn(len(p.GPUs) > 0 && p.TP == 1 && p.Replicas > len(p.GPUs), "replicas",
		"replicas: %d processes on %d GPUs: those that share one slow each other down, and its energy cannot be attributed to one of them", p.Replicas, len(p.GPUs))
	warn(p.GenLen > longAnswer, "gen_len", "gen_len: %d tokens take long, and much memory for the cache", p.GenLen)
	warn(p.Quantization != "" && p.DType == "fp32", "quantization",
		"quantization: %s weights with fp32 activations: products run in fp32, which saves memory and no time; dtype = \"bf16\" is usual", p.Quantization)
	warn(p.Energy && p.Engine == OpenAI && p.EngineCmd == "" && len(p.GPUs) == 0, "energy",
		"energy: of a server that was started elsewhere nothing ties GPUs to it but their names (gpus), or that there is one; engine_cmd starts one around the run")
	warn(p.Elana && p.Batch > 1, "elana", "elana: ELANA's figures per token of a batch are of the whole step; here they are of one sequence")
}
