package analytic

import (
	"math"

	"llmprof/operator"
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
	switched stepTable  // decode steps of the largest batches before the switches
	sums     kernelSums // The step at hand is summed here.
}

// Sets of places at most of the tables of a memory. Those of decode steps have the steps of a workload or two.
const (
	mostSets   = 4096
	decodeSets = 64
)

func newStepMemory(base *Predictor) *stepMemory {
	m := &stepMemory{prefills: stepTable{most: mostSets}, decodes: stepTable{most: decodeSets}, switched: stepTable{most: mostSets}}
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
		m.sums.total(m.base, all)
	}
	return all
}

// A stepTable has steps in places of sets, which are found by a hash. Where a set is full one of its steps is replaced, or there are more sets
// once that was often so: few batches of each of many deployments, as a search has, are not worth the room.
type stepTable struct {
	parts int // sums of each step
	most  int // sets; a power of two
	keys  [][places]stepKey
	sums  []sums
	next  int         // place of the next step that is replaced
	full  int         // how often a set was full
	last  [2]struct { // the last steps that were found, as a run of steps has a first and a last one
		key stepKey
		at  int
	}
	older int // the one of these that was found earlier
}

// forget empties the table, for steps of so many sums each. It keeps its memory, of which steps of fewer sums leave some unused.
func (m *stepTable) forget(parts int) {
	clear(m.keys)
	if parts*places*len(m.keys) > len(m.sums) {
		m.keys = nil
	}
	*m = stepTable{parts: parts, most: m.most, keys: m.keys, sums: m.sums, full: m.full}
}

// places is the number of places of a set. The chunks of a prompt differ in the first, in those between and in the last.
const places = 4

// patience is how often a set may be full before there are more.
const patience = 64

// A stepKey is what steps of one Prepared differ in.
type stepKey struct{ batch, fresh, past, logits, cache float64 }

// set is one of n sets, where n is a power of two.
func (k *stepKey) set(n int) int {
	h := uint64(0)
	for _, x := range [...]float64{k.batch, k.fresh, k.past, k.logits, k.cache} {
		h = (h ^ math.Float64bits(x)) * 0x9e3779b97f4a7c15
		h ^= h >> 29
	}
	return int(h & uint64(n-1))
}

// find is where the sums of a step are kept, and whether it was priced already.
func (m *stepTable) find(key *stepKey) (all []sums, priced bool) {
	for i := range m.last {
		if l := &m.last[i]; l.key == *key {
			return m.at(l.at), true
		}
	}
	at, priced := m.place(key)
	for i := range m.last {
		if l := &m.last[i]; l.at == at { // The step there was replaced.
			l.key = stepKey{}
		}
	}
	l := &m.last[m.older]
	l.key, l.at, m.older = *key, at, 1-m.older
	return m.at(at), priced
}

// at is the sums at a place.
func (m *stepTable) at(place int) []sums { return m.sums[place*m.parts : (place+1)*m.parts] }

// place is the place of a step, and whether it has it already.
func (m *stepTable) place(key *stepKey) (at int, priced bool) {
	if m.keys == nil {
		m.keys, m.sums = make([][places]stepKey, 1), make([]sums, places*m.parts)
	}
	for {
		set := key.set(len(m.keys))
		keys, free := &m.keys[set], -1
		for i := range keys {
			if keys[i] == *key {
				return set*places + i, true
			}
			if free < 0 && keys[i] == (stepKey{}) {
				free = i
			}
		}
		if free < 0 {
			if m.full++; m.full > patience && len(m.keys) < m.most {
				m.grow()
				continue
			}
			free, m.next = m.next, (m.next+1)%places
		}
		keys[free] = *key
		return set*places + free, false
	}
}

// grow doubles the sets. The steps of one set go to two.
func (m *stepTable) grow() {
	keys := make([][places]stepKey, 2*len(m.keys))
	all := make([]sums, len(keys)*places*m.parts)
	for old := range m.keys {
		for i, key := range m.keys[old] {
			if key != (stepKey{}) {
				set := key.set(len(keys))
				keys[set][i] = key
				copy(all[(set*places+i)*m.parts:], m.sums[(old*places+i)*m.parts:][:m.parts])
			}
		}
	}
	m.keys, m.sums = keys, all
	clear(m.last[:])
}
