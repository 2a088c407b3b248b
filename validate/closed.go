package validate

import (
	"math"

	"llmprof/analytic"
	"llmprof/analytic/operator"
	"llmprof/unit"
)

// promptsPerStep is how many prompts of clients in a closed loop come with one step. Those of answers of
// one length end together, and so do their prompts: as many share a step as its budget of tokens
// holds, where prompts are not cut into chunks as many whole ones. Others ask one after the other, where not several do during one step,
// or during the decode steps after which the engine receives new requests.
func (c *Config) promptsPerStep(w *analytic.Workload, p *analytic.Predictor, whole bool) float64 {
	n := float64(w.Batch)
	if c.Load == Varied {
		return max(n/float64(w.GenLen)*float64(max(c.RecvInterval, 1)), 1)
	}
	holds := (stepBudget(w, p) - n) / float64(w.PromptLen)
	if whole {
		holds = math.Floor(holds)
	}
	return min(max(holds, 1), n)
}

// cuts reports whether an engine cuts prompts into chunks. TensorRT-LLM does not by default, nor by the launch files of aiconfigurator
// (enable_chunked_prefill in generator/templates/trtllm).
func cuts(engine string) bool { return engine != "tensorrt-llm" }

// stepBudget is the most tokens of a step; infinite where there is no limit.
func stepBudget(w *analytic.Workload, p *analytic.Predictor) float64 {
	budget := p.Budget()
	if w.Budget > 0 {
		budget = float64(w.Budget)
	}
	if budget == 0 {
		return math.Inf(1)
	}
	return budget
}

// joins is by how much longer a decode step of all sequences of a workload takes for one of the
// prompts of other clients that join it together. Prompts longer than a step's budget of tokens
// take several steps.
func joins(p *analytic.Predictor, w *analytic.Workload, prompts float64) unit.Seconds {
	decode := operator.Group{Batch: float64(w.Batch), New: 1, Past: float64(w.PromptLen) + float64(w.GenLen)/2, Logits: 1}
	step, _ := p.MixedStep([]operator.Group{decode})
	budget := max(min(stepBudget(w, p), prompts*float64(w.PromptLen)+decode.Batch)-decode.Batch, 1)
	sum, left := unit.Seconds(0), prompts*float64(w.PromptLen)
	for past := 0.0; left > 0 && past < 1e6; past += budget / prompts {
		chunk := min(left, budget)
		prompt := operator.Group{Batch: prompts, New: chunk / prompts, Past: past}
		if left -= chunk; left <= 0 {
			prompt.Logits = 1
		}
		mixed, _ := p.MixedStep([]operator.Group{decode, prompt})
		sum += max(mixed-step, 0)
	}
	return sum.Times(1 / prompts)
}

// goes is what a step of so many prompts, of an engine whose prompts have steps of their own, takes for
// one of them.
func goes(p *analytic.Predictor, w *analytic.Workload, prompts float64) (sum unit.Seconds) {
	each := min(float64(w.PromptLen), stepBudget(w, p)/prompts)
	for past := 0.0; past < float64(w.PromptLen); past += each {
		step, _ := p.MixedStep([]operator.Group{{Batch: prompts, New: min(each, float64(w.PromptLen)-past), Past: past, Logits: 1}})
		sum += step
	}
	return sum.Times(1 / prompts)
}

// interrupted is the time per token in a closed loop of C clients: while one of
// them generates, each of the others asks once more, and its prompt joins a step of all, but for
// those that share a step with its own.
//
//	TPOT = decode step of C sequences + (C - prompts of a step) × what a prompt adds to a step / generated
//
// Where prompts have steps of their own, those whose answers have one length begin and end a wave together:
// on the mean half of the others' prompts come after one's own.
//
// The floor leaves the prompts out, since an engine may hide them. A prompt among
// decode steps is a burst: the power limit is kept over some 100 ms, and decoding
// draws less than it.
func (p *prediction) interrupted(c *Config) span {
	s := times(p.TPOT)
	stops := (float64(c.Batch) - min(p.promptsPerStep, float64(c.Batch))) / float64(c.Gen) * float64(p.joins)
	if p.apart && c.Load == Closed {
		stops /= 2
	}
	first := &p.first.TTFT
	s.expected += stops
	*s.low += stops * float64(first.Low/first.Expected)
	*s.high += stops * float64(first.High/first.Expected)
	return s
}
