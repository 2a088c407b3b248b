package models

// ggufNames lists what a matrix may be called in a GGUF file, without the layer's number and
// ".weight". Several names in one entry are of tensors that hold a part of the matrix each;
// a tensor that is named for several matrices holds all of them.
// The names are those of MODEL_TENSORS in gguf-py (MIT licence).
func ggufNames(at place, l *Linear) [][]string {
	switch at.part {
	case latentPart:
		return [][]string{{"attn_kv_b"}, {"attn_k_b", "attn_v_b"}}
	case routerPart:
		return [][]string{{"ffn_gate_inp"}}
	case expertPart:
		return feedForwardNames(l.Name, "_exps")
	case sharedPart:
		if l.Name == "shared_expert_gate" {
			return [][]string{{"ffn_gate_inp_shexp"}}
		}
		return feedForwardNames(l.Name, "_shexp")
	}
	switch {
	case at.block.Attention != nil:
		return attentionNames(l.Name)
	case at.block.Scan != nil:
		return scanTensorNames(l.Name)
	}
	return feedForwardNames(l.Name, "")
}

func feedForwardNames(name, suffix string) [][]string {
	switch name {
	case "gate_proj":
		return [][]string{{"ffn_gate" + suffix}, {"ffn_gate_up" + suffix}, {"ffn_up" + suffix}}
	case "up_proj":
		return [][]string{{"ffn_up" + suffix}, {"ffn_gate_up" + suffix}}
	case "down_proj":
		return [][]string{{"ffn_down" + suffix}}
	}
	return nil
}

func attentionNames(name string) [][]string {
	switch name {
	case "q_proj":
		return [][]string{{"attn_q"}, {"attn_qkv"}}
	case "k_proj":
		return [][]string{{"attn_k"}, {"attn_qkv"}}
	case "v_proj":
		return [][]string{{"attn_v"}, {"attn_qkv"}}
	case "o_proj":
		return [][]string{{"attn_output"}}
	case "g_proj":
		return [][]string{{"attn_gate"}}
	case "gate_proj":
		return [][]string{{"attn_gate"}, {"attn_q"}} // Qwen3.5 has queries and gates in one matrix
	case "q_a_proj":
		return [][]string{{"attn_q_a"}}
	case "q_b_proj":
		return [][]string{{"attn_q_b"}}
	case "kv_a_proj":
		return [][]string{{"attn_kv_a_mqa"}}
	case "indexer.wq_b":
		return [][]string{{"indexer.attn_q_b"}}
	case "indexer.wk":
		return [][]string{{"indexer.attn_k"}}
	case "indexer.weights_proj":
		return [][]string{{"indexer.proj"}}
	}
	return nil
}

func scanTensorNames(name string) [][]string {
	switch name {
	case "in_proj":
		return [][]string{{"ssm_in"}}
	case "x_proj":
		return [][]string{{"ssm_x"}}
	case "dt_proj":
		return [][]string{{"ssm_dt"}}
	case "out_proj":
		return [][]string{{"ssm_out"}}
	case "qkv_proj":
		return [][]string{{"attn_q", "attn_k", "attn_v"}, {"attn_qkv"}}
	case "f_proj":
		return [][]string{{"ssm_f_a"}}
	case "g_proj":
		return [][]string{{"ssm_g_a"}}
	case "b_proj":
		return [][]string{{"ssm_beta"}}
	case "o_proj":
		return [][]string{{"attn_output"}}
	}
	return nil
}
