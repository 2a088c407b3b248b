package models

import (
	"slices"

	"llmprof/unit"
)

// linears are recurrent families that are neither Mamba nor the delta rule of
// Qwen3-Next.
func linears() []family {
	return []family{
		{
			types:  []string{"kimi_linear"},
			names:  kimiNames(),
			assume: `{"first_k_dense_replace": 1}`, attn: biased(), moe: moeShape{shared: sharedCount},
			mixers: map[string]mixer{full: kimiLatent, linear: kimiDelta}, plan: layerPlan{mixer: kimiLayer, ffn: sparseAfterDense},
			finish: latentExperts, amend: attentionResiduals,
		},
		{
			types: []string{"rwkv"}, names: map[string]string{"max_position_embeddings": "context_length"},
			norms: normPlan{shape: scaleAndShift, mixer: []string{"ln1"}, ffn: []string{"ln2"}}, ffn: ffnShape{ungated: true, times: 4},
			embed: embedShape{norms: []string{"pre_ln"}}, mixers: map[string]mixer{linear: rwkvTime},
			plan: layerPlan{mixer: every(linear)},
			finish: func(r *reader, _ kind, b []Block) []Block {
				b[1].In = append(b[1].In, Linear{Name: "receptance", In: r.hidden, Out: r.hidden})
				b[1].Extra += 2 * int64(r.hidden)
				return b
			},
		},
		{
			types: []string{"minimax_text_01", "minimax_m1"}, moe: moeShape{width: "intermediate_size"}, mixers: map[string]mixer{linear: lightning},
			plan: layerPlan{mixer: minimaxLayer, ffn: every("moe")},
			tune: func(r *reader) {
				if n := r.countOr("shared_intermediate_size", 0); n > 0 {
					r.fail("shared_intermediate_size is %d; a shared expert is not understood here", n)
				}
			},
		},
		{
			types:  []string{"xlstm"},
			names:  map[string]string{"hidden_size": "hidden_size|embedding_dim", "num_hidden_layers": "num_hidden_layers|num_blocks"},
			assume: `{"inference_state_dtype": "float32"}`, norms: normPlan{mixer: []string{"norm_mlstm"}, ffn: []string{"norm_ffn"}},
			ffn: ffnShape{bias: "use_bias"}, mixers: map[string]mixer{linear: matrixLSTM},
			plan: layerPlan{mixer: every(linear), alter: func(r *reader, _ int, k *kind) {
				k.width = roundUp(r.ratio("ffn_proj_factor")*float64(r.hidden), r.size("ffn_round_up_to_multiple_of"))
			}},
			tune: func(r *reader) {
				if r.flag("use_bias") {
					r.norms.shape = scaleAndShift
				}
				r.embed.final = "-"
			},
			amend: func(r *reader, m *Model) {
				if r.flag("add_out_norm") {
					m.FinalNorms = []Norm{scaleOnly.norm("out_norm", r.hidden, 0)}
				}
			},
		},
	}
}

func kimiNames() map[string]string {
	return map[string]string{
		"linear_num_heads": "linear_attn_config.num_heads|linear_num_heads", "linear_head_dim": "linear_attn_config.head_dim|linear_head_dim",
		"linear_conv_kernel_dim": "linear_attn_config.short_conv_kernel_size|linear_conv_kernel_dim",
		"num_experts_per_tok":    "num_experts_per_token|num_experts_per_tok",
		"use_full_rank_gate":     "linear_attn_config.use_full_rank_gate|use_full_rank_gate",
	}
}

// kimiLayer reads which layers have full attention; the lists count from 1.
func kimiLayer(r *reader, i int) string {
	const list = "linear_attn_config.full_attn_layers"
	if !r.has(list) {
		return linearBut("", 4)(r, i)
	}
	return choose(slices.Contains(r.numbersOf(list), i+1), full, linear)
}

// kimiDelta builds the delta rule with a decay a channel (Kimi Linear,
// arXiv:2510.26692, section 4).
func kimiDelta(r *reader, _ kind) []Block {
	heads, dim, kernel := r.size("linear_num_heads"), r.size("linear_head_dim"), r.size("linear_conv_kernel_dim")
	inner := heads * dim
	low := func(a, b string) []Linear {
		return []Linear{{Name: a, In: r.hidden, Out: dim, Split: Replicated}, {Name: b, In: dim, Out: inner, Heads: heads}}
	}
	gate := low("g_a_proj", "g_b_proj")
	if r.flag("use_full_rank_gate") {
		gate = []Linear{{Name: "g_proj", In: r.hidden, Out: inner, Heads: heads}}
	}
	s := Scan{Kind: GatedDelta, Heads: heads, HeadDim: dim, StateDim: dim, Groups: heads, Conv: 3 * inner, Kernel: kernel}
	return []Block{r.channelDelta(s, low("f_a_proj", "f_b_proj"), gate)}
}

// channelDelta builds the block of a delta rule with a decay a channel, whose decays and gate have projections of
// full or of low rank.
func (r *reader) channelDelta(s Scan, decay, gate []Linear) Block {
	s.ChannelDecay = true
	s.StateFormat = unit.FP32 // engines keep the state so, whatever the model's format (kda_state_dtype of vLLM)
	heads, inner := s.Heads, s.Heads*s.HeadDim
	return Block{
		Name:  "linear attention",
		Norms: []Norm{scaleOnly.norm("o_norm", s.HeadDim, heads)},
		In: slices.Concat(
			[]Linear{{Name: "qkv_proj", In: r.hidden, Out: 3 * inner, Heads: heads}}, decay,
			[]Linear{{Name: "b_proj", In: r.hidden, Out: heads, Heads: heads}}, gate),
		Scan:  &s,
		Out:   []Linear{{Name: "o_proj", In: inner, Out: r.hidden, Split: Rows, Heads: heads}},
		Extra: int64(s.Conv)*int64(s.Kernel) + int64(inner) + int64(heads),
	}
}

// kimiLatent is latent attention, in Kimi-K3 with a gate for its output.
func kimiLatent(r *reader, k kind) []Block {
	blocks := latentAttention(r, k)
	a := blocks[0].Attention
	if r.flag("mla_use_nope") {
		a.RotaryDim = 0
	}
	if r.flag("mla_use_output_gate") {
		blocks[0].In = append(blocks[0].In, Linear{Name: "g_proj", In: r.hidden, Out: a.Heads * a.ValueDim, Heads: a.Heads})
	}
	return blocks
}

// latentExperts lets the routed experts work on a narrower stream where the
// config states its width (Kimi-K3).
func latentExperts(r *reader, k kind, b []Block) []Block {
	if k.ffn != "moe" || !r.has("routed_expert_hidden_size") {
		return b
	}
	latent, moe := r.size("routed_expert_hidden_size"), &b[1]
	r.narrow(moe.Experts, latent, "routed_expert_down_proj", "routed_expert_up_proj", false)
	if r.flag("latent_moe_use_norm") {
		moe.Extra += int64(latent)
	}
	return b
}

// attentionResiduals says what is left out: every so many layers the stream is
// mixed from what earlier ones added, by scores of one vector.
func attentionResiduals(r *reader, m *Model) {
	if r.has("attn_res_block_size") {
		m.Notes = append(m.Notes, "its attention residuals (attn_res_block_size) are not counted: they are a few vectors and no product of size")
	}
}

// rwkvTime builds the time mixing of RWKV-4 (arXiv:2305.13048, section 3.1).
// Its state is a numerator, a denominator and a maximum for each channel, and
// the token before for each of the layer's two halves.
func rwkvTime(r *reader, _ kind) []Block {
	inner := r.sizeOr("attention_hidden_size", r.hidden)
	return []Block{{
		Name: "linear attention",
		In: []Linear{
			{Name: "receptance", In: r.hidden, Out: inner},
			{Name: "key", In: r.hidden, Out: inner},
			{Name: "value", In: r.hidden, Out: inner},
		},
		Scan: &Scan{
			Kind: Linear1, Heads: 1, HeadDim: inner, StateDim: 3, Groups: 1, Conv: 2 * r.hidden, Kernel: 1,
			StateFormat: unit.FP32, // RwkvModel.forward of transformers; the tokens before are in the format of the model
		},
		Out:   []Linear{{Name: "output", In: inner, Out: r.hidden, Split: Rows}},
		Extra: 2*int64(inner) + 3*int64(r.hidden),
	}}
}

// matrixLSTM builds the mLSTM of xLSTM (arXiv:2503.13427, section 3), whose
// state is a matrix of keys by values for each head.
func matrixLSTM(r *reader, _ kind) []Block {
	heads := r.size("num_heads")
	keys := roundUp(r.ratio("qk_dim_factor")*float64(r.hidden), 64)
	values := roundUp(r.ratio("v_dim_factor")*float64(r.hidden), 64)
	bias := r.flag("use_bias")
	s := Scan{
		Kind: Linear1, Heads: heads, HeadDim: r.divide(values, heads, "v_dim_factor", "num_heads"),
		StateDim: r.divide(keys, heads, "qk_dim_factor", "num_heads"), Groups: heads, Chunk: r.countOr("chunk_size", 0),
	}
	s.StateFormat = r.stateFormat("inference_state_dtype")
	norm := r.norms.shape.norm("multihead_norm", values, 1)
	return []Block{{
		Name:  "linear attention",
		Norms: []Norm{norm},
		In: []Linear{
			{Name: "q", In: r.hidden, Out: keys, Bias: bias, Heads: heads},
			{Name: "k", In: r.hidden, Out: keys, Bias: bias, Heads: heads},
			{Name: "v", In: r.hidden, Out: values, Bias: bias, Heads: heads},
			{Name: "ogate", In: r.hidden, Out: values, Bias: bias, Heads: heads},
			{Name: "igate", In: r.hidden, Out: heads, Bias: true, Heads: heads},
			{Name: "fgate", In: r.hidden, Out: heads, Bias: true, Heads: heads},
		},
		Scan: &s,
		Out:  []Linear{{Name: "out_proj", In: values, Out: r.hidden, Bias: bias, Split: Rows, Heads: heads}},
	}}
}

// roundUp rounds v up to a multiple of n, ignoring what is below 1 as
// transformers does.
func roundUp(v float64, n int) int {
	return max(1, (int(v)+n-1)/n*n)
}
