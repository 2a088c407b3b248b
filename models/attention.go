package models

import (
	"maps"
	"math"
	"slices"
)

// attentions are the layer types that every family understands.
func attentions() map[string]mixer {
	return map[string]mixer{
		"full_attention":    attention,
		"attention":         attention,
		"sliding_attention": slidingAttention,
		"chunked_attention": chunkedAttention,
	}
}

// knownMixers lists the layer types that this family understands.
func (r *reader) knownMixers() []string {
	known := attentions()
	maps.Copy(known, r.mixers)
	return slices.Sorted(maps.Keys(known))
}

func slidingAttention(r *reader, k kind) []Block {
	blocks := attention(r, k)
	blocks[0].Attention.Window = r.size("sliding_window")
	return blocks
}

func chunkedAttention(r *reader, k kind) []Block {
	blocks := attention(r, k)
	blocks[0].Attention.Window = r.size("attention_chunk_size")
	blocks[0].Attention.Chunked = true
	return blocks
}

// heads reads the numbers of query and key-value heads and their dimensions.
func (r *reader) heads(k kind) Attention {
	a := Attention{Heads: k.heads, KVHeads: k.kv}
	if a.Heads == 0 {
		a.Heads = r.size("num_attention_heads")
	}
	if a.KVHeads == 0 {
		a.KVHeads = r.sizeOr("num_key_value_heads", a.Heads)
	}
	r.divide(a.Heads, a.KVHeads, "num_attention_heads", "num_key_value_heads")
	switch {
	case r.has("head_dim"):
		a.KeyDim = r.size("head_dim")
	case r.attn.floorDim:
		a.KeyDim = max(1, r.hidden/r.size("num_attention_heads"))
	default:
		a.KeyDim = r.divide(r.hidden, r.size("num_attention_heads"), "hidden_size", "num_attention_heads")
	}
	a.ValueDim = a.KeyDim
	return a
}

func attention(r *reader, k kind) []Block {
	return []Block{r.attend(k, r.heads(k))}
}

// attend builds the block around an attention whose heads are known.
func (r *reader) attend(k kind, a Attention) Block {
	s := r.attn
	a.Shared = k.shared
	a.Softcap = s.softcap != "" && r.has(s.softcap)
	a.ALiBi = s.positions == alibi
	if s.positions == rotary && !k.noRope {
		if a.RotaryDim = k.rotated; a.RotaryDim == 0 {
			a.RotaryDim = r.rotaryDim(k, a.KeyDim)
		}
	}
	b := Block{Name: "attention", Attention: &a}
	bias := r.on(s.bias)
	b.In = append(b.In, Linear{Name: "q_proj", In: r.hidden, Out: a.Heads * a.KeyDim, Bias: bias, Heads: a.Heads})
	if !a.Shared {
		b.In = append(b.In,
			Linear{Name: "k_proj", In: r.hidden, Out: a.KVHeads * a.KeyDim, Bias: bias, Heads: a.KVHeads},
			Linear{Name: "v_proj", In: r.hidden, Out: a.KVHeads * a.ValueDim, Bias: bias, Heads: a.KVHeads})
	}
	switch s.gate {
	case plainGate:
		b.In = append(b.In, Linear{Name: "gate_proj", In: r.hidden, Out: a.Heads * a.ValueDim, Heads: a.Heads})
	case valueGate:
		b.In = append(b.In, Linear{Name: "gate_proj", In: r.hidden, Out: a.Heads * a.ValueDim, Bias: bias, Heads: a.Heads})
	case headGate:
		b.In = append(b.In, Linear{Name: "gate_proj", In: r.hidden, Out: a.Heads, Heads: a.Heads})
	}
	if r.on(s.norms.on) {
		b.Norms = r.headNorms(a)
	}
	if r.on(s.sinks) {
		b.Extra += int64(a.Heads)
	}
	b.Out = []Linear{{Name: "o_proj", In: a.Heads * a.ValueDim, Out: r.hidden, Bias: r.on(s.outBias), Split: Rows, Heads: a.Heads}}
	return b
}

// headNorms are the norms of queries and, where the layer makes them, keys.
func (r *reader) headNorms(a Attention) []Norm {
	one := func(name string, heads int) Norm {
		s := r.attn.norms.shape
		switch r.attn.norms.scope {
		case wholeHead:
			return s.norm(name, heads*a.KeyDim, 1)
		case ownHead:
			n := s.norm(name, a.KeyDim, heads)
			n.Params, n.PerHead = n.Params*int64(heads), true
			return n
		}
		n := s.norm(name, a.KeyDim, heads)
		n.PerHead = true
		return n
	}
	norms := []Norm{one("q_norm", a.Heads)}
	if !a.Shared {
		norms = append(norms, one("k_norm", a.KVHeads))
	}
	return norms
}

// rotaryDim is how much of a head is rotated: all of it, a stated number of
// dimensions, or a share that transformers 5 keeps with the other rotary
// parameters and older files at the top, under several names.
func (r *reader) rotaryDim(k kind, dim int) int {
	if r.has("rotary_dim") {
		return min(r.countOr("rotary_dim", dim), dim)
	}
	for _, name := range []string{
		"rope_parameters." + k.mixer + ".partial_rotary_factor", "rope_parameters.partial_rotary_factor",
		"partial_rotary_factor", "rotary_pct", "rope_pct", "rotary_percent", "rope_ratio_dim",
	} {
		if v, ok := r.dig(name); ok && v != nil {
			return share(dim, r.ratio(name))
		}
	}
	return share(dim, r.ratio("partial_rotary_factor"))
}

// share is the part of dim that is rotated, rounded down as transformers does.
func share(dim int, factor float64) int {
	return min(int(math.Floor(float64(dim)*factor+1e-9)), dim)
}

// latentAttention builds multi-head latent attention (DeepSeek-V2,
// arXiv:2405.04434, section 2.1).
func latentAttention(r *reader, _ kind) []Block {
	return []Block{r.latent()}
}

func (r *reader) latent() Block {
	heads := r.size("num_attention_heads")
	l := Latent{Rank: r.size("kv_lora_rank"), RopeDim: r.countOr("qk_rope_head_dim", 0), NopeDim: r.size("qk_nope_head_dim")}
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
	// fp8_ds_mla of FlashMLA and vLLM: a float32 for each 128 values of the latent.
	b.Attention.FP8Entry = l.Rank + 4*((l.Rank+127)/128) + 2*l.RopeDim
	if k.follows {
		b.Attention.Indexer = &Indexer{TopK: r.size("index_topk")}
		return []Block{b}
	}
	x := Indexer{Heads: r.size("index_n_heads"), Dim: r.size("index_head_dim"), TopK: r.size("index_topk"), Packed: true}
	b.Attention.Indexer = &x
	b.In = append(b.In,
		Linear{Name: "indexer.wq_b", In: r.sizeOr("q_lora_rank", r.hidden), Out: x.Heads * x.Dim, Split: Replicated},
		Linear{Name: "indexer.wk", In: r.hidden, Out: x.Dim, Split: Replicated},
		Linear{Name: "indexer.weights_proj", In: r.hidden, Out: x.Heads, Split: Replicated})
	b.Norms = append(b.Norms, scaleAndShift.norm("indexer.k_norm", x.Dim, 1))
	return []Block{b}
}
