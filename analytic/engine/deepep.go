package engine

import (
	"fmt"
	"strings"

	"llmprof/analytic"
	"llmprof/models"
	"llmprof/parallel"
)

// deepEP ends the name of an engine whose ranks of EP send each token by DeepEP to the ranks alone that have its experts.
const deepEP = "+deepep"

// withDeepEP is vLLM with --all2all-backend deepep_high_throughput or deepep_low_latency, or SGLang with --moe-a2a-backend deepep.
func withDeepEP(e analytic.Engine) (analytic.Engine, error) {
	g, ok := e.(*graphed)
	if !ok || !g.gathers {
		return nil, fmt.Errorf("%s%s: only vllm and sglang run with DeepEP instead of all-gathers", e.Profile().Name, deepEP)
	}
	with, split := *g, g.profile.Support.Split
	with.gathers, with.sumsPrompts = false, false
	p := &with.profile
	p.Name += deepEP
	p.Source = "tokens of experts sent by DeepEP, of which nothing was measured here: " + p.Source
	p.Support.Split = func(w *parallel.Parallelism) string {
		if w.ExpertReplicas() == 1 || w.GathersTokens() {
			return "has no replicas that send tokens to whole experts: want --dp above 1 and as many --ep as --tp × --dp"
		}
		return split(w)
	}
	return &with, nil
}

// Gathers says that ranks over several nodes all-gather their tokens; "" where they do not.
func Gathers(e analytic.Engine, m *models.Model, p *parallel.Parallelism) string {
	g, ok := e.(*graphed)
	w := p.Whole()
	if !ok || !g.gathers || !m.HasExperts() || w.ExpertReplicas() == 1 || w.GathersTokens() || w.ExpertRanks() <= w.GPUsPerNode {
		return ""
	}
	return fmt.Sprintf("every rank gathers the tokens of all %d, as %s has it by default; --engine %s%s sends them to their experts alone", w.ExpertRanks(), g.profile.Engine(), g.profile.Name, deepEP)
}

// SendsByDeepEP reports whether an engine is one with DeepEP.
func SendsByDeepEP(e analytic.Engine) bool { return strings.HasSuffix(e.Profile().Name, deepEP) }
