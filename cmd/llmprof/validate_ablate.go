package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"llmprof/cmd/llmprof/internal/render"
	compare "llmprof/validate"
)

// ablateSchema names the form of an ablation's JSON, which schema/ablate.v2.json
// describes.
const ablateSchema = "llmprof.ablate/v2"

// checkAblate refuses what an ablation has no use for.
func (v *validation) checkAblate() error {
	for _, flag := range []string{"by", "worst", "fail-over", "chart"} {
		if v.given(flag) {
			return usage("--%s: --ablate prints errors by metric and constant alone; leave one of the two out", flag)
		}
	}
	if v.output.picture() != "" {
		return usage("-o %.40q: --ablate draws no chart; give a name that ends otherwise", v.output.file)
	}
	return nil
}

// An ablation is what each constant buys, of a comparison.
type ablation struct {
	*validation
	each []compare.Ablation
	all  *compare.Ablation
}

// writeAblation puts one constant after the other to its ideal and writes what
// that does to the errors.
func (a *app) writeAblation(v *validation) error {
	if len(v.score.Rows) == 0 {
		return fmt.Errorf("none of %d observations could be compared", v.total)
	}
	each, all, err := v.scorer.Ablate(v.score.Rows)
	if err != nil {
		return err
	}
	b := &ablation{v, each, all}
	return v.output.write(a, result{page: b.page, table: b.table, data: b.json})
}

// page is the ablation for people.
func (b *ablation) page() *render.Document {
	return &render.Document{
		Title: fmt.Sprintf("What each constant buys, by %d observations", len(b.score.Rows)),
		Blocks: []render.Block{
			b.effects("Median |error| in %, and by how many points it grows where one constant is ideal", false),
			b.idle(false),
			b.effects("Scored apart: a constant was fitted on these", true),
			b.idle(true),
			render.Notes{Title: "How to read it", Items: []string{
				"Constants have the names of a calibration file.",
				"ideal: what the constant is put to, all others kept: a share 1, a time 0.",
				"moves: observations whose prediction depends on the constant; – where it depends on it for none of a metric.",
				"The order is that of the mean over the metrics. Below 0 the median error is smaller without the constant.",
			}},
		},
	}
}

// effects has a row for each constant that moves a prediction, and a column for
// each metric that was observed.
func (b *ablation) effects(title string, fitted bool) render.Table {
	t := render.Table{Title: title, Columns: []render.Column{{Title: "constant", Left: true}, {Title: "ideal"}, {Title: "moves"}}}
	kinds := effectsOf(b.all, fitted)
	if len(kinds) == 0 {
		return render.Table{}
	}
	first, n := []any{"as they are", nil, nil}, 0
	for _, e := range kinds {
		t.Columns = append(t.Columns, render.Column{Title: short(e.Metric)})
		first, n = append(first, render.Percent(e.Median)), n+e.N
	}
	first[2] = n
	t.Rows = append(t.Rows, render.Row{Cells: first})
	order := slices.Clone(b.each)
	slices.SortStableFunc(order, func(x, y compare.Ablation) int {
		one, _ := x.Buys(fitted)
		other, _ := y.Buys(fitted)
		return cmp.Compare(other, one)
	})
	for i := range order {
		if order[i].Moved(fitted) > 0 {
			t.Rows = append(t.Rows, render.Row{Cells: effectCells(&order[i], fitted)})
		}
	}
	last := effectCells(b.all, fitted)
	last[1] = nil
	t.Rows = append(t.Rows, render.Row{Kind: render.Total, Cells: last})
	return t
}

// idle names the constants that no observation tells anything of.
func (b *ablation) idle(fitted bool) render.Notes {
	var names []string
	for i := range b.each {
		if k := &b.each[i]; k.Moved(fitted) == 0 && len(effectsOf(k, fitted)) > 0 {
			names = append(names, k.Name)
		}
	}
	if len(names) == 0 {
		return render.Notes{}
	}
	return render.Notes{Items: []string{"None of these depends on " + strings.Join(names, ", ") + "."}}
}

func effectCells(k *compare.Ablation, fitted bool) []any {
	cells := []any{k.Name, fmt.Sprint(k.Ideal), k.Moved(fitted)}
	for _, e := range effectsOf(k, fitted) {
		if e.Moved == 0 {
			cells = append(cells, nil)
			continue
		}
		cells = append(cells, points(e.Buys()))
	}
	return cells
}

// points are a difference of shares in percent, with its sign.
func points(d float64) string {
	if text := fmt.Sprintf("%+.1f", 100*d); text != "-0.0" && text != "+0.0" {
		return text
	}
	return "0.0"
}

func effectsOf(k *compare.Ablation, fitted bool) (some []compare.Effect) {
	for _, e := range k.Effects {
		if e.Fitted == fitted {
			some = append(some, e)
		}
	}
	return some
}

// table is an effect a row.
func (b *ablation) table() *render.Table {
	t := &render.Table{}
	for _, key := range []string{"constant", "ideal", "metric", "fitted", "n", "moved", "median_ape", "ideal_median_ape", "buys", "about"} {
		t.Columns = append(t.Columns, render.Column{Key: key})
	}
	for _, k := range b.list() {
		for _, e := range k.Effects {
			t.Rows = append(t.Rows, render.Row{Cells: []any{
				k.Name, ideal(k, b.all), string(e.Metric), e.Fitted, e.N, e.Moved, e.Median, e.Ideal, e.Buys(), k.About,
			}})
		}
	}
	return t
}

// list is every constant, then all of them together.
func (b *ablation) list() (all []*compare.Ablation) {
	for i := range b.each {
		all = append(all, &b.each[i])
	}
	return append(all, b.all)
}

// ideal is what the constant was put to; all of them together have no one value.
func ideal(k, all *compare.Ablation) any {
	if k == all {
		return nil
	}
	return k.Ideal
}

// An ablateJSON is an ablation for programs.
type ablateJSON struct {
	Schema       string         `json:"schema"`
	Observations int            `json:"observations"` // that were compared
	Skipped      int            `json:"skipped"`      // that were not
	Constants    []constantJSON `json:"constants"`
	All          []effectJSON   `json:"all_ideal"`
}

type constantJSON struct {
	Constant string       `json:"constant"`
	About    string       `json:"about"`
	Ideal    float64      `json:"ideal"`
	Buys     *float64     `json:"buys"`
	Effects  []effectJSON `json:"effects"`
}

type effectJSON struct {
	Metric string  `json:"metric"`
	Fitted bool    `json:"fitted"`
	N      int     `json:"n"`
	Moved  int     `json:"moved"`
	Median float64 `json:"median_ape"`
	Ideal  float64 `json:"ideal_median_ape"`
}

// json is the ablation for programs.
func (b *ablation) json() any {
	j := &ablateJSON{Schema: ablateSchema, Observations: len(b.score.Rows), Skipped: len(b.score.Skipped), All: effectList(b.all)}
	for i := range b.each {
		k := &b.each[i]
		c := constantJSON{Constant: k.Name, About: k.About, Ideal: k.Ideal, Effects: effectList(k)}
		if mean, ok := k.Buys(false); ok {
			c.Buys = &mean
		}
		j.Constants = append(j.Constants, c)
	}
	return j
}

func effectList(k *compare.Ablation) []effectJSON {
	list := []effectJSON{}
	for _, e := range k.Effects {
		list = append(list, effectJSON{string(e.Metric), e.Fitted, e.N, e.Moved, e.Median, e.Ideal})
	}
	return list
}
