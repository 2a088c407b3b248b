package analytic

import "testing"

// TestStepTable fills a table beyond what it holds, for steps of more and of fewer parts than before.
func TestStepTable(t *testing.T) {
	m := stepTable{most: 601}
	for _, parts := range []int{1, 3, 2} {
		m.forget(parts)
		for i := range 700 {
			key := stepKey{batch: float64(i)}
			all, priced := m.find(&key)
			again, found := m.find(&key)
			if priced || !found || len(all) != parts || &all[0] != &again[0] {
				t.Fatalf("%d parts: step %d is new: %v, then known: %v, with %d sums", parts, i, !priced, found, len(all))
			}
		}
		places := map[int]bool{}
		for _, at := range m.at {
			places[at] = true
		}
		if len(m.at) != m.most || len(places) != m.most {
			t.Errorf("%d parts: %d steps in %d places, want %d", parts, len(m.at), len(places), m.most)
		}
	}
}
