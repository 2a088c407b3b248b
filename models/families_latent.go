package models

import "slices"

// latents are the families with multi-head latent attention.
func latents() []family {
	mixers := map[string]mixer{full: latentAttention, "deepseek_sparse_attention": sparseLatentAttention, indexed: sparseLatentAttention}
	deepseek := family{
		assume: `{"first_k_dense_replace": 3, "n_shared_experts": 1}`,
		attn:   biased(), moe: moeShape{shared: sharedCount}, mixers: mixers, plan: layerPlan{ffn: sparseAfterDense},
	}
	return []family{
		deepseek.like("deepseek_v2", func(f *family) {
			f.assume = `{"first_k_dense_replace": 0, "n_shared_experts": 2}`
			f.ffn.bias, f.moe.sharedBias = "mlp_bias", "mlp_bias"
		}),
		deepseek.like("deepseek_v3", func(f *family) { f.types = append(f.types, "kimi_k2", "kimi_k25", "deepseek_vl_v2_text") }),
		deepseek.like("mistral4", func(f *family) { f.assume = `{"first_k_dense_replace": 0, "n_shared_experts": 1}` }),
		deepseek.like("axk1", func(f *family) { f.finish = normAfterMoE }),
		deepseek.like("deepseek_v32", func(f *family) { f.plan.mixer = every("deepseek_sparse_attention") }),
		deepseek.like("glm_moe_dsa", func(f *family) {
			f.plan.mixer, f.plan.alter = every("deepseek_sparse_attention"), indexerOnce(glmIndexer)
		}),
		deepseek.like("mistral_large4_text", func(f *family) {
			f.assume = `{"first_k_dense_replace": 1, "n_shared_experts": 1}`
			f.mixers = map[string]mixer{indexed: scaledLatent}
			f.plan.mixer, f.plan.alter = every(indexed), mistralLayer
			f.amend = func(r *reader, m *Model) { m.Embedding.Extra += int64(r.size("qk_rope_head_dim") / 2) } // scales of frequencies
		}),
		deepseek.like("glm4_moe_lite", func(f *family) {
			f.assume = `{"first_k_dense_replace": 1, "n_shared_experts": 1}`
		}),
		{types: []string{"minicpm3"}, attn: biased(), mixers: mixers},
		{types: []string{"youtu"}, attn: biased(), mixers: mixers},
	}
}

// gatedLatents have sparse latent attention with a gate on its output.
func gatedLatents() []family {
	return []family{
		{
			types: []string{"hy_v4", "hy_v4_vl_text"}, assume: `{"first_k_dense_replace": 1}`, moe: moeShape{shared: sharedCount}, attn: biased(),
			mixers: map[string]mixer{"deepseek_sparse_attention": gatedSparseLatent, indexed: gatedSparseLatent},
			plan: layerPlan{
				mixer: every("deepseek_sparse_attention"), ffn: sparseAfterDense,
				alter: indexerOnce(func(_ *reader, i int) bool { return i == 0 || (i-1)%4 == 0 }),
			},
			finish: hyperConnections, amend: hyperHead,
		},
		{
			types: []string{"axk2"}, assume: `{"first_k_dense_replace": 1}`, attn: biased(), moe: moeShape{shared: sharedCount},
			mixers: map[string]mixer{"deepseek_sparse_attention": gatedLatent, indexed: gatedLatent},
			plan:   layerPlan{mixer: every("deepseek_sparse_attention"), ffn: sparseAfterDense}, finish: gatedNorms,
		},
	}
}

// normAfterMoE adds the norm that A.X-K1 has behind its experts.
func normAfterMoE(r *reader, k kind, b []Block) []Block {
	if k.ffn == "moe" {
		b[1].Norms = append(b[1].Norms, scaleOnly.norm("post_mlp_layernorm", r.hidden, 1))
	}
	return b
}

// indexerOnce lets layers use the keys that an earlier layer's indexer picked:
// by indexer_types, or where none of the config's fields says so, by own.
func indexerOnce(own func(r *reader, i int) bool) func(*reader, int, *kind) {
	return func(r *reader, i int, k *kind) {
		if !r.has("indexer_types") {
			k.follows = !own(r, i)
			return
		}
		kind, ok := layerEntry(r, "indexer_types", r.listOf("indexer_types"), i)
		if ok && kind != "full" && kind != "shared" {
			r.fail("indexer_types[%d] is %s; want \"full\" or \"shared\"", i, quote(kind))
		}
		k.follows = kind == "shared"
	}
}

// glmIndexer reads GLM's older ways to say which layers have an indexer: a
// letter a layer, or one layer in index_topk_freq.
func glmIndexer(r *reader, i int) bool {
	if pattern, ok := r.value("index_topk_pattern").(string); ok {
		if len(pattern) != r.layers {
			r.fail("index_topk_pattern has %d letters for %d layers", len(pattern), r.layers)
			return false
		}
		return pattern[i] == 'F'
	}
	return max(i-r.countOr("index_skip_topk_offset", 2)+1, 0)%max(1, r.countOr("index_topk_freq", 1)) == 0
}

// mistralLayer reads which layers of Mistral Large 4 rotate positions, and which read the cache of an earlier layer.
func mistralLayer(r *reader, i int, k *kind) {
	indexerOnce(glmIndexer)(r, i, k)
	someUnrotated(r, i, k)
	if r.has("kv_source_layers") {
		from := r.numbersOf("kv_source_layers")
		if len(from) != r.layers {
			r.fail("kv_source_layers has %d entries for %d layers", len(from), r.layers)
			return
		}
		k.shared = from[i] != i
	}
}

// scaledLatent is sparse latent attention whose queries, and those of its indexer, are scaled by the logarithm of their position.
func scaledLatent(r *reader, k kind) []Block {
	blocks := sparseLatentAttention(r, k)
	b := &blocks[0]
	a := b.Attention
	l := a.Latent
	b.Extra += 2 * int64(a.Heads)
	if x := a.Indexer; x.Heads > 0 {
		b.Norms = append(b.Norms, scaleAndShift.norm("indexer.q_input_norm", r.hidden, 0))
		b.Extra += 2 * int64(x.Heads)
	}
	for i := range b.In {
		if k.noRope && b.In[i].Name == "kv_a_proj" {
			b.In[i].Out -= l.RopeDim
		}
	}
	if k.noRope {
		a.FP8Entry -= 2 * l.RopeDim
		l.Expand.Out += a.Heads * l.RopeDim
		l.NopeDim, l.RopeDim, a.RotaryDim = l.NopeDim+l.RopeDim, 0, 0
	}
	if a.Shared = k.shared; k.shared {
		b.In = slices.DeleteFunc(b.In, func(l Linear) bool { return l.Name == "kv_a_proj" })
		b.Norms = slices.DeleteFunc(b.Norms, func(n Norm) bool { return n.Name == "kv_a_layernorm" })
	}
	return blocks
}

// gatedSparseLatent is sparse latent attention with a gate for its output and
// a sink a head.
func gatedSparseLatent(r *reader, k kind) []Block {
	blocks := sparseLatentAttention(r, k)
	a := blocks[0].Attention
	blocks[0].In = append(blocks[0].In, Linear{Name: "gate_proj", In: r.hidden, Out: a.Heads * a.ValueDim, Heads: a.Heads})
	blocks[0].Extra += int64(a.Heads)
	return blocks
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

// hyperConnections mix hc_mult parallel streams into each block and out of it
// (arXiv:2409.19606), with weights that are made from all streams together.
func hyperConnections(r *reader, _ kind, b []Block) []Block {
	streams := r.size("hc_mult")
	for i := range b {
		b[i].In = append(b[i].In, Linear{Name: "hyper_connection", In: streams * r.hidden, Out: 2 * streams, Split: Replicated})
		b[i].Extra += 2*int64(streams) + 2
	}
	return b
}

// hyperHead joins the streams before the last norm.
func hyperHead(r *reader, m *Model) {
	streams := r.size("hc_mult")
	m.Embedding.Project = append(m.Embedding.Project, Linear{Name: "hyper_head", In: streams * r.hidden, Out: streams, Split: Replicated})
	m.Embedding.Extra += int64(streams) + 1
}
