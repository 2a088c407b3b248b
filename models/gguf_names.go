package models

import "strings"

// The tensors that a matrix may be in, in a GGUF file: alternatives are split by "|", tensors that hold a
// part of the matrix each by "+"; one that is named for several matrices holds all of them. MODEL_TENSORS
// of gguf-py (MIT licence) has these names, which lack the layer's number and ".weight" here.
var (
	attentionTensors = map[string]string{
		"q_proj": "attn_q|attn_qkv", "k_proj": "attn_k|attn_qkv", "v_proj": "attn_v|attn_qkv", "o_proj": "attn_output", "g_proj": "attn_gate",
		"gate_proj": "attn_gate|attn_q", // Qwen3.5 has queries and gates in one matrix
		"q_a_proj":  "attn_q_a", "q_b_proj": "attn_q_b", "kv_a_proj": "attn_kv_a_mqa",
		"indexer.wq_b": "indexer.attn_q_b", "indexer.wk": "indexer.attn_k", "indexer.weights_proj": "indexer.proj",
	}
	scanTensors = map[string]string{
		"in_proj": "ssm_in", "x_proj": "ssm_x", "dt_proj": "ssm_dt", "out_proj": "ssm_out",
		"qkv_proj": "attn_q+attn_k+attn_v|attn_qkv", "f_proj": "ssm_f_a", "g_proj": "ssm_g_a", "b_proj": "ssm_beta", "o_proj": "attn_output",
	}
	feedForwardTensors = map[string]string{"gate_proj": "ffn_gate|ffn_gate_up|ffn_up", "up_proj": "ffn_up|ffn_gate_up", "down_proj": "ffn_down"}
	expertTensors      = map[string]string{
		"gate_proj": "ffn_gate_exps|ffn_gate_up_exps|ffn_up_exps", "up_proj": "ffn_up_exps|ffn_gate_up_exps", "down_proj": "ffn_down_exps",
	}
	sharedTensors = map[string]string{
		"gate_proj": "ffn_gate_shexp|ffn_gate_up_shexp|ffn_up_shexp", "up_proj": "ffn_up_shexp|ffn_gate_up_shexp", "down_proj": "ffn_down_shexp",
		"shared_expert_gate": "ffn_gate_inp_shexp",
	}
)

// ggufNames lists the alternatives of a matrix, each with the tensors that hold its parts.
func ggufNames(at place, l *Linear) (names [][]string) {
	text := feedForwardTensors[l.Name]
	switch {
	case at.part == latentPart:
		text = "attn_kv_b|attn_k_b+attn_v_b"
	case at.part == routerPart:
		text = "ffn_gate_inp"
	case at.part == expertPart:
		text = expertTensors[l.Name]
	case at.part == sharedPart:
		text = sharedTensors[l.Name]
	case at.block.Attention != nil:
		text = attentionTensors[l.Name]
	case at.block.Scan != nil:
		text = scanTensors[l.Name]
	}
	if text == "" {
		return nil
	}
	for alternative := range strings.SplitSeq(text, "|") {
		names = append(names, strings.Split(alternative, "+"))
	}
	return names
}
