package native

import "slices"

// A fusedOperator is what some kernels of the engine do, in the estimate's words: the operator that names
// them, and the operators that are fused into them.
type fusedOperator struct {
	name     string
	includes []string
}

// A call is an operator in one layer, on one part of the prompts: what the engine queues at a time.
type call struct {
	fusedOperator
	layer int // once for what is not in a layer
	queue func() error

	// It queues this call and the next n-1, which belong to the next layers, at once; nil if calls are queued one by one.
	together func(n int) error
	whole    func() error // The first of so many calls queues all of them at once; nil if that is not possible.
	calls    int
}

// once is the layer of operators that the model has once.
const once = -1

// A sequence is a prefill or a decode step: its calls in the order of queueing. All that runs, times
// or traces a step takes its calls from here.
type sequence []call

// add appends a call of the operator name, which includes others.
func (s *sequence) add(layer int, queue func() error, name string, includes ...string) {
	*s = append(*s, call{fusedOperator: fusedOperator{name, includes}, layer: layer, queue: queue})
}

// atOnce sets a function that queues all calls as one.
func (s sequence) atOnce(queue func() error) { s[0].whole, s[0].calls = queue, len(s) }

// one reports whether all calls are queued as one.
func (s sequence) one() bool { return len(s) > 0 && s[0].whole != nil && s[0].calls == len(s) }

func (s sequence) queue() error {
	if s.one() {
		return s[0].whole()
	}
	for len(s) > 0 {
		n, queue := 1, s[0].queue
		if s[0].together != nil {
			for n < len(s) && s[n].together != nil && s[n].layer == s[0].layer+n {
				n++
			}
			queue = func() error { return s[0].together(n) }
		}
		if err := queue(); err != nil {
			return err
		}
		s = s[n:]
	}
	return nil
}

// operators are the operators of the sequence, in the order of their first calls.
func (s sequence) operators() []fusedOperator {
	var out []fusedOperator
	for i := range s {
		if !slices.ContainsFunc(out, func(o fusedOperator) bool { return o.name == s[i].name }) {
			out = append(out, s[i].fusedOperator)
		}
	}
	return out
}

// of is one operator's part of the sequence, in all layers.
func (s sequence) of(name string) sequence {
	return slices.DeleteFunc(slices.Clone(s), func(c call) bool { return c.name != name })
}

// layers is how many layers the calls belong to, 1 for what the model has once.
func (s sequence) layers() int {
	var seen []int
	for i := range s {
		if !slices.Contains(seen, s[i].layer) {
			seen = append(seen, s[i].layer)
		}
	}
	return len(seen)
}

// attentionNames are the estimate's names of attention: one for each kind of attention in the model's
// layers.
func (e *Engine) attentionNames() []string {
	var names []string
	for i := range e.opt.Model.Layers {
		name := "attention"
		if e.opt.Model.Layers[i].Blocks[0].Attention.Window > 0 {
			name = "sliding_attention"
		}
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// rotaryName is the estimate's name of RoPE, with the q/k norms that its kernel includes.
func (e *Engine) rotaryName() string {
	if e.shape.qkNorm {
		return "qk_norm_rotary"
	}
	return "rotary"
}
