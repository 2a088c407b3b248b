package engine

import (
	"fmt"

	"llmprof/analytic"
	"llmprof/analytic/operator"
	"llmprof/models"
	"llmprof/unit"
)

// Splits is nil if an engine can split a model with a scheme over GPUs as p has it. Else it says why not.
func Splits(e analytic.Engine, m *models.Model, s *models.Scheme, p *operator.Parallelism) error {
	profile, w, why := e.Profile(), p.Whole(), ""
	split := profile.Support.Split
	if split == nil {
		split = sharesWhole
	}
	switch own, _ := e.(*Engine); {
	case !m.HasExperts() && own != nil && own.has(deepEP):
		return fmt.Errorf("%s: %s has no experts to send tokens to", profile.Name, m.Name)
	case !m.HasExperts():
		return nil
	default:
		why = split(&w)
	}
	if why == "" && profile.Support.WholeBlocks {
		why = cutsBlocks(m, s, w.ExpertTP())
	}
	if why == "" {
		return nil
	}
	return fmt.Errorf("%s %s", profile.Name, why)
}

// Notes say what is to be known of an engine that runs a model with a split: what stands for a release that was not measured, replicas
// that are not those of one server, and tokens that ranks over several nodes all-gather.
func Notes(from analytic.Engine, m *models.Model, p *operator.Parallelism) (notes []unit.Warning) {
	e, w := from.(*Engine), p.Whole()
	if text := e.profile.Unmeasured; text != "" {
		notes = append(notes, unit.Warn("engine_unmeasured", "%s", text))
	}
	if e.note != nil {
		notes = append(notes, e.note(m, &w)...)
	}
	gathers := e.kernels[operator.Shuffle] != nil
	if !gathers || !m.HasExperts() || w.ExpertReplicas() == 1 || w.GathersTokens() || w.ExpertRanks() <= w.GPUsPerNode {
		return notes
	}
	return append(notes, unit.Warn("tokens_gathered", "every rank gathers the tokens of all %d, as %s has it by default; {engine} %s+%s "+
		"sends them to their experts alone", w.ExpertRanks(), e.profile.Engine(), e.profile.Name, deepEP))
}

// sharesWhole is the rule of engines without replicas that have parts of the same experts.
func sharesWhole(p *operator.Parallelism) string {
	if p.GathersTokens() {
		return fmt.Sprintf("has no replicas that share experts which are cut: moe-tp %d is more than tp %d leaves; vllm, sglang and "+
			"tensorrt-llm have them", p.ExpertTP(), p.TP)
	}
	return ""
}

// cutsBlocks says that experts in FP8 are cut within their blocks of scales. vLLM and SGLang refuse that
// (Fp8MoEMethod.create_weights).
func cutsBlocks(m *models.Model, s *models.Scheme, tp int) string {
	for _, b := range m.Blocks() {
		e := b.Experts
		if e == nil || len(e.In) == 0 {
			continue
		}
		if block := blockOf(s, &e.In[0]); block > 1 && e.Activation.Width%tp == 0 && e.Activation.Width/tp%block != 0 {
			return fmt.Sprintf("cuts experts in FP8 between their blocks of %d alone: each of %d ranks would have %d of the %d of an expert; "+
				"expert parallelism leaves them whole", block, tp, e.Activation.Width/tp, e.Activation.Width)
		}
	}
	return ""
}

// side128 is the side of the blocks of weights that share a scale in the scheme fp8-block.
const side128 = 128

// blockOf is how many outputs of a matrix in FP8 share their scales; 0 for all of them.
func blockOf(s *models.Scheme, l *models.Linear) int {
	switch {
	case s.Stored && l.Stored != nil && l.Stored.Format == unit.FP8:
		return l.Stored.BlockOut
	case !s.Stored && s.Weights == unit.FP8 && s.Group == side128*side128:
		return side128
	}
	return 0
}

// deepEP is the option by which ranks of EP send each token by DeepEP to the ranks alone that have its experts.
const deepEP = "deepep"

// deepEPOf is an engine with DeepEP whose host does so much for experts.
func deepEPOf(host expertHost) func(*Engine) {
	return func(e *Engine) {
		split := e.profile.Support.Split
		e.kernels[operator.Shuffle], e.kernels[operator.Exchange], e.kernels[operator.ExpertProduct] = nil, nil, host.products
		e.profile.Source = "tokens of experts sent by DeepEP, of which nothing was measured here: " + e.profile.Source
		e.profile.Support.Split = func(w *operator.Parallelism) string {
			if w.ExpertReplicas() == 1 || w.GathersTokens() {
				return "has no replicas that send tokens to whole experts: want --dp above 1 and as many --ep as --tp × --dp"
			}
			return split(w)
		}
	}
}
