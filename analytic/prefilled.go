package analytic

import "llmprof/operator"

// A prefilled remembers the last prefill steps. A batch with more tokens than a step may have prefills in equal groups of sequences.
// The groups of one batch and of the next are often alike. It serves one goroutine.
type prefilled struct {
	keys  [4]prefillKey // four: the chunks of a prompt differ in the first, in those between and in the last
	steps [4]total
	next  int // the oldest, which the next one replaces
}

// A prefillKey is what prefill steps of one Prepared differ in.
type prefillKey struct{ batch, fresh, past, logits, cache float64 }

// find is where the total of a step is kept, and whether it was priced already.
func (m *prefilled) find(s *operator.Step) (t *total, priced bool) {
	key := prefillKey{s.Batch, s.New, s.Past, s.Logits, s.Cache}
	for i := range m.keys {
		if m.keys[i] == key {
			return &m.steps[i], true
		}
	}
	i := m.next
	m.next = (i + 1) % len(m.keys)
	m.keys[i], m.steps[i] = key, total{}
	return &m.steps[i], false
}
