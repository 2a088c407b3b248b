package models

// singular are the families whose layers have parts that no other has.
func singular() []family {
	return []family{
		{
			types: []string{"axk2"}, assume: `{"first_k_dense_replace": 1}`, attn: biased(), moe: moeShape{shared: sharedCount},
			mixers: map[string]mixer{"deepseek_sparse_attention": gatedLatent},
			plan:   layerPlan{mixer: every("deepseek_sparse_attention"), ffn: sparseAfterDense}, finish: gatedNorms,
		},
		{
			types: []string{"jetmoe"}, names: map[string]string{"head_dim": "kv_channels"}, moe: moeShape{width: "intermediate_size"},
			mixers: map[string]mixer{full: mixtureOfAttention}, plan: always(),
			finish: func(r *reader, _ kind, b []Block) []Block {
				b[0].Extra += int64(r.hidden)
				b[1].Extra += int64(r.hidden)
				return b
			},
		},
		{
			types: []string{"longcat_flash"},
			names: map[string]string{
				"num_hidden_layers": "num_layers|num_hidden_layers", "intermediate_size": "ffn_hidden_size",
				"moe_intermediate_size": "expert_ffn_hidden_size", "num_experts_per_tok": "moe_topk",
			},
			attn: biased(), moe: moeShape{routerBias: "router_bias"}, mixers: map[string]mixer{full: latentAttention}, finish: shortcut,
			tune: func(r *reader) {
				// num_hidden_layers counts each layer's two halves.
				if !r.has("num_layers") {
					r.fail("num_layers is missing; want the number of layers")
				}
			},
		},
		{
			types: []string{"zaya"}, attn: biased(), embed: embedShape{headBias: "lm_head_bias"},
			mixers: map[string]mixer{"hybrid": convolvedAttention, "hybrid_sliding": convolvedSliding},
			plan: layerPlan{
				mixer: every("hybrid"), ffn: every("moe"),
				alter: func(_ *reader, i int, k *kind) { k.first = i == 0 },
			},
			finish: zayaRouter,
			amend: func(r *reader, m *Model) {
				m.Embedding.Norms = append(m.Embedding.Norms, scaleAndShift.norm("input_scale", r.hidden, 1))
			},
		},
		{
			types: []string{"doge"}, ffn: ffnShape{bias: "mlp_bias"},
			attn: perHead(), finish: finishDoge,
		},
	}
}

// gatedLatent is sparse latent attention whose queries come with a gate for
// the output, both made of the low-rank query before and after its norm.
func gatedLatent(r *reader, k kind) []Block {
	blocks := sparseLatentAttention(r, k)
	a, rank := blocks[0].Attention, r.size("q_lora_rank")
	for i, l := range blocks[0].In {
		if l.Name == "q_b_proj" {
			blocks[0].In[i] = Linear{Name: "q_gate_proj", In: 2 * rank, Out: a.Heads * (a.KeyDim + a.ValueDim), Heads: a.Heads}
		}
	}
	return blocks
}

// gatedNorms adds the low-rank gates of A.X-K2's norms; the norm before a
// dense feed-forward has none.
func gatedNorms(r *reader, k kind, blocks []Block) []Block {
	rank := r.size("gated_norm_rank")
	for i := range blocks {
		if i == 1 && k.ffn == "mlp" {
			continue
		}
		blocks[i].In = append(blocks[i].In,
			Linear{Name: "norm_gate_in", In: r.hidden, Out: rank, Split: Replicated},
			Linear{Name: "norm_gate_out", In: rank, Out: r.hidden, Split: Replicated})
	}
	return blocks
}

// mixtureOfAttention: each expert is a query and an output projection; keys
// and values are common to all (JetMoE, arXiv:2404.07413).
func mixtureOfAttention(r *reader, _ kind) []Block {
	kv, dim := r.size("num_key_value_heads"), r.size("head_dim")
	e := &Experts{Count: r.size("num_experts"), TopK: r.size("num_experts_per_tok")}
	if e.TopK > e.Count {
		r.fail("num_experts_per_tok (%d) is more than %s (%d)", e.TopK, r.name("num_experts"), e.Count)
	}
	e.Router = []Linear{{Name: "router", In: r.hidden, Out: e.Count, Split: Replicated}}
	e.In = []Linear{{Name: "q_proj", In: r.hidden, Out: kv * dim, Heads: kv}}
	e.Out = []Linear{{Name: "o_proj", In: kv * dim, Out: r.hidden, Split: Rows, Heads: kv}}
	return []Block{{
		Name: "attention",
		In: []Linear{
			{Name: "k_proj", In: r.hidden, Out: kv * dim, Heads: kv},
			{Name: "v_proj", In: r.hidden, Out: kv * dim, Heads: kv},
		},
		Attention: &Attention{Heads: kv * e.TopK, KVHeads: kv, KeyDim: dim, ValueDim: dim, RotaryDim: dim},
		Experts:   e,
	}}
}

// shortcut: a layer of LongCat-Flash is attention and feed-forward twice, and a
// MoE block that reads what the first feed-forward reads and adds to the end.
// Some of what the router may choose are experts that do nothing and have no
// weights, though transformers allots matrices for them.
func shortcut(r *reader, k kind, b []Block) []Block {
	moe := r.moeBlock(k)
	e := moe.Experts
	e.Idle = r.countOr("zero_expert_num", 0)
	e.Router[0].Out += e.Idle
	moe.Parallel = true
	return append(append(b, b...), moe)
}

// convolvedAttention mixes queries and keys with two short convolutions and
// takes half of each value from the token before (arXiv:2510.04476).
func convolvedAttention(r *reader, k kind) []Block {
	a := r.heads(k)
	b := r.attend(k, a)
	depthwise, grouped := r.size("cca_time0"), r.size("cca_time1")
	channels := (a.Heads + a.KVHeads) * a.KeyDim
	b.Extra += int64(channels)*int64(depthwise+1) + int64(a.KVHeads)
	b.In = append(b.In, Linear{
		Name: "conv_qk_grouped", In: a.KeyDim * grouped, Out: a.KeyDim, Bias: true, Times: a.Heads + a.KVHeads, Heads: a.KVHeads,
	})
	b.Norms = append(b.Norms, weightless.norm("qk_norm", a.KeyDim, a.Heads+a.KVHeads))
	return []Block{b}
}

func convolvedSliding(r *reader, k kind) []Block {
	blocks := convolvedAttention(r, k)
	blocks[0].Attention.Window = r.size("sliding_window")
	return blocks
}

// zayaRouter makes the router a small network with one class more than there
// are experts, to which all layers but the first add the state of the router
// before, and scales both sides of each sum.
func zayaRouter(r *reader, k kind, b []Block) []Block {
	e, width := b[1].Experts, r.size("router_hidden_size")
	e.Idle = 1
	e.Router = []Linear{
		{Name: "router.down_proj", In: r.hidden, Out: width, Bias: true, Split: Replicated},
		{Name: "router.fc1", In: width, Out: width, Bias: true, Split: Replicated},
		{Name: "router.fc2", In: width, Out: width, Bias: true, Split: Replicated},
		{Name: "router.out_proj", In: width, Out: e.Count + 1, Split: Replicated},
	}
	b[1].Norms = append(b[1].Norms, scaleOnly.norm("router.norm", width, 1))
	if !k.first {
		b[1].Extra += int64(width)
	}
	for i := range b {
		b[i].Extra += 4 * int64(r.hidden)
	}
	return b
}

// finishDoge adds the input-dependent mask of Doge's attention and the weights
// of its residual sums.
func finishDoge(r *reader, _ kind, b []Block) []Block {
	if r.flag("is_moe") {
		r.fail("is_moe is true; Doge's cross-domain mixture is not understood")
	}
	a := b[0].Attention
	b[0].In = append(b[0].In, Linear{
		Name: "dt_proj", In: a.KVHeads * a.KeyDim, Out: a.KVHeads, Bias: r.on(attentionBias), Split: Replicated,
	})
	b[0].Extra += int64(a.KVHeads) + int64(r.hidden)
	b[1].Extra += int64(r.hidden)
	return b
}
