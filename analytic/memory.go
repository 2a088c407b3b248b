package analytic

import (
	"maps"

	"llmprof/analytic/operator"
)

// A stepMemory has steps that were priced, with what they take more on machines that differ in a constant. It serves one goroutine.
//
// A batch with more tokens than a step may have prefills in equal groups of sequences, and batches often have the same groups: where groups
// are single prompts, a grid over batches and prompts prices each prompt once. All larger batches share the decode steps before an
// engine's switches of kernels.
type stepMemory struct {
	base     *Predictor // prices the steps
	prefills stepTable
	decodes  stepTable
	switched stepTable // decode steps of the largest batches before the switches
	sums     partSums  // The step at hand is summed here.
}

// The tables of a memory hold mostSteps and mostDecodeSteps at most and fewSteps at first. The table of decode steps has those of a
// workload or two.
const (
	mostSteps       = 1 << 14
	mostDecodeSteps = 1 << 8
	fewSteps        = 1 << 3
)

func newStepMemory(base *Predictor) *stepMemory {
	m := &stepMemory{prefills: stepTable{most: mostSteps}, decodes: stepTable{most: mostDecodeSteps}, switched: stepTable{most: mostSteps}}
	m.forget(base)
	return m
}

// forget empties the memory, for steps that another predictor prices.
func (m *stepMemory) forget(base *Predictor) {
	m.base = base
	from, to := base.asked()
	for _, t := range []*stepTable{&m.prefills, &m.decodes, &m.switched} {
		t.forget(to - from)
	}
}

// table is where steps such as s are remembered.
func (m *stepMemory) table(s *operator.Step, switched bool) *stepTable {
	switch {
	case switched:
		return &m.switched
	case s.Decode():
		return &m.decodes
	}
	return &m.prefills
}

// find is the sums of a step, by part.
func (m *stepMemory) find(s *operator.Step, switched bool) []sums {
	key := stepKey{s.Batch, s.New, s.Past, s.Logits, 0}
	if m.base.fixedCache {
		key.cache = s.Cache
	}
	all, priced := m.table(s, switched).find(&key)
	if !priced {
		m.sums.reset(m.base)
		m.base.walk(&m.sums, s, nil)
		from, to := m.base.asked()
		for i, s := range m.sums[from:to] {
			all[i].set(&s)
		}
	}
	return all
}

// A stepTable has the sums of steps. A full table forgets any one of them for each that comes.
type stepTable struct {
	parts int             // sums of each step
	most  int             // steps
	at    map[stepKey]int // place of each step in sums
	sums  []sums
}

// forget empties the table, for steps of so many sums each. It keeps its memory.
func (m *stepTable) forget(parts int) {
	clear(m.at)
	m.parts = parts
}

// A stepKey is what steps of one Prepared differ in.
type stepKey struct{ batch, fresh, past, logits, cache float64 }

// find is where the sums of a step are kept, and whether it was priced already.
func (m *stepTable) find(key *stepKey) (all []sums, priced bool) {
	at, priced := m.at[*key]
	if !priced {
		at = m.place()
		m.at[*key] = at
	}
	return m.sums[at*m.parts : (at+1)*m.parts], priced
}

// place is a place for a further step, that of any other one where the table is full. There are few places for the steps of one estimate,
// more for those of a workload or two, and from then on as many as there can be, so that memory does not grow with a grid.
func (m *stepTable) place() int {
	n := len(m.at)
	if n == m.most {
		for key, at := range m.at {
			delete(m.at, key)
			return at
		}
	}
	if (n+1)*m.parts > len(m.sums) {
		places := m.most
		switch {
		case n == 0:
			places = fewSteps
		case n < mostDecodeSteps:
			places = mostDecodeSteps
		}
		all := make(map[stepKey]int, places)
		maps.Copy(all, m.at)
		m.at, m.sums = all, append(m.sums, make([]sums, places*m.parts-len(m.sums))...)
	}
	return n
}
