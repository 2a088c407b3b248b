package models

// news are families whose residual stream or recurrence is of a new sort.
func news() []family {
	return []family{
		{
			types: []string{"hy_v4"}, assume: `{"first_k_dense_replace": 1}`, moe: moeShape{shared: sharedCount}, attn: biased(),
			mixers: map[string]mixer{"deepseek_sparse_attention": gatedSparseLatent},
			plan: layerPlan{
				mixer: every("deepseek_sparse_attention"), ffn: sparseAfterDense,
				alter: indexerOnce(func(_ *reader, i int) bool { return i == 0 || (i-1)%4 == 0 }),
			},
			finish: hyperConnections, amend: hyperHead,
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

// gatedSparseLatent is sparse latent attention with a gate for its output and
// a sink a head.
func gatedSparseLatent(r *reader, k kind) []Block {
	blocks := sparseLatentAttention(r, k)
	a := blocks[0].Attention
	blocks[0].In = append(blocks[0].In, Linear{Name: "gate_proj", In: r.hidden, Out: a.Heads * a.ValueDim, Heads: a.Heads})
	blocks[0].Extra += int64(a.Heads)
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
