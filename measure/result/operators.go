package result

import "llmprof/internal/stats"

// Operators are the times of a step's operators, each timed by itself, by the
// device's events.
type Operators struct {
	How     string         `json:"how"`     // method of timing
	Prefill *OperatorPhase `json:"prefill"` // null if it was not asked for
	Decode  *OperatorPhase `json:"decode"`  // operators of the step at the middle of the generated length
}

// An OperatorPhase is a prefill or a decode step, and what it is made of.
type OperatorPhase struct {
	Context int            `json:"context"`                      // tokens of a sequence in the cache before it
	Step    OperatorTimes  `json:"step_s"`                       // the whole, timed in turn with its operators
	Sum     float64        `json:"sum_s" jsonschema:"minimum=0"` // sum of the operators' medians
	Ops     []OperatorTime `json:"ops"`                          // in the order in which they begin
}

// An OperatorTime is one operator in all layers that have it.
type OperatorTime struct {
	Name     string        `json:"name"`     // name of the operator in an estimate
	Includes []string      `json:"includes"` // others of the estimate's that its kernels do beside it
	Layers   int           `json:"layers"`   // 1 for what the model has once
	Kernels  int           `json:"kernels"`  // launched in a step, a product of a library counted as one
	Time     OperatorTimes `json:"time_s"`   // time of all layers together
}

// OperatorTimes are repeats of one time by the device's events, in seconds.
type OperatorTimes struct {
	stats.Summary
	Samples []float64 `json:"samples" jsonschema:"minimum=0"`
}

// operators checks that operators are those of one step each, and sums right.
func (c *checker) operators(o *Operators) {
	if o == nil {
		return
	}
	c.hold(o.Prefill != nil || o.Decode != nil, "operators has neither prefill nor decode")
	for _, p := range []struct {
		key string
		*OperatorPhase
	}{{"prefill", o.Prefill}, {"decode", o.Decode}} {
		if p.OperatorPhase != nil {
			c.operatorPhase("operators."+p.key, p.OperatorPhase)
		}
	}
}

func (c *checker) operatorPhase(at string, p *OperatorPhase) {
	c.summary(at+".step_s", &Times{Summary: p.Step.Summary, Samples: p.Step.Samples})
	c.hold(len(p.Ops) > 0, "%s.ops is empty", at)
	seen, sum := map[string]bool{}, 0.0
	for i := range p.Ops {
		o := &p.Ops[i]
		key := at + ".ops." + o.Name
		c.hold(o.Name != "" && o.Layers >= 1 && o.Kernels >= 1,
			"%s: operator %d has the name %q, %d layers, %d kernels: want a name, and at least 1 of each", at, i, o.Name, o.Layers, o.Kernels)
		for _, name := range append([]string{o.Name}, o.Includes...) {
			c.hold(!seen[name], "%s: %s stands twice", at, name)
			seen[name] = true
		}
		c.summary(key, &Times{Summary: o.Time.Summary, Samples: o.Time.Samples})
		c.hold(o.Time.N == 0 || o.Time.Min > 0, "%s took %v s: want times above 0", key, o.Time.Min)
		sum += o.Time.Median
	}
	c.hold(agree(sum, p.Sum), "%s.sum_s is %v, but the medians' is %v", at, p.Sum, sum)
}
