package models

import (
	_ "embed" // for the defaults
	"encoding/json"
	"slices"
	"sync"
)

// families lists every family that is understood, made once for all models that are read.
var families = sync.OnceValue(func() []family {
	return slices.Concat(plainLlamas(), normedLlamas(), ungatedLlamas(), gpts(), parallels(), fairseqs(), aloneClassics(), gemmas(),
		plainMixtures(), sharedMixtures(), mixedMixtures(), latents(), scans(), mambaHybrids(), deltaHybrids(), otherHybrids(), singular(),
		remoteLlamas(), remoteClassics(), remoteMixtures(), sharers(), linears(), lates(), news(), compressed(), []family{step(), ling()}, lingHybrids())
})

// defaultsJSON checks what the configuration classes of transformers 5.17 assume
// of the fields that are read here, by model_type.
//
//go:embed defaults.json
var defaultsJSON []byte

// classes splits defaultsJSON by model_type, once for all models that are read.
var classes = sync.OnceValues(func() (all map[string]json.RawMessage, err error) {
	err = json.Unmarshal(defaultsJSON, &all)
	return all, err
})

// classDefaults is what a class assumes of fields that a config leaves out. A
// decoder inside a wrapper is written as its difference from these, so there
// they all hold; a config of its own must state its main sizes.
func classDefaults(d decoder) (map[string]any, error) {
	all, err := classes()
	if err != nil {
		return nil, err
	}
	if all[d.modelType] == nil {
		return nil, nil
	}
	class, err := parseConfig(all[d.modelType])
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
