package models

// sharers are the families in which layers use weights or caches of other layers.
func sharers() []family {
	return []family{
		{
			types: []string{"zamba"}, names: map[string]string{"layer_types": "layers_block_type"}, assume: `{"num_mem_blocks": 1}`,
			norms: noNorms(),
			attn:  attentionShape{positions: unrotated}, mixers: map[string]mixer{linear: zambaScan, "hybrid": zambaHybrid},
			plan: layerPlan{mixer: zambaLayer, ffn: every(""), alter: firstUses},
		},
		{
			types: []string{"zamba2"},
			names: map[string]string{
				"layer_types": "layers_block_type", "mamba_n_heads": "n_mamba_heads", "mamba_n_groups": "mamba_ngroups",
				"mamba_chunk_size": "chunk_size", "mamba_proj_bias": "add_bias_linear", "mamba_conv_bias": "use_conv_bias",
				"mamba_d_head": "mamba_headdim",
			},
			assume: `{"mamba_conv_bias": true, "mamba_n_groups": 1}`, norms: noNorms(), ffn: ffnShape{bias: "add_bias_linear", times: 4},
			mixers: map[string]mixer{linear: zamba2Scan, "hybrid": zamba2Hybrid}, plan: layerPlan{ffn: every(""), alter: firstUses},
			tune: func(r *reader) {
				if !r.has("layer_types") {
					r.fail("layers_block_type is missing; want the type of each layer")
				}
				if !r.flag("use_mem_rope") {
					r.attn.positions = unrotated
				}
			},
		},
	}
}

// zambaLayer is the order of Zamba's layers where the config does not list them.
func zambaLayer(r *reader, i int) string {
	return choose(i == 2 || i > 2 && (i-3)%r.size("attn_layer_period") == r.countOr("attn_layer_offset", 0), "hybrid", linear)
}

// firstUses marks the layers that bring the weights which later ones use again.
func firstUses(r *reader, _ int, k *kind) {
	if k.mixer != "hybrid" {
		return
	}
	k.first = r.uses < r.size("num_mem_blocks")
	r.uses++
}

// zambaScan is Mamba's scan in several heads, each with separate selection parameters.
func zambaScan(r *reader, k kind) []Block {
	blocks := mamba1Scan(r, k)
	b := &blocks[0]
	heads := r.size("n_mamba_heads")
	side := r.divide(b.Scan.HeadDim, heads, "mamba_expand", "n_mamba_heads")
	for i, l := range b.In {
		switch l.Name {
		case "x_proj":
			b.In[i] = Linear{Name: l.Name, In: side, Out: l.Out, Times: heads, Heads: heads}
		case "dt_proj":
			b.In[i] = Linear{Name: l.Name, In: l.In, Out: side, Bias: true, Times: heads, Heads: heads}
		}
	}
	b.Scan.Heads, b.Scan.HeadDim, b.Scan.Groups = heads, side, heads
	b.Norms = append([]Norm{scaleOnly.norm("input_layernorm", r.hidden, 1)}, b.Norms...)
	return blocks
}

func zamba2Scan(r *reader, k kind) []Block {
	blocks := mamba2Scan(r, k)
	blocks[0].Norms = append([]Norm{scaleOnly.norm("input_layernorm", r.hidden, 1)}, blocks[0].Norms...)
	return blocks
}

// zambaHybrid is a transformer layer that is common to several places, and
// then a scan, to whose input a matrix of this place adds what the first made
// (arXiv:2405.16712, figure 2). The transformer reads the stream beside the
// embedding, so it is twice as wide.
func zambaHybrid(r *reader, k kind) []Block {
	return r.sharedTransformer(k, zambaScan(r, k))
}

func (r *reader) sharedTransformer(k kind, scan []Block) []Block {
	wide := 2 * r.hidden
	heads := r.size("num_attention_heads")
	a := Attention{Heads: heads, KVHeads: r.sizeOr("num_key_value_heads", heads)}
	a.KeyDim = r.divide(wide, heads, "hidden_size", "num_attention_heads")
	a.ValueDim = a.KeyDim
	attend := r.attend(k, a)
	for i := range attend.In {
		attend.In[i].In = wide
	}
	attend.Norms = append(attend.Norms, scaleOnly.norm("input_layernorm", wide, 1))
	mlp := r.mlp(k)
	mlp.Norms = append(mlp.Norms, scaleOnly.norm("pre_ff_layernorm", r.hidden, 1))
	attend.Reused, mlp.Reused = !k.first, !k.first
	scan[0].In = append(scan[0].In, Linear{Name: "linear", In: r.hidden, Out: r.hidden, Split: Replicated})
	return append([]Block{attend, mlp}, scan...)
}

// zamba2Hybrid adds low-rank adapters of each place to the common matrices.
func zamba2Hybrid(r *reader, k kind) []Block {
	blocks := r.sharedTransformer(k, zamba2Scan(r, k))
	rank, width := r.size("adapter_rank"), r.width(k)
	adapters := []Linear{
		{Name: "gate_up_adapter_in", In: r.hidden, Out: rank, Split: Replicated},
		{Name: "gate_up_adapter_out", In: rank, Out: 2 * width},
	}
	if r.flag("use_shared_attention_adapter") {
		wide := 2 * r.hidden
		adapters = append(adapters,
			Linear{Name: "qkv_adapter_in", In: wide, Out: rank, Times: 3, Split: Replicated},
			Linear{Name: "qkv_adapter_out", In: rank, Out: wide, Times: 3})
	}
	scan := &blocks[len(blocks)-1]
	scan.In = append(scan.In, adapters...)
	return blocks
}
