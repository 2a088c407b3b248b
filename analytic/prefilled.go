package analytic

import (
	"math"

	"llmprof/operator"
)

// A prefilled remembers prefill steps. A batch with more tokens than a step may have prefills in equal groups of sequences, and
// the groups of one batch are often those of another: of all batches whose groups are single prompts, a grid over prompts
// prices each prompt once. It serves one goroutine.
//
// A step has one of the places of its set, which is found by a hash. Where that is full one of its steps is replaced, or there are more sets
// once that was often so: few batches of each of many deployments, as a search has, are not worth the room.
type prefilled struct {
	most  int // sets; a power of two
	keys  [][places]prefillKey
	steps [][places]total
	next  int // place of the next step that is replaced
	full  int // how often a set was full
}

// places is the number of places of a set. The chunks of a prompt differ in the first, in those between and in the last.
const places = 4

// Sets of places at most: of steps on the machine that was asked for, and of steps on each machine with a constant moved.
const (
	mostSets  = 8192
	movedSets = 128
)

// patience is how often a set may be full before there are more.
const patience = 64

// A prefillKey is what prefill steps of one Prepared differ in.
type prefillKey struct{ batch, fresh, past, logits, cache float64 }

// set is one of n sets, where n is a power of two.
func (k *prefillKey) set(n int) int {
	h := uint64(0)
	for _, x := range [...]float64{k.batch, k.fresh, k.past, k.logits, k.cache} {
		h = (h ^ math.Float64bits(x)) * 0x9e3779b97f4a7c15
		h ^= h >> 29
	}
	return int(h & uint64(n-1))
}

// find is where the total of a step is kept, and whether it was priced already.
func (m *prefilled) find(s *operator.Step) (t *total, priced bool) {
	key := prefillKey{s.Batch, s.New, s.Past, s.Logits, s.Cache}
	if m.keys == nil {
		m.keys, m.steps = make([][places]prefillKey, 1), make([][places]total, 1)
	}
	for {
		set := key.set(len(m.keys))
		keys, free := &m.keys[set], -1
		for i := range keys {
			if keys[i] == key {
				return &m.steps[set][i], true
			}
			if free < 0 && keys[i] == (prefillKey{}) {
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
		keys[free], m.steps[set][free] = key, total{}
		return &m.steps[set][free], false
	}
}

// grow doubles the sets. The steps of one set go to two.
func (m *prefilled) grow() {
	keys, steps := make([][places]prefillKey, 2*len(m.keys)), make([][places]total, 2*len(m.keys))
	for old := range m.keys {
		for i, key := range m.keys[old] {
			if key != (prefillKey{}) {
				set := key.set(len(keys))
				keys[set][i], steps[set][i] = key, m.steps[old][i]
			}
		}
	}
	m.keys, m.steps = keys, steps
}
