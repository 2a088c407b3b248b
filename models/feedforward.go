package models

import (
	"cmp"
	"slices"
)

func (r *reader) width(k kind) int {
	if k.width > 0 {
		return k.width
	}
	if !r.has("intermediate_size") && r.ffn.times > 0 {
		return r.ffn.times * r.hidden
	}
	return r.size("intermediate_size")
}

func (r *reader) mlp(k kind) Block {
	width := r.width(k)
	in, out := r.projections(width, !r.ffn.ungated, r.on(r.ffn.bias))
	return Block{Name: "mlp", In: in, Out: out, Activation: Activation{Width: width, Gated: !r.ffn.ungated, Spelled: r.spelled()}}
}

// spelled reports whether the non-linearity is written out in PyTorch: GPT-2's
// form of GELU, NewGELUActivation in transformers.
func (r *reader) spelled() bool {
	return slices.ContainsFunc([]string{"hidden_act", "activation_function"}, func(name string) bool {
		v, _, _ := r.look(name)
		return v == "gelu_new"
	})
}

// projections are the matrices into and out of a feed-forward.
func (r *reader) projections(width int, gated, bias bool) (in, out []Linear) {
	if gated {
		in = append(in, Linear{Name: "gate_proj", In: r.hidden, Out: width, Bias: bias})
	}
	in = append(in, Linear{Name: "up_proj", In: r.hidden, Out: width, Bias: bias})
	return in, []Linear{{Name: "down_proj", In: width, Out: r.hidden, Bias: bias, Split: Rows}}
}

func (r *reader) moeBlock(_ kind) Block {
	s := r.moe
	e := &Experts{Count: r.size("num_experts"), TopK: r.expertsPerToken()}
	if e.TopK > e.Count {
		r.fail("%s (%d) is more than %s (%d)", r.name("num_experts_per_tok"), e.TopK, r.name("num_experts"), e.Count)
	}
	r.limitGroups(e)
	width := r.size(cmp.Or(s.width, "moe_intermediate_size"))
	bias := r.on(s.bias)
	e.Router = []Linear{{Name: "router", In: r.hidden, Out: e.Count, Bias: r.on(s.routerBias), Split: Replicated}}
	e.In, e.Out = r.projections(width, !s.ungated, bias)
	e.Activation = Activation{Width: width, Gated: !s.ungated}
	e.Shared = r.sharedExperts(width, r.on(s.sharedBias))
	b := Block{Name: "moe", Experts: e}
	if r.on(s.correction) {
		b.Extra = int64(e.Count)
	}
	return b
}

// limitGroups reads to how many groups of experts a token is sent at most (DeepSeek-V2, arXiv:2405.04434, section 2.2.2).
func (r *reader) limitGroups(e *Experts) {
	groups, top := r.value("n_group"), r.value("topk_group")
	if groups == nil || top == nil || r.value("topk_method") == "greedy" {
		return
	}
	n, limit := r.whole(groups, "n_group", 0, maxSize), r.whole(top, "topk_group", 0, maxSize)
	switch {
	case n <= 1 || limit == 0 || limit >= n:
		return
	case e.Count%n != 0:
		r.fail("%s (%d) is not a multiple of n_group (%d)", r.name("num_experts"), e.Count, n)
	case e.Count/n*limit < e.TopK:
		r.fail("%s is %d, and topk_group leaves %d experts to choose among", r.name("num_experts_per_tok"), e.TopK, e.Count/n*limit)
	default:
		e.Groups, e.TopGroups = n, limit
	}
}

// narrow has experts work on a stream of another width, with projections into it and out of it.
func (r *reader) narrow(e *Experts, width int, into, out string, bias bool) {
	for i := range e.In {
		e.In[i].In = width
	}
	e.Out[0].Out = width
	e.Router = append(e.Router,
		Linear{Name: into, In: r.hidden, Out: width, Bias: bias, Split: Replicated},
		Linear{Name: out, In: width, Out: r.hidden, Bias: bias, Split: Replicated})
}

// expertsPerToken reads how many experts a token takes. The defaults of
// transformers leave it open for DeepSeek-V2; every published config states it.
func (r *reader) expertsPerToken() int {
	if v, as, found := r.look("num_experts_per_tok"); found && v == nil {
		r.notes = append(r.notes, as+" is null: one expert a token is counted as active")
		return 1
	}
	return r.size("num_experts_per_tok")
}

// sharedExperts builds the feed-forward that every token takes, or nil.
func (r *reader) sharedExperts(width int, bias bool) *Shared {
	switch r.moe.shared {
	case noShared:
		return nil
	case sharedCount:
		width *= r.countOr("n_shared_experts", 0)
	case sharedWidth:
		width = r.countOr("shared_expert_intermediate_size", 0)
	}
	if width == 0 {
		return nil
	}
	in, out := r.projections(width, !r.moe.ungated, bias)
	if r.moe.sharedGate {
		in = append(in, Linear{Name: "shared_expert_gate", In: r.hidden, Out: 1, Split: Replicated})
	}
	return &Shared{In: in, Out: out, Activation: Activation{Width: width, Gated: !r.moe.ungated}}
}
