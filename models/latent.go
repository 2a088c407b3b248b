package models

// latentAttention builds multi-head latent attention (DeepSeek-V2,
// arXiv:2405.04434, section 2.1).
func latentAttention(r *reader, _ kind) []Block {
	return []Block{r.latent()}
}

// latent builds the block of latent attention.
func (r *reader) latent() Block {
	heads := r.size("num_attention_heads")
	l := Latent{Rank: r.size("kv_lora_rank"), RopeDim: r.size("qk_rope_head_dim"), NopeDim: r.size("qk_nope_head_dim")}
	value := r.size("v_head_dim")
	l.Expand = Linear{Name: "kv_b_proj", In: l.Rank, Out: heads * (l.NopeDim + value), Heads: heads}
	key := l.NopeDim + l.RopeDim
	b := Block{Name: "attention", Attention: &Attention{
		Heads: heads, KVHeads: heads, KeyDim: key, ValueDim: value, RotaryDim: l.RopeDim, Latent: &l,
	}}
	bias := r.on(r.attn.bias)
	if rank := r.countOr("q_lora_rank", 0); rank > 0 {
		b.In = append(b.In,
			Linear{Name: "q_a_proj", In: r.hidden, Out: rank, Bias: bias, Split: Replicated},
			Linear{Name: "q_b_proj", In: rank, Out: heads * key, Heads: heads})
		b.Norms = append(b.Norms, scaleOnly.norm("q_a_layernorm", rank, 1))
	} else {
		b.In = append(b.In, Linear{Name: "q_proj", In: r.hidden, Out: heads * key, Heads: heads})
	}
	b.In = append(b.In, Linear{Name: "kv_a_proj", In: r.hidden, Out: l.Rank + l.RopeDim, Bias: bias, Split: Replicated})
	b.Norms = append(b.Norms, scaleOnly.norm("kv_a_layernorm", l.Rank, 1))
	b.Out = []Linear{{Name: "o_proj", In: heads * value, Out: r.hidden, Bias: r.on(r.attn.outBias), Split: Rows, Heads: heads}}
	return b
}

// sparseLatentAttention is latent attention to the keys that an indexer picks
// (DeepSeek-V3.2-Exp, section 2.1 of its report).
func sparseLatentAttention(r *reader, k kind) []Block {
	b := r.latent()
	l := b.Attention.Latent
	b.Attention.FP8Entry = l.Rank + 4*((l.Rank+127)/128) + 2*l.RopeDim // fp8_ds_mla of FlashMLA and vLLM: a float32 for each 128 values of the latent
	if k.follows {
		b.Attention.Indexer = &Indexer{TopK: r.size("index_topk")}
		return []Block{b}
	}
	x := Indexer{Heads: r.size("index_n_heads"), Dim: r.size("index_head_dim"), TopK: r.size("index_topk"), Packed: true}
	b.Attention.Indexer = &x
	b.In = append(b.In,
		Linear{Name: "indexer.wq_b", In: r.size("q_lora_rank"), Out: x.Heads * x.Dim, Split: Replicated},
		Linear{Name: "indexer.wk", In: r.hidden, Out: x.Dim, Split: Replicated},
		Linear{Name: "indexer.weights_proj", In: r.hidden, Out: x.Heads, Split: Replicated})
	b.Norms = append(b.Norms, scaleAndShift.norm("indexer.k_norm", x.Dim, 1))
	return []Block{b}
}
