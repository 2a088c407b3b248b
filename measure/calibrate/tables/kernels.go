package tables

import (
	"fmt"
	"slices"

	"llmprof/measure/calibrate"
	"llmprof/roofline"
)

// common leaves out the mixtures of kernels that run fewer models than another kernel does in the
// same scheme: such a kernel stands for a model of its own, as Marlin's for Kimi-K3's experts in
// MXFP4, and one set of constants would fit neither.
func (out *Imported) common(rows []calibrate.Row) []calibrate.Row {
	type kernel struct {
		scheme roofline.Scheme
		name   string
	}
	type model struct {
		kernel
		hidden, experts, topK int
	}
	of := func(r *calibrate.Row) kernel { return kernel{r.Scheme, r.Source} }
	seen, models, most := map[model]bool{}, map[kernel]int{}, map[roofline.Scheme]int{}
	for i := range rows {
		r := &rows[i]
		if r.Kind != calibrate.Mixture {
			return rows
		}
		if m := (model{of(r), r.Shape.Hidden, r.Shape.Experts, r.Shape.TopK}); !seen[m] {
			seen[m] = true
			models[m.kernel]++
			most[r.Scheme] = max(most[r.Scheme], models[m.kernel])
		}
	}
	left := map[kernel]int{}
	rows = slices.DeleteFunc(rows, func(r calibrate.Row) bool {
		few := models[of(&r)] < most[r.Scheme]
		if few {
			left[of(&r)]++
		}
		return few
	})
	for k, n := range left {
		out.Notes = append(out.Notes, fmt.Sprintf("mixtures in %s by %s, which runs fewer models than another kernel, left out: %d", k.scheme,
			k.name, n))
	}
	slices.Sort(out.Notes)
	return rows
}

// cut leaves out the mixtures in MXFP4 of ranks of EP where the table has those of ranks of TP too: on Hopper their time
// includes kernels that map experts to ranks, which estimates have as launches of their own.
func (out *Imported) cut(rows []calibrate.Row) []calibrate.Row {
	narrowest, widest := map[[3]int]int{}, map[[3]int]int{}
	of := func(r *calibrate.Row) [3]int { return [3]int{r.Shape.Hidden, r.Shape.Experts, r.Shape.TopK} }
	both := false
	for i := range rows {
		r := &rows[i]
		if r.Kind != calibrate.Mixture || r.Scheme != roofline.WeightMXFP4 {
			continue
		}
		if w := narrowest[of(r)]; w == 0 || r.Shape.Width < w {
			narrowest[of(r)] = r.Shape.Width
		}
		widest[of(r)] = max(widest[of(r)], r.Shape.Width)
		both = both || narrowest[of(r)] < widest[of(r)]
	}
	before := len(rows)
	if both {
		rows = slices.DeleteFunc(rows, func(r calibrate.Row) bool { return r.Scheme == roofline.WeightMXFP4 && r.Shape.EP > 1 })
	}
	if left := before - len(rows); left > 0 {
		out.Notes = append(out.Notes, fmt.Sprintf("mixtures in w4a16_mxfp4 of ranks of EP, which take longer than those of TP, left out: %d",
			left))
	}
	return rows
}
