package models

import (
	_ "embed" // the defaults are embedded
	"slices"
	"strings"
	"sync"
)

// families lists every family that is understood, made once for all models that are read.
var families = sync.OnceValue(func() []family {
	return slices.Concat(plainLlamas(), normedLlamas(), ungatedLlamas(), gpts(), parallels(), fairseqs(), aloneClassics(), gemmas(),
		plainMoE(), sharedMoE(), mixedMoE(), latents(), scans(), mambaHybrids(), deltaHybrids(), otherHybrids(), singular(),
		remoteLlamas(), remoteClassics(), remoteMoE(), sharers(), linears(), lates(), news(), compressed(), []family{step(), ling()}, lingHybrids())
})

// defaultsJSON has on a line for each model_type what the configuration classes of transformers 5.17
// assume of the fields that are read here.
//
//go:embed defaults.json
var defaultsJSON string

// classOf is what defaultsJSON has of a model_type; it is empty where that has no class.
func classOf(modelType string) string {
	_, rest, ok := strings.Cut(defaultsJSON, "\n  \""+modelType+"\": ")
	if !ok || strings.Contains(modelType, `"`) {
		return ""
	}
	line, _, _ := strings.Cut(rest, "\n")
	return strings.TrimSuffix(line, ",")
}

// classDefaults is what a class assumes of fields that a config leaves out. A
// decoder inside a wrapper is written as its difference from these, so there
// they all hold; a config of its own must state its main sizes.
func classDefaults(d decoder) (map[string]any, error) {
	text := classOf(d.modelType)
	if text == "" {
		return nil, nil
	}
	class, err := parseConfig([]byte(text))
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

// unread says of families that exist which of their parts is not understood.
func unread(modelType string) string {
	switch modelType {
	case "blt":
		return "its bytes are grouped into patches by a model of their own (patcher_config), and only the patches go through the large layers"
	case "hrm_text":
		return "its two modules run in cycles (H_cycles, L_cycles), which is not understood"
	case "qwen4_exp", "qwen4_exp_text":
		return "its tables of n-grams (ngram_size) and its indexer of compressed keys (indexer_compress_ratio) are not understood"
	case "bert", "roberta", "xlm-roberta", "electra", "deberta", "deberta-v2", "distilbert", "albert", "modernbert":
		return "it is an encoder; decoders are read"
	case "t5", "mt5", "umt5", "bart", "mbart", "pegasus", "whisper", "marian", "m2m_100", "blenderbot", "fsmt", "led", "t5gemma":
		return "it is an encoder with a decoder; decoders alone are read"
	case "xlnet", "reformer", "transfo-xl", "prophetnet", "xlm", "rwkv5", "rwkv6", "rwkv7":
		return "its layers are not understood"
	}
	return ""
}
