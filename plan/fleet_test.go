package plan

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"llmprof/hardware"
	"llmprof/unit"
)

// The first fleet is the cheapest of all choices of a row for each model, and of each kind of GPU the cheapest is there.
func TestFleets(t *testing.T) {
	random := rand.New(rand.NewPCG(6, 8))
	kinds := []string{"a", "b", "c", "d"}
	for range 200 {
		q := &Request{Load: Load{Rate: 1}, By: Cost, MaxGPUs: 12, Budget: unit.DollarsPerHour(20 + 20*random.Float64())}
		rows := make([][]Row, 2)
		for i := range rows {
			for _, key := range kinds[:1+random.IntN(4)] {
				rows[i] = append(rows[i], Row{Card: &Card{GPU: &hardware.GPU{Key: key}, Observed: map[string]int{"": 1}}, GPUs: 1 + random.IntN(8),
					PerHour: unit.Dollars(1 + 20*random.Float64())})
			}
			slices.SortFunc(rows[i], func(a, b Row) int { return q.compare(&a, &b) })
		}
		all := Fleets([]*Request{q, q}, rows)
		for _, key := range append(kinds, "") {
			least := math.Inf(1)
			for _, x := range rows[0] {
				for _, y := range rows[1] {
					fits := x.GPUs+y.GPUs <= q.MaxGPUs && float64(x.PerHour+y.PerHour) <= float64(q.Budget)
					if fits && (key == "" || x.Card.GPU.Key == key && y.Card.GPU.Key == key) {
						least = min(least, float64(x.PerHour+y.PerHour))
					}
				}
			}
			k := slices.IndexFunc(all, func(f Fleet) bool { return f.GPU == key })
			switch {
			case key == "": // the best rows may have too many GPUs, while others have fewer
				if len(all) > 0 && float64(all[0].PerHour) < least-1e-9 {
					t.Errorf("%v is less than the least, %v", all[0].PerHour, least)
				}
			case (k >= 0) != !math.IsInf(least, 1), k >= 0 && math.Abs(float64(all[k].PerHour)-least) > 1e-9:
				t.Errorf("%s: fleet %d of %+v, want %v", key, k, all, least)
			}
		}
	}
}
