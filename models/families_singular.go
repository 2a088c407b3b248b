package models

import "slices"

// singular are the families whose layers have parts that no other has.
func singular() []family {
	return []family{
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
		{
			types: []string{"modernbert-decoder"}, names: map[string]string{"sliding_window": "sliding_window"},
			norms: normPlan{ffn: []string{"mlp_norm"}}, attn: biased(), ffn: ffnShape{bias: "mlp_bias"},
			embed: embedShape{norms: []string{"norm"}, headBias: "decoder_bias"},
			plan:  layerPlan{mixer: fullFirst("global_attn_every_n_layers", 3), alter: func(_ *reader, i int, k *kind) { k.first = i == 0 }},
			tune:  tuneModernBERT, finish: normsButFirst, amend: denseBeforeHead,
		},
		{
			types: []string{"mllama_text_model"}, assume: `{"cross_attention_layers": [3, 8, 13, 18, 23, 28, 33, 38]}`,
			mixers: map[string]mixer{"cross_attention": crossAttention}, plan: layerPlan{mixer: mllamaLayer}, finish: finishMllama,
			amend: amendMllama,
		},
	}
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

// tuneModernBERT: its sliding_window is half the window it was trained with.
func tuneModernBERT(r *reader) {
	if !r.has("sliding_window") {
		r.set("sliding_window", asNumber(max(1, r.size("local_attention")/2)))
	}
	if r.flag("norm_bias") {
		r.norms.shape = scaleAndShift
	}
}

// normsButFirst gives attention a norm in all layers but the first, which the
// norm of the embedding serves.
func normsButFirst(r *reader, k kind, b []Block) []Block {
	if !k.first {
		b[0].Norms = append(r.streamNorms([]string{"attn_norm"}), b[0].Norms...)
	}
	return b
}

// denseBeforeHead adds the matrix and norm between the last layer and the head.
func denseBeforeHead(r *reader, m *Model) {
	m.Embedding.Project = append(m.Embedding.Project, Linear{
		Name: "head.dense", In: r.hidden, Out: r.hidden, Bias: r.flag("classifier_bias"), Split: Replicated,
	})
	m.FinalNorms = append(m.FinalNorms, r.norms.shape.norm("head.norm", r.hidden, 1))
}

// mllamaLayer reads which layers look at the image instead of the text.
func mllamaLayer(r *reader, i int) string {
	return choose(slices.Contains(r.numbersOf("cross_attention_layers"), i), "cross_attention", full)
}

// crossAttention reads keys and values made once from the image; text adds
// nothing to its cache.
func crossAttention(r *reader, k kind) []Block {
	b := r.attend(k, r.heads(k))
	b.Attention.Shared, b.Attention.RotaryDim = true, 0
	b.Name = "cross attention"
	s := r.attn.norms
	r.attn.norms = headNorms{on: yes}
	a := *b.Attention
	a.Shared = false
	b.Norms = r.headNorms(a)
	r.attn.norms = s
	return []Block{b}
}

func finishMllama(_ *reader, k kind, b []Block) []Block {
	if k.mixer == "cross_attention" {
		b[0].Extra++
		b[1].Extra++
	}
	return b
}

// amendMllama: the embedding has eight rows for images that the head has not, and layers that see an image are skipped
// where there is none (modeling_mllama.py, MllamaTextModel.forward).
func amendMllama(r *reader, m *Model) {
	m.Embedding.Extra += 8 * int64(r.hidden)
	m.TiedHead = false
	for i := range m.Layers {
		m.Layers[i].Idle = m.Layers[i].Blocks[0].Name == "cross attention"
	}
	m.Notes = append(m.Notes, "layers with cross-attention see an image: of text alone no token runs them, and an image's keys and values "+
		"are not counted")
}
