package models

import (
	"slices"

	"llmprof/unit"
)

// compressed are families whose caches hold one entry for several tokens, or
// whose indexers choose blocks of keys.
func compressed() []family {
	return []family{
		inkling(), deepSeekV41(),
		{
			types: []string{"deepseek_v4"},
			assume: `{"n_shared_experts": 1, "hc_mult": 4, "sliding_window": 128, "head_dim": 512, "q_lora_rank": 1024, "o_groups": 8,
				"o_lora_rank": 1024, "index_n_heads": 64, "index_head_dim": 128, "index_topk": 512, "qk_rope_head_dim": 64}`,
			moe: moeShape{shared: sharedCount},
			mixers: map[string]mixer{
				"sliding_attention":           compressedAttention,
				"compressed_sparse_attention": compressedAttention, "heavily_compressed_attention": compressedAttention,
			},
			plan: layerPlan{mixer: compressRatio, ffn: every("moe")}, finish: manifoldConnections, amend: amendDeepSeekV4,
		},
		{
			types: []string{"minimax_m3", "minimax_m3_vl", "minimax_m3_vl_text"},
			names: map[string]string{
				"shared_expert_intermediate_size": "shared_intermediate_size",
				"index_n_heads":                   "sparse_attention_config.sparse_num_index_heads|index_n_heads",
				"index_head_dim":                  "sparse_attention_config.sparse_index_dim|index_head_dim",
				"index_block_size":                "sparse_attention_config.sparse_block_size|index_block_size",
				"index_topk_blocks":               "sparse_attention_config.sparse_topk_blocks|index_topk_blocks",
			},
			assume: `{"dense_intermediate_size": 12288, "index_block_size": 128, "index_topk_blocks": 16}`,
			attn:   attentionShape{norms: headNorms{on: yes}}, moe: moeShape{width: "intermediate_size", shared: sharedWidth},
			mixers: map[string]mixer{"minimax_m3_sparse": blockSparseAttention},
			plan: layerPlan{mixer: minimaxSparse, ffn: minimaxFFN, alter: func(r *reader, _ int, k *kind) {
				if k.ffn == "mlp" {
					k.width = r.size("dense_intermediate_size")
				}
			}},
		},
	}
}

// deepSeekV41 is DeepSeek-V4.1: layers borrow the compressed entries and the choice of keys of earlier ones, which derive the indexer's
// keys from these entries, and two layers gather embeddings of n-grams (Engram, arXiv:2601.07372).
func deepSeekV41() family {
	return family{
		types: []string{"deepseek_v41_text", "deepseek_v41"}, moe: moeShape{shared: sharedCount},
		mixers: map[string]mixer{"borrowed": borrowedAttention},
		plan: layerPlan{mixer: every("borrowed"), ffn: every("moe"), alter: func(r *reader, i int, k *kind) {
			ratios := r.numbersOf("compress_ratios")
			if i >= len(ratios) || ratios[i] > maxCompress || ratios[i] < 0 {
				r.fail("compress_ratios has no ratio up to %d of layer %d", maxCompress, i)
				return
			}
			k.width, k.shared = ratios[i], !slices.Contains(r.numbersOf("kv_source_layer_ids"), i)
			k.follows, k.grams = !slices.Contains(r.numbersOf("index_source_layer_ids"), i), slices.Contains(r.numbersOf("engram_layer_ids"), i)
		}},
		finish: finishV41, amend: amendV41,
		tune: func(r *reader) { r.set("num_nextn_predict_layers", asNumber(0)) },
	}
}

// maxCompress is the most tokens that an entry of a cache may stand for.
const maxCompress = 1024

// borrowedAttention is DeepSeek-V4's attention, of which k.width tokens make a compressed entry; 0 for none.
func borrowedAttention(r *reader, k kind) []Block {
	b := r.windowed()
	a := b.Attention
	b.Norms = slices.DeleteFunc(b.Norms, func(n Norm) bool { return n.Name == "q_b_norm" })
	if a.Compress = k.width; k.width == 0 {
		return []Block{b}
	}
	a.Borrows = k.shared
	x := Indexer{TopK: r.size("index_topk"), Packed: true}
	dim := r.size("index_head_dim")
	if !k.follows {
		x.Heads, x.Dim = r.size("index_n_heads"), dim
		b.In = append(b.In,
			Linear{Name: "indexer.wq_b", In: r.size("q_lora_rank"), Out: x.Heads * x.Dim, Split: Replicated},
			Linear{Name: "indexer.weights_proj", In: r.hidden, Out: x.Heads, Split: Replicated})
	}
	if a.Indexer = &x; !k.shared {
		outs := min(k.width, 2) // entries of one token have no gate
		b.In = append(b.In,
			Linear{Name: "compressor.wkv_wgate", In: r.hidden, Out: outs * a.KeyDim, Split: Replicated},
			Linear{Name: "indexer.wk", In: a.KeyDim, Out: dim, Split: Replicated})
		b.Norms = append(b.Norms, scaleOnly.norm("compressor.norm", a.KeyDim, 1), scaleOnly.norm("indexer.k_norm", dim, 1))
	}
	return []Block{b}
}

func finishV41(r *reader, k kind, b []Block) []Block {
	b = manifoldConnections(r, k, b)
	if k.grams {
		streams := r.size("hc_mult")
		columns := int(r.product("the embeddings of n-grams", r.size("engram_max_ngram_size")-1, r.size("engram_n_heads"),
			r.size("engram_head_dim")))
		b[0].In = append(b[0].In, Linear{Name: "engram.wkv", In: columns, Out: (streams + 1) * r.hidden, Split: Replicated})
		b[0].Extra += 2 * int64(streams) * int64(r.hidden)
	}
	return b
}

func amendV41(r *reader, m *Model) {
	m.Cache = unit.FP8
	for _, rows := range r.list("engram_num_embeddings") {
		m.Embedding.Hashed += r.product("a table of n-grams", r.whole(rows, "engram_num_embeddings", 1, maxSide), r.size("engram_head_dim"))
	}
	m.Embedding.Extra += m.Embedding.Hashed
	m.Notes = append(m.Notes, "indexers behind candidate_source_layer_id are taken to score all entries, not the blocks that it picks",
		"its draft layers (DSpark) are not counted")
}

// amendDeepSeekV4 sets the format of the cache: the engines' kernels read FP8 alone.
func amendDeepSeekV4(r *reader, m *Model) {
	hyperHead(r, m)
	m.Cache = unit.FP8
}

// inkling is Thinking Machines' family: positions are learned distances, and
// short convolutions run over keys, values and what each block adds.
func inkling() family {
	return family{
		types:  []string{"inkling_text"},
		names:  map[string]string{"sliding_window": "sliding_window_size", "conv_kernel_size": "conv_kernel_size|sconv_kernel_size"},
		assume: `{"conv_kernel_size": 4, "n_shared_experts": 2}`,
		norms:  preNorm(scaleOnly), embed: embedShape{norms: []string{"embed_norm"}},
		attn: attentionShape{norms: headNorms{on: yes}, positions: unrotated}, moe: moeShape{shared: sharedCount},
		mixers: map[string]mixer{"hybrid": relativeAttention, "hybrid_sliding": relativeAttention},
		plan:   layerPlan{mixer: inklingLayer, ffn: inklingFFN}, finish: finishInkling, amend: noteConvolutions,
	}
}

func inklingLayer(r *reader, i int) string {
	if !r.has("local_layer_ids") {
		return choose((i+1)%6 == 0, "hybrid", "hybrid_sliding")
	}
	return choose(slices.Contains(r.numbersOf("local_layer_ids"), i), "hybrid_sliding", "hybrid")
}

func inklingFFN(r *reader, i int) string {
	if ffn, ok := r.listedFFN(i); ok {
		return ffn
	}
	return choose(i < r.countOr("dense_mlp_idx", 0), "mlp", "moe")
}

// relativeAttention is attention whose scores get a learned logit for each
// distance, of a few values that every head makes of the query's token.
func relativeAttention(r *reader, k kind) []Block {
	extent, prefix := r.size("rel_extent"), ""
	if k.mixer == "hybrid_sliding" {
		extent, prefix = r.size("sliding_window"), "swa_"
	}
	a := Attention{
		Heads: r.size(prefix + "num_attention_heads"), KVHeads: r.size(prefix + "num_key_value_heads"), KeyDim: r.size(prefix + "head_dim"),
	}
	a.ValueDim = a.KeyDim
	r.divide(a.Heads, a.KVHeads, prefix+"num_attention_heads", prefix+"num_key_value_heads")
	if prefix != "" {
		a.Window = extent
	}
	b, rel := r.attend(k, a), r.size("d_rel")
	b.In = append(b.In, Linear{Name: "r_proj", In: r.hidden, Out: a.Heads * rel, Heads: a.Heads})
	b.Extra += r.product("the table of distances", rel, extent) + r.product("the convolutions of keys and values", 2*a.KVHeads*a.KeyDim,
		r.size("conv_kernel_size"))
	return []Block{b}
}

// finishInkling adds the convolution behind each block, the scale of the
// feed-forward and the scores of the shared experts.
func finishInkling(r *reader, _ kind, b []Block) []Block {
	for i := range b {
		b[i].Extra += r.product("the convolution of a block", r.hidden, r.size("conv_kernel_size"))
	}
	b[1].Extra++
	if e := b[1].Experts; e != nil {
		e.Router[0].Out += r.countOr("n_shared_experts", 0)
	}
	return b
}

func noteConvolutions(_ *reader, m *Model) {
	m.Notes = append(m.Notes, "the time and the state of its short convolutions and the logits of distances are not counted: they are "+
		"vectors, and no product of size")
}

// compressRatio reads how many tokens an entry of a layer's cache stands for.
func compressRatio(r *reader, i int) string {
	const list = "compress_ratios"
	if !r.has(list) { // transformers lays the layers out so
		return choose(i < 2 || i%2 == 0, "heavily_compressed_attention", "compressed_sparse_attention")
	}
	ratios := r.numbersOf(list)
	if len(ratios) < r.layers {
		r.fail("%s has %d entries for %d layers", list, len(ratios), r.layers)
		return ""
	}
	switch ratios[i] {
	case 0:
		return "sliding_attention"
	case 4:
		return "compressed_sparse_attention"
	case 128:
		return "heavily_compressed_attention"
	}
	r.fail("%s[%d] is %d; 0, 4 and 128 are understood", list, i, ratios[i])
	return ""
}

// windowed builds what all layers of DeepSeek-V4 have: one head of keys that are the values too, a window of single tokens, and an output
// of low rank in groups.
func (r *reader) windowed() Block {
	heads, dim, rank := r.size("num_attention_heads"), r.size("head_dim"), r.size("q_lora_rank")
	groups, low := r.size("o_groups"), r.size("o_lora_rank")
	r.divide(heads, groups, "num_attention_heads", "o_groups")
	if kv := r.sizeOr("num_key_value_heads", 1); kv != 1 {
		r.fail("num_key_value_heads is %d; one head of keys, which are the values too, is understood", kv)
	}
	a := &Attention{
		Heads: heads, KVHeads: 1, KeyDim: dim, ValueDim: dim, SameKV: true, Window: r.size("sliding_window"),
		RotaryDim: min(r.size("qk_rope_head_dim"), dim),
	}
	still := dim - a.RotaryDim
	// vLLM's fp8_ds_mla: a byte for each 64 values that are not rotated, and one to align.
	a.FP8Entry = still + (still+63)/64 + 1 + 2*a.RotaryDim
	return Block{
		Name: "attention", Attention: a, Extra: int64(heads), // a sink a head
		Norms: []Norm{
			scaleOnly.norm("q_a_norm", rank, 1), ofHead(weightless.norm("q_b_norm", dim, heads)), ofHead(scaleOnly.norm("kv_norm", dim, 1)),
		},
		In: []Linear{
			{Name: "q_a_proj", In: r.hidden, Out: rank, Split: Replicated},
			{Name: "q_b_proj", In: rank, Out: heads * dim, Heads: heads},
			{Name: "kv_proj", In: r.hidden, Out: dim, Split: Replicated},
		},
		Out: []Linear{
			{Name: "o_a_proj", In: heads * dim / groups, Out: low, Times: groups, Heads: groups},
			{Name: "o_b_proj", In: groups * low, Out: r.hidden, Split: Rows, Heads: groups},
		},
	}
}

// compressedAttention builds the attention of DeepSeek-V4, in which each entry beyond the window stands for several tokens.
func compressedAttention(r *reader, k kind) []Block {
	b := r.windowed()
	a, dim, rank := b.Attention, b.Attention.KeyDim, r.size("q_lora_rank")
	switch k.mixer {
	case "compressed_sparse_attention":
		a.Compress = r.sizeOr("compress_rates.compressed_sparse_attention", 4)
		r.compressor(&b, "compressor", 2*dim, dim)
		x := Indexer{Heads: r.size("index_n_heads"), Dim: r.size("index_head_dim"), TopK: r.size("index_topk"), Packed: true}
		a.Indexer = &x
		r.compressor(&b, "indexer", 2*x.Dim, x.Dim)
		b.In = append(b.In,
			Linear{Name: "indexer.q_b_proj", In: rank, Out: x.Heads * x.Dim, Split: Replicated},
			Linear{Name: "indexer.weights_proj", In: r.hidden, Out: x.Heads, Split: Replicated})
	case "heavily_compressed_attention":
		a.Compress = r.sizeOr("compress_rates.heavily_compressed_attention", 128)
		r.compressor(&b, "compressor", dim, dim)
	}
	return []Block{b}
}

// compressor adds what makes one entry of Compress tokens: candidates, gates, and
// a bias for each place in the group.
func (r *reader) compressor(b *Block, name string, width, dim int) {
	b.In = append(b.In,
		Linear{Name: name + ".kv_proj", In: r.hidden, Out: width, Split: Replicated},
		Linear{Name: name + ".gate_proj", In: r.hidden, Out: width, Split: Replicated})
	b.Norms = append(b.Norms, scaleOnly.norm(name+".kv_norm", dim, 1))
	b.Extra += r.product("the position bias of "+name, b.Attention.Compress, width)
}

// ofHead marks a norm as one of each head by itself.
func ofHead(n Norm) Norm {
	n.PerHead = true
	return n
}

// manifoldConnections are hyper-connections that mix the streams by a learned matrix (mHC,
// arXiv:2512.24880).
func manifoldConnections(r *reader, _ kind, b []Block) []Block {
	streams := r.size("hc_mult")
	mix := (2 + streams) * streams
	for i := range b {
		b[i].In = append(b[i].In, Linear{Name: "hyper_connection", In: streams * r.hidden, Out: mix, Split: Replicated})
		b[i].Extra += int64(mix) + 3
	}
	return b
}

// minimaxSparse reads which layers of MiniMax-M3 have an indexer.
func minimaxSparse(r *reader, i int) string {
	const list = "sparse_attention_config.sparse_attention_freq"
	if !r.has(list) {
		return full
	}
	return choose(r.marked(list, i) == "moe", "minimax_m3_sparse", full)
}

// blockSparseAttention is attention to the blocks of keys that an indexer picks,
// scored key by key (MiniMax Sparse Attention, arXiv:2606.13392).
func blockSparseAttention(r *reader, k kind) []Block {
	blocks := attention(r, k)
	b := &blocks[0]
	x := Indexer{Heads: r.size("index_n_heads"), Dim: r.size("index_head_dim"),
		TopK: int(r.product("the keys of an indexer", r.size("index_topk_blocks"), r.size("index_block_size")))}
	b.Attention.Indexer = &x
	b.In = append(b.In,
		Linear{Name: "indexer.q_proj", In: r.hidden, Out: x.Heads * x.Dim, Split: Replicated},
		Linear{Name: "indexer.k_proj", In: r.hidden, Out: x.Dim, Split: Replicated})
	b.Norms = append(b.Norms, scaleOnly.norm("indexer.q_norm", x.Dim, x.Heads), scaleOnly.norm("indexer.k_norm", x.Dim, 1))
	return blocks
}

// minimaxFFN: all layers have experts unless mlp_layer_types or
// moe_layer_freq say which have not.
func minimaxFFN(r *reader, i int) string {
	if ffn, ok := r.listedFFN(i); ok {
		return ffn
	}
	if r.has("moe_layer_freq") {
		return r.marked("moe_layer_freq", i)
	}
	return "moe"
}
