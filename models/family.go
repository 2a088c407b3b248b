package models

import (
	"slices"
	"sync"
)

// A family says how one or more values of model_type arrange the shared
// blocks: which fields hold which size, which norms and biases there are, what
// transformers takes where the config is silent. It is data; what does the
// building knows no family by name.
type family struct {
	types  []string          // values of model_type, the first one naming the family
	names  map[string]string // the family's own names of fields, alternatives split by |, by their common names
	assume string            // JSON, by common names: what transformers takes for fields left out that fields.json lacks; "" for none
	embed  embedShape
	norms  normPlan // RMSNorms before each block where none are named
	attn   attentionShape
	ffn    ffnShape
	moe    moeShape
	plan   layerPlan
	// draftless is a family whose checkpoints lack the draft (MTP) layers that their configs name.
	draftless bool
	mixers    map[string]mixer // mixer of each layer type; all families know the sorts of attention
	// tune bends the description where a switch in the config does.
	tune func(*reader)
	// finish adds what only this family has to the blocks of a layer.
	finish func(*reader, kind, []Block) []Block
	// amend adds what only this family has outside of the layers.
	amend func(*reader, *Model)
}

// A toggle is yes, no, or the name of the field that decides. A "!" before
// the name turns it round.
type toggle string

const (
	no  toggle = ""
	yes toggle = "yes"
)

// A mixer builds the blocks that take the place of attention in a layer.
type mixer func(*reader, kind) []Block

// A kind describes one layer of a model, as far as it differs from the others.
type kind struct {
	mixer   string // a layer type of transformers: "full_attention", "mamba"...
	ffn     string // "mlp", "moe" or "" for none
	noRope  bool   // no rotary positions
	shared  bool   // reads the cache of an earlier layer
	follows bool   // reads the keys that an earlier layer's indexer picked
	first   bool   // lacks what later layers take from the one before
	looped  bool   // runs several times
	grams   bool   // adds embeddings of n-grams to its input
	own     string // what per_layer_config says of it
	heads   int    // query heads; this and the counts below are 0 where all layers have the config's
	kv      int    // KV heads
	width   int    // width of the feed-forward
	rotated int    // dimensions of a head with rotary positions
}

// A layerPlan says which kind each layer is. Each function is asked once a
// layer; nil takes what is usual.
type layerPlan struct {
	mixer func(r *reader, i int) string // asked only where the config has no layer_types
	ffn   func(r *reader, i int) string
	alter func(r *reader, i int, k *kind)
}

// An embedShape says what comes before the first layer and after the last.
type embedShape struct {
	positions string   // field with the rows of a learned position table
	offset    int      // rows the table has beyond that
	norms     []string // after the embedding
	final     string   // name of the norm after the last layer; "-" for none
	headBias  toggle
}

// A normPlan says which norms the two blocks of a layer have.
type normPlan struct {
	shape    normShape
	mixer    []string
	ffn      []string
	parallel toggle // attention and feed-forward read the same stream and add to one sum
	joined   bool   // engines sum both over the ranks at once
}

// A normShape is the weights that a norm has for each value.
type normShape int

const (
	scaleOnly normShape = iota // RMSNorm, LayerNorm without bias
	scaleAndShift
	weightless
)

func (s normShape) norm(name string, width, heads int) Norm {
	n := Norm{Name: name, Width: width, Heads: heads, PerHead: heads > 1}
	switch s {
	case scaleOnly:
		n.Params = int64(width)
	case scaleAndShift:
		n.Params = 2 * int64(width)
	}
	return n
}

// An attentionShape says what a softmax attention has beside its four matrices.
type attentionShape struct {
	bias, outBias toggle
	norms         headNorms
	positions     positions
	gate          gateShape
	floorDim      bool   // hidden/heads is rounded down where it has a rest
	sinks         toggle // one learned logit a head that takes a share of the softmax
	softcap       string // field that is set where the scores are capped
}

type headNorms struct {
	on    toggle
	scope normScope
	shape normShape
}

// A normScope is what one norm of queries or keys covers.
type normScope int

const (
	eachHead  normScope = iota // every head has the same weights
	ownHead                    // each head with weights of its own
	wholeHead                  // one norm over all heads together
)

// positions says how attention learns where a token stands.
type positions int

const (
	rotary positions = iota
	alibi
	unrotated // a learned table, or nothing
)

// A gateShape is a gate on what attention returns.
type gateShape int

const (
	noGate    gateShape = iota
	valueGate           // one a value, with the bias of the queries
	plainGate           // one a value, without bias
	headGate            // one a head
)

type ffnShape struct {
	ungated bool
	bias    toggle // all matrices have a bias
	times   int    // the width is this multiple of the hidden size where the config states none
}

// A moeShape says what a MoE layer has beside the experts.
type moeShape struct {
	ungated    bool
	bias       toggle // the experts' matrices have a bias
	sharedBias toggle // the shared feed-forward's matrices have a bias
	routerBias toggle
	correction toggle // a bias for the choice that counts as a parameter
	shared     sharedShape
	sharedGate bool   // one score that scales the shared feed-forward
	width      string // field with an expert's width; moe_intermediate_size if not given
}

// A sharedShape says how a config gives the feed-forward that every token takes.
type sharedShape int

const (
	noShared     sharedShape = iota
	sharedCount              // n_shared_experts times the width of an expert
	sharedWidth              // shared_expert_intermediate_size
	sharedExpert             // exactly as wide as an expert
)

// Shapes that several families share.

// biased has biases where attention_bias says so.
func biased() attentionShape {
	return attentionShape{bias: attentionBias, outBias: attentionBias}
}

// perHead norms the queries and keys of each head.
func perHead() attentionShape {
	return attentionShape{bias: attentionBias, outBias: attentionBias, norms: headNorms{on: yes}}
}

// whole norms the queries of all heads together, and the keys.
func whole() attentionShape {
	return attentionShape{bias: attentionBias, outBias: attentionBias, norms: headNorms{on: yes, scope: wholeHead}}
}

// always gives every layer experts.
func always() layerPlan { return layerPlan{ffn: every("moe")} }

// learned takes its positions from a table.
func learned() attentionShape {
	return attentionShape{bias: yes, outBias: yes, positions: unrotated}
}

// ungated is the feed-forward of before Llama.
func ungated() ffnShape { return ffnShape{ungated: true, bias: yes} }

// quadruple is four times as wide as the stream, unless the config says otherwise.
func quadruple() ffnShape { return ffnShape{ungated: true, bias: yes, times: 4} }

// oneNorm serves attention and feed-forward, which add to one sum.
func oneNorm() normPlan {
	return normPlan{shape: scaleAndShift, mixer: []string{"ln_1"}, parallel: yes}
}

// noNorms leaves the norms to the mixers.
func noNorms() normPlan { return normPlan{mixer: []string{}} }

// gptNames are GPT-2's own.
func gptNames() map[string]string {
	return map[string]string{"intermediate_size": "n_inner", "max_position_embeddings": "n_positions|n_ctx"}
}

// families lists every family that is understood, made once for all models that are read.
var families = sync.OnceValue(func() []family {
	return slices.Concat(plainLlamas(), normedLlamas(), ungatedLlamas(), gpts(), parallels(), fairseqs(), aloneClassics(), gemmas(),
		layeredGemmas(),
		plainMoE(), sharedMoE(), mixedMoE(), latents(), gatedLatents(), scans(), mambaHybrids(), deltaHybrids(), otherHybrids(), singular(),
		remoteLlamas(), remoteClassics(), remoteMoE(), sharers(), linears(), compressed(), []family{step(), step3(), ling()}, lingHybrids(),
		autumn2026(), inkling2())
})

// classDefaults is what a class assumes of fields that a config leaves out. A
// decoder inside a wrapper is written as its difference from these, so there
// they all hold; a config of its own must state its main sizes.
func classDefaults(d decoder) (map[string]any, error) {
	text := fieldTable().Classes[d.modelType]
	if text == nil {
		return nil, nil
	}
	class, err := parseConfig(text)
	if err != nil {
		return nil, err
	}
	defaults := make(map[string]any, len(class))
	for field, v := range class {
		if d.nested || !mainSize(field) {
			defaults[field] = v
		}
	}
	return defaults, nil
}

// mainSize reports whether a field is one of those without which a config is
// incomplete, whatever its class assumes.
func mainSize(field string) bool {
	switch field {
	case "vocab_size", "hidden_size", "n_embd", "d_model", "embedding_dim",
		"num_hidden_layers", "n_layer", "n_layers", "num_layers", "num_blocks",
		"num_attention_heads", "n_head", "n_heads", "num_heads", "attention_heads",
		"intermediate_size", "ffn_dim", "dff", "dim_ff", "ffn_hidden_size", "moe_intermediate_size", "expert_ffn_hidden_size",
		"num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts":
		return true
	}
	return false
}
