package validate

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"llmprof/internal/stats"
)

// A point is what observations of one configuration have in common, whoever measured it.
type point struct {
	Config
	Metric
}

func (r *Row) point() point {
	p := point{r.Config, r.Metric}
	p.Params = 0
	return p
}

// Pool puts the median in place of the observations of one configuration. A process of an engine differs from the next,
// on another host or on the same, and a prediction is of none of them in particular.
func (out *Score) Pool() {
	type key struct {
		point
		fitted bool
	}
	rows := map[key][]*Row{}
	var order []key
	for i := range out.Rows {
		p := key{out.Rows[i].point(), out.Rows[i].Fitted != ""}
		if rows[p] == nil {
			order = append(order, p)
		}
		rows[p] = append(rows[p], &out.Rows[i])
	}
	pooled := make([]Row, 0, len(order))
	for _, p := range order {
		pooled = append(pooled, pool(rows[p]))
	}
	out.Rows, out.Pooled = pooled, len(out.Rows)
}

// pool is the row of the median of several observations, whose least and greatest are its interval.
func pool(rows []*Row) Row {
	if len(rows) == 1 {
		return *rows[0]
	}
	slices.SortStableFunc(rows, func(a, b *Row) int { return cmp.Compare(a.Value, b.Value) })
	values := make([]float64, len(rows))
	r := *rows[0]
	r.Samples, r.Marks = 0, nil
	for i, one := range rows {
		values[i] = one.Value
		r.Samples += one.Samples
		if one.Source != r.Source {
			r.Source = "several"
		}
	}
	r.Value, r.Low, r.High, r.Device = stats.Percentile(values, 50), new(values[0]), new(values[len(values)-1]), nil
	r.ID, r.Note = "", fmt.Sprintf("median of %d observations", len(rows))
	r.Error = r.Predicted/r.Value - 1
	r.FasterThanFloor = r.Floor != nil && r.Value < *r.Floor
	return r
}

// repeatability is how far the observation of a point is from another of the same point: the 90th percentile over all
// pairs, or nil where nothing was observed twice. No prediction can be nearer to each of them than that.
func repeatability(rows []*Row) *float64 {
	values := map[point][]float64{}
	for _, r := range rows {
		values[r.point()] = append(values[r.point()], r.Value)
	}
	var apart []float64
	for _, same := range values {
		for i, a := range same {
			for j, b := range same {
				if i != j {
					apart = append(apart, math.Abs(a/b-1))
				}
			}
		}
	}
	if len(apart) == 0 {
		return nil
	}
	slices.Sort(apart)
	return new(stats.Percentile(apart, 90))
}
