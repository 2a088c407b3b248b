package models

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"llmprof/models/gguf"
)

// ggufTypes says which family reads a value of general.architecture. The keys of a file are
// named after it: "qwen3.embedding_length".
func ggufTypes() map[string]string {
	return map[string]string{
		"apertus": "apertus", "bailingmoe": "bailing_moe", "bailingmoe2": "bailing_moe", "bailingmoe3": "bailing_moe_v3", "cohere2": "cohere2",
		"command-r": "cohere", "deepseek2": "deepseek_v3", "dots1": "dots1", "ernie4_5": "ernie4_5",
		"exaone4": "exaone4", "gemma": "gemma", "gemma2": "gemma2", "gemma3": "gemma3_text", "glm4": "glm4", "glm4moe": "glm4_moe",
		"gpt-oss": "gpt_oss", "granite": "granite", "granitemoe": "granitemoe", "llama": "llama", "minimax-m2": "minimax_m2",
		"mistral3": "ministral3",
		"nemotron": "nemotron", "olmo2": "olmo2", "olmoe": "olmoe", "phi3": "phi3", "qwen2": "qwen2", "qwen2moe": "qwen2_moe",
		"qwen2vl": "qwen2_vl_text",
		"qwen3":   "qwen3", "qwen3moe": "qwen3_moe", "qwen3vl": "qwen3_vl_text", "qwen3vlmoe": "qwen3_vl_moe_text", "seed_oss": "seed_oss",
		"smollm3": "smollm3", "stablelm": "stablelm", "starcoder2": "starcoder2", "step35": "step3p5",
	}
}

// ggufKeys are the keys of an architecture by the field of config.json that says the same.
func ggufKeys() map[string]string {
	return map[string]string{
		"hidden_size": "embedding_length", "num_hidden_layers": "block_count", "intermediate_size": "feed_forward_length",
		"num_attention_heads": "attention.head_count", "num_key_value_heads": "attention.head_count_kv", "head_dim": "attention.key_length",
		"max_position_embeddings": "context_length", "sliding_window": "attention.sliding_window", "rotary_dim": "rope.dimension_count",
		"num_experts": "expert_count", "num_experts_per_tok": "expert_used_count", "moe_intermediate_size": "expert_feed_forward_length",
		"shared_expert_intermediate_size": "expert_shared_feed_forward_length", "n_shared_experts": "expert_shared_count",
		"first_k_dense_replace": "leading_dense_block_count", "q_lora_rank": "attention.q_lora_rank", "kv_lora_rank": "attention.kv_lora_rank",
		"num_nextn_predict_layers": "nextn_predict_layers",
	}
}

// ggufConfig writes what a header says of a model in the fields of config.json.
func ggufConfig(h *gguf.Header) (map[string]any, error) {
	arch, _ := h.Values["general.architecture"].(string)
	if kind, _ := h.Values["general.type"].(string); kind != "" && kind != "model" {
		return nil, fmt.Errorf("it holds no model but %s (general.type)", quote(kind))
	}
	modelType, known := ggufTypes()[arch]
	switch {
	case arch == "":
		return nil, fmt.Errorf("general.architecture is missing; want the architecture's name, such as \"llama\"")
	case arch == "clip":
		return nil, fmt.Errorf("it holds the vision tower of a model (architecture \"clip\"); give the file of its decoder")
	case !known:
		return nil, fmt.Errorf("general.architecture is %s, which is not read from GGUF (read: %s); give the config.json of the original model",
			quote(arch), strings.Join(slices.Sorted(maps.Keys(ggufTypes())), ", "))
	}
	c := map[string]any{"model_type": modelType}
	lists := map[string]func(map[string]any, *gguf.Header) error{"step35": stepHeads, "bailingmoe3": lingLayers}[arch] // their layers differ
	if lists != nil {
		if err := lists(c, h); err != nil {
			return nil, err
		}
	}
	for field, key := range ggufKeys() {
		if c[field] != nil {
			continue
		}
		n, found, err := ggufNumber(h, arch+"."+key)
		if err != nil {
			return nil, err
		}
		if found {
			c[field] = asNumber(int(n))
		}
	}
	for _, field := range []string{"hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size"} {
		if c[field] == nil {
			return nil, fmt.Errorf("the key %s.%s is missing; want a whole number", arch, ggufKeys()[field])
		}
	}
	fromTensors(c, h)
	err := amendGGUF(c, h, arch)
	return c, err
}

// ggufNumber reads a whole number, or a list in which all are the same.
func ggufNumber(h *gguf.Header, key string) (n int64, found bool, err error) {
	switch v := h.Values[key].(type) {
	case nil:
		return 0, false, nil
	case int64:
		n = v
	case gguf.List:
		if len(v.Numbers) == 0 || len(v.Numbers) != v.Len || len(slices.Compact(slices.Clone(v.Numbers))) != 1 {
			return 0, false, fmt.Errorf("%s is a list of %d values that differ; a number for all layers is read", key, v.Len)
		}
		n = v.Numbers[0]
	default:
		return 0, false, fmt.Errorf("%s is %v; want a whole number", key, v)
	}
	if n < 0 || n > maxSize {
		return 0, false, fmt.Errorf("%s is %d; want a whole number from 0 to %d", key, n, maxSize)
	}
	return n, true, nil
}

// fromTensors adds what only the table of tensors says.
func fromTensors(c map[string]any, h *gguf.Header) {
	c["tie_word_embeddings"] = true
	for i := range h.Tensors {
		t := &h.Tensors[i]
		switch t.Name {
		case "token_embd.weight":
			if len(t.Dims) > 1 {
				c["vocab_size"] = asNumber(int(t.Dims[1]))
			}
		case "output.weight":
			c["tie_word_embeddings"] = false
		case "blk.0.attn_q.bias", "blk.0.attn_qkv.bias":
			c["attention_bias"], c["use_qkv_bias"] = true, true
		case "blk.0.ffn_up.bias":
			c["mlp_bias"] = true
		case "blk.0.attn_q_norm.weight":
			c["use_qk_norm"], c["qk_layernorm"] = true, true
		case "blk.0.attn_gate.weight":
			c["use_head_wise_attn_gate"] = true
		}
		if strings.HasSuffix(t.Name, ".exp_probs_b.bias") {
			c["use_moe_router_bias"], c["moe_router_enable_expert_bias"] = true, true
		}
	}
}

// amendGGUF writes what an architecture says in its own way.
func amendGGUF(c map[string]any, h *gguf.Header, arch string) error {
	whole := func(key string) int {
		n, _, err := ggufNumber(h, arch+"."+key)
		if err != nil {
			return 0
		}
		return int(n)
	}
	if drafts := whole("nextn_predict_layers"); drafts > 0 {
		c["num_hidden_layers"] = asNumber(whole("block_count") - drafts)
	}
	for _, field := range []string{"num_experts", "sliding_window", "q_lora_rank"} {
		if c[field] == asNumber(0) {
			delete(c, field)
		}
	}
	switch arch {
	case "llama":
		if c["num_experts"] != nil {
			c["model_type"] = "mixtral"
		}
	case "qwen2", "qwen2moe", "qwen3", "qwen3moe", "qwen2vl", "qwen3vl", "qwen3vlmoe":
		delete(c, "rotary_dim") // Qwen-VL's counts sections of rotary positions
	case "deepseek2":
		return amendDeepSeek(c, arch, whole)
	case "bailingmoe2":
		c["moe_shared_expert_intermediate_size"] = c["shared_expert_intermediate_size"]
	case "bailingmoe3":
		c["moe_shared_expert_intermediate_size"] = c["shared_expert_intermediate_size"]
		if err := amendDeepSeek(c, arch, whole); err != nil {
			return err
		}
		c["head_dim"], c["short_conv_kernel_size"] = asNumber(whole("kda.head_dim")), asNumber(whole("ssm.conv_kernel"))
	case "step35":
		delete(c, "rotary_dim")
	}
	return nil
}

// amendDeepSeek writes the dimensions of latent attention. Files since 2025 state the lengths of
// the expanded heads with the suffix _mla, older ones without.
func amendDeepSeek(c map[string]any, arch string, whole func(string) int) error {
	key, value := whole("attention.key_length_mla"), whole("attention.value_length_mla")
	if key == 0 {
		key, value = whole("attention.key_length"), whole("attention.value_length")
	}
	rope := whole("rope.dimension_count")
	if key <= rope || value == 0 || rope == 0 {
		return fmt.Errorf(
			"%s.attention.key_length_mla (%d), value_length_mla (%d) and rope.dimension_count (%d) are no heads of latent attention", arch, key,
			value, rope)
	}
	for field, n := range map[string]int{"qk_rope_head_dim": rope, "qk_nope_head_dim": key - rope, "v_head_dim": value,
		"n_shared_experts": whole("expert_shared_count")} {
		c[field] = asNumber(n)
	}
	c["num_key_value_heads"] = c["num_attention_heads"]
	if c["q_lora_rank"] == nil {
		c["q_lora_rank"] = asNumber(0)
	}
	delete(c, "head_dim")
	delete(c, "rotary_dim")
	return nil
}

// stepHeads reads the lists of step35: which layers slide, and the heads of either sort. Its code in llama.cpp
// rotates half of a head where a layer does not slide.
func stepHeads(c map[string]any, h *gguf.Header) error {
	slides, err := ggufList(h, "step35.attention.sliding_window_pattern")
	if err != nil {
		return err
	}
	var types []any
	var factors []any
	for _, s := range slides {
		types, factors = append(types, choose(s != 0, sliding, full)), append(factors, json.Number(choose(s != 0, "1", "0.5")))
	}
	c["layer_types"], c["partial_rotary_factors"] = types, factors
	other := map[string]any{}
	for key, fields := range map[string][2]string{
		"head_count": {"num_attention_heads", "num_attention_heads"}, "head_count_kv": {"num_key_value_heads", "num_attention_groups"},
	} {
		key = "step35.attention." + key
		heads, err := ggufList(h, key)
		if err != nil {
			return err
		}
		if len(heads) != len(slides) {
			return fmt.Errorf("%s has %d entries and sliding_window_pattern %d", key, len(heads), len(slides))
		}
		for i, n := range heads {
			place, field := c, fields[0]
			if slides[i] != 0 {
				place, field = other, fields[1]
			}
			if stated := place[field]; stated != nil && stated != asNumber(int(n)) {
				return fmt.Errorf("%s differs between layers of one sort (%v and %d)", key, stated, n)
			}
			place[field] = asNumber(int(n))
		}
	}
	c["attention_other_setting"] = other
	return nil
}

// lingLayers reads which layers of bailingmoe3 have latent attention: the others have no heads of keys and values.
// Its code in llama.cpp has projections of full rank and a gate a head alone.
func lingLayers(c map[string]any, h *gguf.Header) error {
	heads, err := ggufList(h, "bailingmoe3.attention.head_count_kv")
	if err != nil {
		return err
	}
	drafts, _, err := ggufNumber(h, "bailingmoe3.nextn_predict_layers")
	if err != nil {
		return err
	}
	var types []any
	for _, n := range heads[:max(0, len(heads)-int(drafts))] {
		types = append(types, choose(n != 0, full, linear))
	}
	c["layer_types"], c["num_key_value_heads"] = types, asNumber(1)
	c["no_kda_lora"], c["gated_attention_proj_granularity_type"] = true, "head_wise"
	return nil
}

// ggufList reads a list of whole numbers, of which there is one a layer.
func ggufList(h *gguf.Header, key string) ([]int64, error) {
	list, ok := h.Values[key].(gguf.List)
	if !ok || list.Len == 0 || len(list.Numbers) != list.Len || list.Len > maxLayers {
		return nil, fmt.Errorf("%s is no list of a number for each layer", key)
	}
	for _, n := range list.Numbers {
		if n < 0 || n > maxSize {
			return nil, fmt.Errorf("%s holds %d; want whole numbers from 0 to %d", key, n, maxSize)
		}
	}
	return list.Numbers, nil
}
