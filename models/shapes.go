package models

// Shapes that several families share.

// wide is an expert's width where all feed-forwards are experts.
const wide = "intermediate_size"

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
