package models

import (
	"slices"
	"strings"
)

// These functions distinguish the attention and scan layers of hybrids.

// linearBut gives every layer a scan but the last of each group of n.
func linearBut(field string, n int) func(*reader, int) string {
	return func(r *reader, i int) string {
		return choose((i+1)%r.sizeOr(field, n) == 0, full, linear)
	}
}

// attentionPeriod gives one of each period of layers attention (Jamba).
func attentionPeriod(r *reader, i int) string {
	period, offset := r.size("attn_layer_period"), r.countOr("attn_layer_offset", 0)
	if offset >= period {
		r.fail("attn_layer_offset (%d) is not below attn_layer_period (%d)", offset, period)
	}
	return choose(i%period == offset, full, linear)
}

// attentionAt gives the layers whose numbers a field lists attention.
func attentionAt(field string) func(*reader, int) string {
	return func(r *reader, i int) string {
		return choose(slices.Contains(r.numbersOf(field), i), full, linear)
	}
}

// jambaScan is Mamba's scan with norms of what it selects by.
func jambaScan(r *reader, k kind) []Block {
	blocks := mamba1Scan(r, k)
	state := r.size("mamba_d_state")
	blocks[0].Norms = append(blocks[0].Norms,
		scaleOnly.norm("dt_layernorm", r.timeStepRank(), 1), scaleOnly.norm("b_layernorm", state, 1), scaleOnly.norm("c_layernorm", state, 1))
	return blocks
}

// falconH1 has attention and a scan side by side behind one norm.
func falconH1(r *reader, k kind) []Block {
	scan := r.mamba2()
	if r.flag("mamba_rms_norm") {
		scan.Norms = append(scan.Norms, scaleOnly.norm("norm", scan.Scan.Heads*scan.Scan.HeadDim, 1))
	}
	scan.Out[0].Bias = r.flag("projectors_bias")
	blocks := append(attention(r, k), scan)
	blocks[1].Parallel = true
	return blocks
}

// graniteFFN: without experts only the shared feed-forward is left.
func graniteFFN(r *reader, _ int) string {
	return choose(r.hasExperts(), "moe", "mlp")
}

// tuneGraniteHybrid reads where the dense models keep their width, and
// whether positions are rotated.
func tuneGraniteHybrid(r *reader) {
	if !r.hasExperts() {
		r.fields.names["intermediate_size"] = []string{"shared_intermediate_size"}
	}
	if r.text("position_embedding_type") != "rope" {
		r.attn.positions = unrotated
	}
}

// lfm2Layer reads full_attn_idxs of configs without layer_types.
func lfm2Layer(r *reader, i int) string {
	if !r.has("full_attn_idxs") {
		if r.modelType != "lfm2" {
			r.fail("layer_types is missing; want the type of each layer")
		}
		return full
	}
	return choose(attentionAt("full_attn_idxs")(r, i) == full, full, "conv")
}

// lfm2Width shrinks the stated width to two thirds and rounds it up, if
// block_auto_adjust_ff_dim says so.
func lfm2Width(r *reader, _ int, k *kind) {
	width := r.size("intermediate_size")
	if r.flag("block_auto_adjust_ff_dim") {
		width = 2 * width / 3
		if factor := r.ratio("block_ffn_dim_multiplier"); factor > 0 {
			width = int(factor * float64(width))
		}
		multiple := r.size("block_multiple_of")
		width = (width + multiple - 1) / multiple * multiple
	}
	k.width = width
}

// minimaxLayer reads attn_type_list, in which 1 is attention, or turns about.
func minimaxLayer(r *reader, i int) string {
	if r.has("attn_type_list") {
		return choose(r.marked("attn_type_list", i) == "moe", full, linear)
	}
	return choose(i%2 == 0, full, linear)
}

// griffinLayer repeats block_types over the layers (RecurrentGemma).
func griffinLayer(r *reader, i int) string {
	types := r.listOf("block_types")
	if len(types) == 0 {
		types = []string{"recurrent", "recurrent", "attention"}
	}
	if name := types[i%len(types)]; name != "attention" {
		return name
	}
	return sliding
}

// halfWidth: RecurrentGemma states the width of gate and values together.
func halfWidth(r *reader, _ int, k *kind) { k.width = r.size("intermediate_size") / 2 }

// nemotronExperts is a MoE block, with experts that may work in a narrower
// stream than the model's.
func nemotronExperts(r *reader, k kind) []Block {
	b := r.moeBlock(k)
	if n := r.countOr("n_shared_experts", 1); n != 1 {
		r.fail("n_shared_experts is %d; one shared expert is understood", n)
	}
	if !r.has("moe_latent_size") {
		return []Block{b}
	}
	r.narrow(b.Experts, r.size("moe_latent_size"), "latent_in_proj", "latent_out_proj", r.on(r.moe.sharedBias))
	return []Block{b}
}

// readPattern turns hybrid_override_pattern, one letter a layer, into layer types.
func readPattern(r *reader) {
	letters := map[rune]string{'M': linear, '*': full, '-': "mlp", 'E': "moe"}
	if !r.has("layer_types") {
		pattern := r.text("hybrid_override_pattern")
		if pattern == "" {
			r.fail("hybrid_override_pattern is missing; want a letter a layer, such as \"M-M*-\"")
			return
		}
		if len(pattern) > maxLayers {
			r.fail("hybrid_override_pattern has %d letters; at most %d layers are read", len(pattern), maxLayers)
			return
		}
		var types []any
		for i, letter := range pattern {
			name, ok := letters[letter]
			if !ok {
				r.fail("hybrid_override_pattern has the letter %q at %d; known are M (Mamba-2), * (attention), - (feed-forward) and E (experts)",
					letter, i)
				return
			}
			types = append(types, name)
		}
		if stated := r.countOr("num_hidden_layers", len(types)); stated != len(types) {
			r.fail("hybrid_override_pattern has %d letters for %d layers", len(types), stated)
		}
		r.set("layer_types", types)
	}
	if !r.has("num_hidden_layers") {
		r.set("num_hidden_layers", asNumber(len(r.list("layer_types"))))
	}
}

// tuneOriginalMamba reads the state-spaces package's own config: which scan,
// and that nothing beside it is asked for.
func tuneOriginalMamba(r *reader) {
	if r.text("ssm_cfg.layer") == "Mamba2" {
		r.plan.mixer = every("mamba2")
	}
	if n := r.countOr("d_intermediate", 0); n != 0 {
		r.fail("d_intermediate is %d; a feed-forward beside the scan is not understood", n)
	}
	if at := r.list("attn_layer_idx"); len(at) > 0 {
		r.fail("attn_layer_idx is not empty; attention beside the scan is not understood")
	}
	state := 16
	if r.text("ssm_cfg.layer") == "Mamba2" {
		state = 128
	}
	if !r.has("mamba_d_state") {
		r.set("mamba_d_state", asNumber(state))
	}
}

// originalMamba2 derives the number of heads from their dimension.
func originalMamba2(r *reader, k kind) []Block {
	dim := r.sizeOr("mamba_d_head", 64)
	r.set("mamba_d_head", asNumber(dim))
	r.set("mamba_n_heads", asNumber(r.divide(r.mambaInner(), dim, "d_model", "ssm_cfg.headdim")))
	return mamba2Scan(r, k)
}

// padVocab rounds the vocabulary up as the state-spaces package does.
func padVocab(r *reader, m *Model) {
	multiple := r.size("pad_vocab_size_multiple")
	m.Vocab = (m.Vocab + multiple - 1) / multiple * multiple
	m.Head.Out = m.Vocab
}

// oldLayerTypes maps the layer types of earlier configs to today's.
func oldLayerTypes(name string) string {
	switch strings.ToLower(name) {
	case "attention", "full", "global":
		return full
	case "mamba", "mamba2":
		return linear
	case "sliding", "local", "sliding_window":
		return sliding
	}
	return name
}
