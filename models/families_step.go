package models

import (
	"slices"
	"strconv"
	"strings"
)

// step is StepFun's family since Step-3.5-Flash (arXiv:2602.10604): sliding layers have query heads of
// their own number, and a gate a head scales what attention returns.
func step() family {
	return family{
		types: []string{"step3p5", "step3p7"},
		names: map[string]string{
			"num_key_value_heads": "num_attention_groups|num_key_value_heads", "num_experts": "moe_num_experts|n_routed_experts|num_experts",
			"num_experts_per_tok": "moe_top_k|num_experts_per_tok", "shared_expert_intermediate_size": "share_expert_dim|share_expert_dims",
		},
		assume: `{"use_qk_norm": true}`,
		attn:   attentionShape{bias: attentionBias, outBias: attentionBias, norms: headNorms{on: "use_qk_norm"}}, ffn: ffnShape{bias: "mlp_bias"},
		moe:  moeShape{shared: sharedWidth, correction: "use_moe_router_bias"},
		plan: layerPlan{ffn: stepFFN, alter: stepLayer}, tune: tuneStep,
	}
}

// step3 is Step-3 (arXiv:2507.19427): its queries are factorized, and the keys and values of all heads are one.
func step3() family {
	f := step()
	f.types, f.assume, f.tune = []string{"step3_text"}, `{"head_dim": 256}`, nil
	f.attn, f.plan.alter = attentionShape{}, nil
	f.mixers = map[string]mixer{full: factorizedAttention}
	return f
}

// factorizedAttention is multi-matrix factorization attention (arXiv:2412.19255): a narrow query that the heads share
// is widened to one of each. Engines keep the narrow query, the key and the value on every rank.
func factorizedAttention(r *reader, k kind) []Block {
	blocks := attention(r, k)
	a, rank := blocks[0].Attention, r.size("share_q_dim")
	if a.KVHeads != 1 {
		r.fail("num_attention_groups is %d; want 1, as the heads share a key and a value", a.KVHeads)
	}
	blocks[0].In = []Linear{
		{Name: "q_a_proj", In: r.hidden, Out: rank, Split: Replicated},
		{Name: "k_proj", In: r.hidden, Out: a.KeyDim, Split: Replicated},
		{Name: "v_proj", In: r.hidden, Out: a.ValueDim, Split: Replicated},
		{Name: "q_b_proj", In: rank, Out: a.Heads * a.KeyDim, Heads: a.Heads},
	}
	blocks[0].Norms = append(blocks[0].Norms, scaleOnly.norm("q_a_layernorm", rank, 1))
	return blocks
}

// tuneStep reads the switches, and cuts the lists that go on over the draft layers.
func tuneStep(r *reader) {
	if _, stated := r.dig("use_head_wise_attn_gate"); !stated || r.flag("use_head_wise_attn_gate") {
		r.attn.gate = headGate
	}
	if impl := r.text("att_impl_type"); impl != "" && impl != "GQA" {
		r.fail("att_impl_type is %s; \"GQA\" is understood", quote(impl))
	}
	if r.flag("sink") {
		r.attn.sinks = yes
	}
	layers, drafts := r.size("num_hidden_layers"), r.countOr("num_nextn_predict_layers", 0)
	for _, name := range []string{"layer_types", "partial_rotary_factors", "use_rope_layers"} {
		if list := r.list(name); drafts > 0 && len(list) == layers+drafts {
			r.set(name, list[:layers])
		}
	}
}

// stepFFN reads which layers have experts: moe_layers_enum lists them, as a text or a list.
func stepFFN(r *reader, i int) string {
	if ffn, ok := r.listedFFN(i); ok {
		return ffn
	}
	if !r.has("moe_layers_enum") {
		if !r.has("first_k_dense_replace") {
			r.fail("moe_layers_enum is missing; want the numbers of the layers with experts")
		}
		return sparseAfterDense(r, i)
	}
	if _, isList := r.value("moe_layers_enum").([]any); isList {
		return choose(slices.Contains(r.numbersOf("moe_layers_enum"), i), "moe", "mlp")
	}
	return choose(slices.Contains(memoized(&r.numbers, "moe_layers_enum", r.commaSeparated), i), "moe", "mlp")
}

// commaSeparated reads the numbers of layers in a text such as "3,4,5".
func (r *reader) commaSeparated(name string) []int {
	var numbers []int
	for field := range strings.SplitSeq(r.text(name), ",") {
		field = strings.TrimSpace(field)
		if field == "" {
			continue
		}
		n, err := strconv.Atoi(field)
		if err != nil || n < 0 || len(numbers) >= maxLayers {
			r.fail("%s holds %s; want at most %d numbers of layers with commas between", name, quote(field), maxLayers)
			return nil
		}
		numbers = append(numbers, n)
	}
	return numbers
}

// stepLayer reads the heads of sliding layers, and how much of a head is rotated.
func stepLayer(r *reader, i int, k *kind) {
	const other = "attention_other_setting"
	if k.mixer == sliding {
		switch {
		case r.has("num_sliding_attention_heads"):
			k.heads = r.size("num_sliding_attention_heads")
		case r.has(other):
			k.heads, k.kv = r.size(other+".num_attention_heads"), r.sizeOr(other+".num_attention_groups", r.size("num_key_value_heads"))
			if dim := r.sizeOr(other+".head_dim", r.size("head_dim")); dim != r.size("head_dim") {
				r.fail("%s.head_dim is %d and head_dim %d; one dimension for all layers is understood", other, dim, r.size("head_dim"))
			}
		case i < 4:
			r.note("the config does not state the query heads of the sliding layers (" + other + "): those of the others are taken")
		}
	}
	if factors := r.list("partial_rotary_factors"); len(factors) > 0 {
		if factor, ok := layerEntry(r, "partial_rotary_factors", factors, i); ok {
			k.rotated = share(r.size("head_dim"), r.fraction(factor, "partial_rotary_factors"))
		}
	}
	if marks := r.list("use_rope_layers"); len(marks) > 0 {
		mark, _ := layerEntry(r, "use_rope_layers", marks, i)
		k.noRope = mark == false
	}
}
