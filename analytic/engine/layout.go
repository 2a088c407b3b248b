package engine

import (
	"fmt"
	"strings"

	"llmprof/analytic"
	"llmprof/analytic/operator"
	"llmprof/models"
	"llmprof/unit"
)

// Splits is nil if an engine can split a model with a scheme over GPUs as p has it. Else it says why not.
func Splits(e analytic.Engine, m *models.Model, s *models.Scheme, p *operator.Parallelism) error {
	profile, w := e.Profile(), p.Whole()
	if !m.HasExperts() {
		if SendsByDeepEP(e) {
			return fmt.Errorf("%s: %s has no experts to send tokens to", profile.Name, m.Name)
		}
		return nil
	}
	split := profile.Support.Split
	if split == nil {
		split = sharesWhole
	}
	why := split(&w)
	if why == "" && profile.Support.WholeBlocks {
		why = cutsBlocks(m, s, w.ExpertTP())
	}
	if why == "" {
		return nil
	}
	return fmt.Errorf("%s %s", profile.Name, why)
}

// Apart says that replicas with experts of their own are not those of one server, of an engine whose servers always share
// them; "" where nothing has to be said.
func Apart(e analytic.Engine, m *models.Model, p *operator.Parallelism) string {
	w := p.Whole()
	if e.Profile().Engine() != vllm.profile.Name || !m.HasExperts() || w.DP == w.ExpertReplicas() {
		return ""
	}
	n := w.TP * w.DP
	return fmt.Sprintf("%d servers, each with experts of its own: the replicas of one vllm server share them, as --moe-tp %d has it "+
		"without expert parallelism and --ep %d with it", w.DP/w.ExpertReplicas(), n, n)
}

// sharesWhole is the rule of engines without replicas that have parts of the same experts.
func sharesWhole(p *operator.Parallelism) string {
	if p.GathersTokens() {
		return fmt.Sprintf("has no replicas that share experts which are cut: moe-tp %d is more than tp %d leaves; vllm, sglang and "+
			"tensorrt-llm have them", p.ExpertTP(), p.TP)
	}
	return ""
}

// vllmSplit is the rule of vLLM's FusedMoEParallelConfig.make (vllm/model_executor/layers/fused_moe/config.py): TP and DP
// make one group of ranks, which has either whole experts or a part of each.
func vllmSplit(p *operator.Parallelism) string {
	if p.EP > 1 && p.ExpertTP() > 1 {
		return fmt.Sprintf("has whole experts on a rank (--enable-expert-parallel) or a part of each, over all ranks of TP and DP: want ep "+
			"%d, or ep 1 with moe-tp %d, not ep %d with moe-tp %d",
			p.ExpertRanks(), p.ExpertRanks(), p.EP, p.ExpertTP())
	}
	return ""
}

// sglangSplit is the rule of SGLang: an expert is cut over the ranks of TP that EP leaves, whether attention is replicated
// among them (--enable-dp-attention) or not.
func sglangSplit(*operator.Parallelism) string { return "" }

// tensorRTSplit is the rule of TensorRT-LLM: its attention is either cut over all ranks or, with enable_attention_dp,
// replicated on each of them (tensorrt_llm/_torch/modules/attention.py).
func tensorRTSplit(p *operator.Parallelism) string {
	if p.ExpertReplicas() > 1 && p.TP > 1 {
		return fmt.Sprintf("replicates attention on every rank or on none (enable_attention_dp): %d replicas that share experts want tp 1, "+
			"not tp %d", p.ExpertReplicas(), p.TP)
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
	p.Support.Split = func(w *operator.Parallelism) string {
		if w.ExpertReplicas() == 1 || w.GathersTokens() {
			return "has no replicas that send tokens to whole experts: want --dp above 1 and as many --ep as --tp × --dp"
		}
		return split(w)
	}
	return &with, nil
}

// Gathers says that ranks over several nodes all-gather their tokens; "" where they do not.
func Gathers(e analytic.Engine, m *models.Model, p *operator.Parallelism) string {
	g, ok := e.(*graphed)
	w := p.Whole()
	if !ok || !g.gathers || !m.HasExperts() || w.ExpertReplicas() == 1 || w.GathersTokens() || w.ExpertRanks() <= w.GPUsPerNode {
		return ""
	}
	return fmt.Sprintf("every rank gathers the tokens of all %d, as %s has it by default; --engine %s%s sends them to their experts alone",
		w.ExpertRanks(), g.profile.Engine(), g.profile.Name, deepEP)
}

// SendsByDeepEP reports whether an engine is one with DeepEP.
func SendsByDeepEP(e analytic.Engine) bool { return strings.HasSuffix(e.Profile().Name, deepEP) }
