package analytic

import "llmprof/operator"

// A prefilled remembers the last prefill steps. A batch with more tokens than a step may have prefills in equal groups of sequences, and
// those of most batches are alike. It serves one goroutine.
type prefilled struct {
	steps []prefillStep
	next  int // the oldest, which the next one replaces
}

// A prefillStep is a step by what those of one Prepared differ in.
type prefillStep struct {
	batch, fresh, past, logits, cache float64

	total total
}

// maxPrefilled is the most steps that are remembered: as many as the batches of a search come to that differ.
const maxPrefilled = 16

// find is where the total of a step is kept, and whether it was priced already.
func (m *prefilled) find(s *operator.Step) (t *total, priced bool) {
	for i := range m.steps {
		if r := &m.steps[i]; r.batch == s.Batch && r.fresh == s.New && r.past == s.Past && r.logits == s.Logits && r.cache == s.Cache {
			return &r.total, true
		}
	}
	if len(m.steps) < maxPrefilled {
		m.steps = append(m.steps, prefillStep{})
	}
	r := &m.steps[m.next]
	m.next = (m.next + 1) % maxPrefilled
	*r = prefillStep{batch: s.Batch, fresh: s.New, past: s.Past, logits: s.Logits, cache: s.Cache}
	return &r.total, false
}
