package plan

import (
	"cmp"
	"slices"

	"llmprof/unit"
)

// A Fleet serves several models at once, each by a deployment of its own.
type Fleet struct {
	Rows    []*Row // one of each model, in their order
	GPU     string // key of the GPU that all of them have; "" where each has its own best
	GPUs    int
	PerHour unit.Dollars
	rank    float64
}

// PerMonth is the price of a month.
func (f *Fleet) PerMonth() unit.Dollars { return f.PerHour * monthHours }

// Fleets are those of the rows that were found of each model: one of each kind of GPU that suits all models, and the best rows whatever
// their GPUs, the cheapest first. Deployments share no GPU, so that a fleet costs the sum of its rows; the budget and the number of GPUs
// are those of all.
func Fleets(requests []*Request, rows [][]Row) (all []Fleet) {
	best := Fleet{}
	for i := range rows {
		if len(rows[i]) == 0 {
			return nil
		}
		best.add(requests[i], &rows[i][0])
	}
	all = append(all, best)
	for i := range rows[0] {
		one := Fleet{GPU: rows[0][i].Card.GPU.Key}
		for j := range rows {
			if k := slices.IndexFunc(rows[j], func(r Row) bool { return r.Card.GPU.Key == one.GPU }); k >= 0 {
				one.add(requests[j], &rows[j][k])
			}
		}
		switch known := slices.ContainsFunc(all, func(f Fleet) bool { return f.GPU == one.GPU }); {
		case len(one.Rows) < len(rows) || known:
		case slices.Equal(one.Rows, best.Rows):
			all[0] = one
		default:
			all = append(all, one)
		}
	}
	q := requests[0]
	all = slices.DeleteFunc(all, func(f Fleet) bool {
		return q.Budget > 0 && float64(f.PerHour) > float64(q.Budget) || f.GPUs > cmp.Or(q.MaxGPUs, DefaultGPUs)
	})
	slices.SortStableFunc(all, func(a, b Fleet) int { return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(a.GPUs, b.GPUs)) })
	return all
}

// add gives a fleet the deployment of one more model.
func (f *Fleet) add(q *Request, r *Row) {
	f.Rows = append(f.Rows, r)
	f.GPUs += r.GPUs
	f.PerHour += r.PerHour
	f.rank += q.rank(r)
}
