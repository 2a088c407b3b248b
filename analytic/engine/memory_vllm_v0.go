package engine

import (
	"llmprof/analytic/operator"
	"llmprof/hardware"
	"llmprof/unit"
)

// leastWhole is the least tokens of a step of vLLM's releases that do not cut prompts by default: those up to 0.5.3, whose steps have as
// many as the longest request (SchedulerConfig of vllm/config.py in 0.4.3).
const leastWhole = 2048

// heldByPass is what PyTorch's allocator holds after the profiled step, with the blocks that it keeps for itself: vLLM before 0.6.4 asks
// the driver for the memory that is free then (determine_num_available_blocks of vllm/worker/worker.py). The residual stream, its normed
// copy, the results of all products of attention and of the first product of a multi-layer perceptron have blocks of their own, since none
// is as large as the next. The activation finds room where queries, keys and values were. GPUs without FlashAttention have the results of
// attention twice (XFormersImpl of vllm/attention/backends/xformers.py).
func heldByPass(r *operator.Rank, g *hardware.GPU) func(tokens, sequences float64) unit.Bytes {
	results := 1.0
	if g.Vendor == nvidia && capability(g) < 8 {
		results = 2
	}
	var attention, perceptron float64
	for _, b := range r.Model.Blocks() {
		width := 0.0
		for i := range b.In {
			width += float64(b.In[i].Out) / float64(max(b.In[i].Parts(r.Par.TP), 1))
		}
		if a := b.Attention; a != nil {
			attention = max(attention, width+results*float64(a.Heads*a.ValueDim)/float64(r.Par.TP))
			continue
		}
		perceptron = max(perceptron, width)
	}
	width := 3*float64(r.Model.Hidden) + attention + perceptron
	return func(tokens, sequences float64) unit.Bytes {
		experts := workspaces(r, tokens)
		scores := unit.Bytes(sequences * float64(r.Model.Head.Out) * firstRunnerScores)
		return max(r.Bytes(tokens*width)+experts, scores)
	}
}
