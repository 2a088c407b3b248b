package models

import (
	"slices"
)

// autumn2026 are families that transformers got in the autumn of 2026, and that arrange what others have.
func autumn2026() []family {
	normed := attentionShape{bias: attentionBias, outBias: attentionBias, norms: headNorms{on: yes}}
	gated := normed
	gated.gate = plainGate
	plain := gated
	plain.norms = headNorms{}
	return []family{
		{
			types: []string{"beam"}, norms: prePostNorm(), attn: gated,
			plan: layerPlan{mixer: fullEvery("", 6), ffn: sparseAfterDense, alter: unrotatedFull},
			finish: func(_ *reader, _ kind, b []Block) []Block { // a bias a head of the gate
				b[0].Extra += int64(b[0].Attention.Heads)
				return b
			},
		},
		{types: []string{"muse_glimmer_text"}, norms: prePostNorm(), attn: plain, plan: layerPlan{mixer: fullEvery("", 4), alter: unrotatedFull}},
		{
			types: []string{"flint"}, attn: withSinks(normed), moe: moeShape{shared: sharedWidth},
			plan: layerPlan{mixer: listedTypes, ffn: sparseStep, alter: unrotatedFull},
		},
		{
			types: []string{"kolibri1"}, norms: prePostNorm(), attn: normed, moe: moeShape{shared: sharedWidth},
			plan: layerPlan{mixer: fullEvery("", 5), ffn: every("moe"), alter: unrotatedFull},
		},
		{
			types: []string{"lara_mini"}, assume: tied, attn: normed, moe: moeShape{shared: sharedWidth},
			mixers: map[string]mixer{linear: gatedDelta}, plan: layerPlan{mixer: listedTypes, ffn: every("moe"), alter: unrotatedFull},
		},
		{
			types: []string{"lfm3"}, assume: tied, attn: normed, mixers: map[string]mixer{"conv": shortConv}, plan: layerPlan{mixer: listedTypes},
			tune: func(r *reader) {
				if r.flag("use_sandwich_norm") {
					r.norms = prePostNorm()
				}
				if r.flag("use_attention_gate") {
					r.attn.gate = headGate
				}
			},
		},
		{
			types: []string{"muse_spark_text"}, norms: normPlan{
				mixer: []string{"input_layernorm"}, ffn: []string{"pre_feedforward_layernorm", "post_feedforward_layernorm"},
			},
			attn: plain, plan: layerPlan{mixer: listedTypes, ffn: sparseAfterDense, alter: unrotatedFull}, finish: museExperts,
		},
		dory(), dotsNote(), glmNext(), qwen4(),
	}
}

// museExperts lets the experts work on a narrower stream, between norms, and adds the gates of the residual sums.
func museExperts(r *reader, _ kind, b []Block) []Block {
	width := r.size("moe_hidden_size")
	r.narrow(b[1].Experts, width, "pre_expert_proj", "post_expert_proj", false)
	b[1].Extra += 2 * int64(width)
	for i := range b {
		b[i].Extra += int64(r.hidden)
	}
	return b
}

// listedTypes is of families that list the types of their layers.
func listedTypes(r *reader, _ int) string {
	r.fail("layer_types is missing; want the type of each layer")
	return full
}

// dory has no weights in its norms, scales instead, and runs its middle layers several times (nGPT, arXiv:2410.01131).
func dory() family {
	return family{
		types: []string{"dory"}, norms: normPlan{
			shape: weightless, mixer: []string{"input_layernorm", "post_attention_layernorm"},
			ffn: []string{"pre_feedforward_layernorm", "post_feedforward_layernorm"},
		},
		attn: attentionShape{bias: attentionBias, outBias: attentionBias, norms: headNorms{on: yes, shape: weightless}, gate: plainGate},
		ffn:  ffnShape{bias: "mlp_bias"}, plan: layerPlan{mixer: fullEvery("", 4)}, tune: tuneDory,
		finish: func(r *reader, k kind, b []Block) []Block {
			b[0].Extra += int64(r.hidden) + 2*int64(b[0].Attention.Heads*b[0].Attention.KeyDim)
			b[1].Extra += int64(r.hidden) + 2*int64(r.width(k))
			return b
		},
		amend: func(r *reader, m *Model) {
			m.Embedding.Extra += int64(m.Vocab) // a scale of each logit
			begin := r.countOr("n_input_layers", 0)
			end := r.layers - r.countOr("n_output_layers", 0)
			if n := r.countOr("n_recurrent_layers", end-begin); begin > end || n != end-begin {
				r.fail("n_input_layers, n_recurrent_layers and n_output_layers do not make the %d layers", r.layers)
				return
			}
			r.repeat(m, begin, end, r.sizeOr("n_recurrent_loops", 1))
			if r.text("recurrent_kv_cache_mode") == "last_loop" {
				r.fail("recurrent_kv_cache_mode is \"last_loop\"; a cache for each loop is understood")
			}
		},
	}
}

// tuneDory joins attention and feed-forward, which published configs count as layers of their own.
func tuneDory(r *reader) {
	types := r.list("layer_types")
	if !slices.Contains(types, any("mlp")) {
		return
	}
	r.set("layer_types", slices.DeleteFunc(slices.Clone(types), func(v any) bool { return v == "mlp" }))
	for _, name := range []string{"num_hidden_layers", "n_input_layers", "n_recurrent_layers", "n_output_layers"} {
		if r.has(name) {
			r.set(name, asNumber(r.countOr(name, 0)/2))
		}
	}
}

// maxPasses is the most often that layers run.
const maxPasses = 64

// repeat runs the layers from begin to end several times: later passes have caches, and the weights of the first.
func (r *reader) repeat(m *Model, begin, end, passes int) {
	if begin < 0 || begin > end || end > len(m.Order) || passes > maxPasses {
		r.fail("layers %d to %d of %d are to run %d times; want layers that there are, and at most %d passes", begin, end, len(m.Order), passes,
			maxPasses)
		return
	}
	again := make(map[int]int)
	var order []int
	for range passes - 1 {
		for _, kind := range m.Order[begin:end] {
			at, known := again[kind]
			if !known {
				at = len(m.Layers)
				again[kind] = at
				l := m.Layers[kind].clone()
				l.Count = 0
				for i := range l.Blocks {
					l.Blocks[i].Reused = true
				}
				m.Layers = append(m.Layers, l)
			}
			m.Layers[at].Count++
			order = append(order, at)
		}
	}
	m.Order = slices.Concat(m.Order[:end], order, m.Order[end:])
}

// dotsNote has latent attention in all layers: to the keys that an indexer picks, or within a window and in other sizes.
func dotsNote() family {
	note := func(r *reader, b Block) []Block {
		a := b.Attention
		b.In = append(b.In, Linear{Name: "g_proj", In: r.hidden, Out: a.Heads, Heads: a.Heads})
		b.Norms = append(b.Norms, scaleOnly.norm("k_rope_only_layernorm", a.Latent.RopeDim, 1))
		return []Block{b}
	}
	return family{
		types: []string{"dots3_note_text"},
		names: map[string]string{"shared_expert_intermediate_size": "shared_experts_intermediate_size|moe_shared_expert_intermediate_size"},
		attn:  biased(), ffn: ffnShape{bias: "mlp_bias"}, moe: moeShape{shared: sharedWidth},
		mixers: map[string]mixer{
			indexed: func(r *reader, k kind) []Block { return note(r, sparseLatentAttention(r, k)[0]) },
			sliding: func(r *reader, _ kind) []Block {
				b := r.latent()
				b.Attention.Window = r.size("sliding_window")
				return note(r, b)
			},
		},
		plan: layerPlan{
			mixer: func(_ *reader, i int) string { return choose(i < 2 || i%4 == 1, indexed, sliding) }, ffn: sparseAfterDense,
		},
	}
}

// glmNext is GLM-5.3-Flash: Kimi's delta rule beside sparse latent attention whose indexer pools keys, in parallel streams.
func glmNext() family {
	return family{
		types: []string{"glm5_next_text"}, names: kimiNames(), attn: biased(), moe: moeShape{shared: sharedCount},
		mixers: map[string]mixer{linear: kimiDelta, indexed: pooledLatent, "deepseek_sparse_attention": pooledLatent},
		plan: layerPlan{
			mixer: listedTypes, ffn: sparseAfterDense, alter: indexerOnce(func(*reader, int) bool { return true }),
		},
		finish: manifoldConnections,
		amend: func(_ *reader, m *Model) {
			m.Notes = append(m.Notes, "the keys of its indexer are counted one a token, though they stand for several (index_kpool)")
		},
	}
}

// pooledLatent is sparse latent attention with weights by which the indexer's keys are pooled.
func pooledLatent(r *reader, k kind) []Block {
	blocks := sparseLatentAttention(r, k)
	if b := &blocks[0]; b.Attention.Indexer.Heads > 0 {
		dim := b.Attention.Indexer.Dim
		b.In = append(b.In, Linear{Name: "indexer.index_kpool_compress_gate", In: r.hidden, Out: dim, Split: Replicated})
		b.Extra += r.product("the places of pooled keys", r.size("index_kpool"), dim)
	}
	return blocks
}

// qwen4 is Qwen4-Exp: delta nets beside attention to the blocks of keys that an indexer picks, in parallel streams, with tables of n-grams.
func qwen4() family {
	return family{
		types: []string{"qwen4_exp_text", "qwen4_exp"}, norms: noNorms(), embed: embedShape{final: "-"},
		attn:   attentionShape{bias: attentionBias, outBias: attentionBias, norms: headNorms{on: yes}, gate: valueGate},
		moe:    moeShape{shared: sharedWidth, sharedGate: true},
		mixers: map[string]mixer{linear: gatedDelta, full: blockIndexed, indexed: blockIndexed},
		plan: layerPlan{mixer: linearBut("full_attention_interval", 4), ffn: every("moe"), alter: func(r *reader, i int, k *kind) {
			k.grams = slices.Contains(r.numbersOf("ple_layer_ids"), i+1)
		}},
		finish: gatedResiduals, amend: amendQwen4,
	}
}

// blockIndexed is attention to blocks of keys, of whose means an indexer picks the best.
func blockIndexed(r *reader, _ kind) []Block {
	blocks := attention(r, kind{mixer: full})
	if !r.has("indexer_n_heads") {
		return blocks
	}
	b, x := &blocks[0], Indexer{Heads: r.size("indexer_n_heads"), Dim: r.size("indexer_head_dim"), TopK: r.size("indexer_budget")}
	b.Attention.Indexer = &x
	b.In = append(b.In, Linear{Name: "indexer.index_qk_proj", In: r.hidden, Out: (x.Heads + r.sizeOr("indexer_kv_heads", 1)) * x.Dim,
		Split: Replicated})
	b.Norms = append(b.Norms, scaleOnly.norm("indexer.q_layernorm", x.Dim, x.Heads), scaleOnly.norm("indexer.k_layernorm", x.Dim, 1))
	return blocks
}

// gatedResiduals mix the streams into each block by weights of low rank, and what the block adds into each of them. Some layers add
// embeddings of n-grams to all streams first.
func gatedResiduals(r *reader, k kind, b []Block) []Block {
	streams := r.size("hc_count")
	for i := range b {
		in, norm := r.streamMixer()
		b[i].In = append(b[i].In, in...)
		b[i].In = append(b[i].In, Linear{Name: "block_inject_weight", In: streams * r.hidden, Out: streams, Split: Replicated})
		b[i].Norms = append(b[i].Norms, norm)
	}
	if k.grams {
		dim, all := r.sizeOr("ple_embed_dim", r.hidden), streams*r.hidden
		b[0].In = append(b[0].In,
			Linear{Name: "ple.key_proj", In: dim, Out: all, Split: Replicated},
			Linear{Name: "ple.value_proj", In: dim, Out: r.hidden, Split: Replicated})
		b[0].Norms = append(b[0].Norms,
			scaleOnly.norm("ple.norm_key", all, 0), scaleOnly.norm("ple.norm_query", all, 0), scaleOnly.norm("ple.norm_conv", all, 0))
		b[0].Extra += r.product("the convolution of n-grams", all, r.sizeOr("ple_conv_kernel_size", 4))
	}
	return b
}

// streamMixer makes one stream of several.
func (r *reader) streamMixer() ([]Linear, Norm) {
	all, rank := r.size("hc_count")*r.hidden, r.size("hc_lowrank")
	return []Linear{
		{Name: "input_mix_weight_down", In: all, Out: rank, Split: Replicated},
		{Name: "input_mix_weight_up", In: rank, Out: all, Split: Replicated},
	}, scaleOnly.norm("hc_norm", all, 0)
}

// maxTables is the most tables of n-grams.
const maxTables = 1024

// amendQwen4 adds the mixer before the head, and the tables of n-grams: of each of their orders several, of a prime number of rows each.
func amendQwen4(r *reader, m *Model) {
	mix, norm := r.streamMixer()
	m.Embedding.Project, m.FinalNorms = append(m.Embedding.Project, mix...), append(m.FinalNorms, norm)
	tables := (r.sizeOr("ngram_size", 3) - 1) * r.sizeOr("heads_per_ngram", 8)
	dim := r.divide(r.sizeOr("ple_embed_dim", r.hidden), tables, "ple_embed_dim", "the tables of n-grams")
	layers := r.numbersOf("ple_layer_ids")
	if r.err != nil || tables*len(layers) > maxTables {
		r.fail("ple_layer_ids has %d layers of %d tables; at most %d tables are read", len(layers), tables, maxTables)
		return
	}
	rows := int64(r.sizeOr("ngram_vocab_size_base", 20_000_000)) - 1
	for range layers {
		var all int64
		for range tables {
			rows = nextPrime(rows)
			all += rows
		}
		all = roundedUp(all, int64(r.sizeOr("make_ngram_vocab_size_divisible_by", 128)))
		m.Embedding.Extra += all * int64(dim)
	}
	if r.has("indexer_n_heads") {
		m.Notes = append(m.Notes, "the keys of its indexer are counted one a token, though they stand for several (indexer_compress_ratio)")
	}
}

// nextPrime is the least prime number above n. It divides by all smaller numbers, since package math/big would make the page's program 50
// kB larger.
func nextPrime(n int64) int64 {
	for {
		if n++; prime(n) {
			return n
		}
	}
}

func prime(n int64) bool {
	for d := int64(2); d*d <= n; d++ {
		if n%d == 0 {
			return false
		}
	}
	return n > 1
}

func roundedUp(n, multiple int64) int64 { return (n + multiple - 1) / multiple * multiple }

// inkling2 reads each input of its blocks from the sums of earlier groups of layers, by a learned query.
func inkling2() []family {
	f := family{
		types: []string{"inkling2_text"}, norms: noNorms(), embed: embedShape{norms: []string{"embed_norm"}},
		names: map[string]string{"sliding_window": "sliding_window_size"}, assume: `{"conv_kernel_size": 4}`,
		mixers: map[string]mixer{"hybrid": inkling2Attention, "hybrid_sliding": inkling2Attention},
		plan: layerPlan{mixer: inklingLayer, ffn: every("moe"), alter: func(r *reader, i int, k *kind) {
			k.first = i == 0
			k.looped = i >= r.countOr("loop_layer_index_start", 0) && i < r.countOr("loop_layer_index_end", 0)
		}},
		finish: finishInkling2, amend: amendInkling2,
	}
	return []family{f, f.like("inkling2_loop_text", nil)}
}

// inkling2Attention is relative attention with scaled heads, a gate and a sink that depends on the token. Where it sees
// the whole context, its queries, keys and values have inputs of their own, and the convolutions depend on the token too.
func inkling2Attention(r *reader, k kind) []Block {
	blocks := relativeAttention(r, k)
	b := &blocks[0]
	a, rel, kernel := b.Attention, r.size("d_rel"), r.size("conv_kernel_size")
	b.In = append(b.In,
		Linear{Name: "gate_proj", In: r.hidden, Out: a.Heads * a.ValueDim, Heads: a.Heads},
		Linear{Name: "sink_proj", In: r.hidden, Out: a.Heads, Heads: a.Heads})
	b.Extra += int64(a.Heads * (a.KeyDim + rel))
	inputs := 1
	if k.mixer == "hybrid" {
		inputs = 3
		b.In = append(b.In, Linear{Name: "sconv.weight_proj", In: r.hidden, Out: kernel * a.KVHeads, Times: 2, Split: Replicated})
	}
	b.Norms = append(b.Norms, scaleOnly.norm("input_layernorm", inputs*r.hidden, 1))
	if !k.first {
		b.Extra += int64(inputs * r.hidden)
	}
	return blocks
}

func finishInkling2(r *reader, k kind, b []Block) []Block {
	for i := range b {
		b[i].Extra += r.product("the convolution of a block", r.hidden, r.size("conv_kernel_size"))
	}
	b[1].Extra += int64(r.hidden)
	b[1].Norms = append(b[1].Norms, scaleOnly.norm("post_attention_layernorm", r.hidden, 1))
	if !k.looped {
		return b
	}
	rank := r.size("loop_gate_rank")
	for i, gates := range []int{3, 1} { // first the gates of queries, keys and values, then those of the experts
		b[i].In = append(b[i].In,
			Linear{Name: "message_gate_in", In: 2 * r.hidden, Out: rank, Times: gates, Split: Replicated},
			Linear{Name: "message_gate_out", In: rank, Out: r.hidden, Times: 2 * gates, Split: Replicated})
	}
	return b
}

func amendInkling2(r *reader, m *Model) {
	noteConvolutions(r, m)
	m.Head.Out = r.sizeOr("unpadded_vocab_size", m.Vocab)
	m.Embedding.Extra += int64(r.hidden) // the query of the last input
	if begin, end := r.countOr("loop_layer_index_start", 0), r.countOr("loop_layer_index_end", 0); end > begin {
		m.Embedding.Extra += r.product("the queries of messages", end-begin, 4, r.hidden)
		r.repeat(m, begin, end, r.size("loop_num_passes"))
	}
}
