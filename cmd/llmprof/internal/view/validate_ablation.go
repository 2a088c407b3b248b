//go:build !js

package view

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"llmprof/plots/render"
	"llmprof/validate"
)

// ablationSchema names the form of an ablation's JSON, which "llmprof schema ablate" shows.
const ablationSchema = "llmprof.ablate/v2"

// An Ablation is how the errors of a validation change where constants are ideal.
type Ablation struct {
	Score *validate.Score
	Each  []validate.Ablation // one constant ideal at a time
	All   *validate.Ablation  // all of them ideal
}

// Page shows the ablation to people.
func (b *Ablation) Page() *render.Document {
	return &render.Document{
		Title: fmt.Sprintf("What each constant buys, by %d observations", len(b.Score.Rows)),
		Blocks: []render.Block{
			b.effects("Median |error| in %, and by how many points it grows where one constant is ideal", false),
			b.idle(false),
			b.effects("Scored separately: a constant was fitted on these", true),
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
func (b *Ablation) effects(title string, fitted bool) render.Table {
	t := render.Table{Title: title, Columns: []render.Column{{Title: "constant", Left: true}, {Title: "ideal"}, {Title: "moves"}}}
	kinds := effectsOf(b.All, fitted)
	if len(kinds) == 0 {
		return render.Table{}
	}
	first, n := []any{"as they are", nil, nil}, 0
	for _, e := range kinds {
		t.Columns = append(t.Columns, render.Column{Title: MetricTitle(e.Metric)})
		first, n = append(first, render.Percent(e.Median)), n+e.N
	}
	first[2] = n
	t.Add(first...)
	order := slices.Clone(b.Each)
	slices.SortStableFunc(order, func(x, y validate.Ablation) int {
		one, _ := x.Buys(fitted)
		other, _ := y.Buys(fitted)
		return cmp.Compare(other, one)
	})
	for i := range order {
		if order[i].Moved(fitted) > 0 {
			t.Add(effectCells(&order[i], fitted)...)
		}
	}
	last := effectCells(b.All, fitted)
	last[1] = nil
	t.Rows = append(t.Rows, render.Row{Kind: render.Total, Cells: last})
	return t
}

// idle names the constants that no prediction depends on.
func (b *Ablation) idle(fitted bool) render.Notes {
	var names []string
	for i := range b.Each {
		if k := &b.Each[i]; k.Moved(fitted) == 0 && len(effectsOf(k, fitted)) > 0 {
			names = append(names, k.Name)
		}
	}
	if len(names) == 0 {
		return render.Notes{}
	}
	return render.Notes{Items: []string{"None of these depends on " + strings.Join(names, ", ") + "."}}
}

func effectCells(k *validate.Ablation, fitted bool) []any {
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

// points formats a difference of shares in percentage points, with its sign.
func points(d float64) string {
	if text := fmt.Sprintf("%+.1f", 100*d); text != "-0.0" && text != "+0.0" {
		return text
	}
	return "0.0"
}

func effectsOf(k *validate.Ablation, fitted bool) []validate.Effect {
	return slices.DeleteFunc(slices.Clone(k.Effects), func(e validate.Effect) bool { return e.Fitted != fitted })
}

// Table has a row for each effect.
func (b *Ablation) Table() *render.Table {
	t := render.Keyed("constant", "ideal", "metric", "fitted", "n", "moved", "median_ape", "ideal_median_ape", "buys", "about")
	add := func(k *validate.Ablation, ideal any) {
		for _, e := range k.Effects {
			t.Add(k.Name, ideal, string(e.Metric), e.Fitted, e.N, e.Moved, e.Median, e.Ideal, e.Buys(), k.About)
		}
	}
	for i := range b.Each {
		add(&b.Each[i], b.Each[i].Ideal)
	}
	add(b.All, nil)
	return t
}

// An AblationDocument is an ablation for programs.
type AblationDocument struct {
	Schema       string             `json:"schema"`
	Observations int                `json:"observations" jsonschema:"minimum=1"` // number of observations compared
	Skipped      int                `json:"skipped"`                             // number of observations not compared
	Constants    []ConstantDocument `json:"constants" jsonschema:"minItems=1"`   // the one that buys most first
	All          []validate.Effect  `json:"all_ideal" jsonschema:"minItems=1"`   // of all constants ideal at once
}

// A ConstantDocument is what one ideal constant does to the errors.
type ConstantDocument struct {
	Constant string  `json:"constant" jsonschema:"pattern=^[a-z0-9_]+\\.[a-z_]+$"` // as a calibration file has it
	About    string  `json:"about" jsonschema:"minLength=1"`
	Ideal    float64 `json:"ideal"` // what it is put to
	// mean over the metrics of ideal_median_ape less median_ape, of observations that nothing was fitted on; null without such
	Buys    *float64          `json:"buys"`
	Effects []validate.Effect `json:"effects" jsonschema:"minItems=1"`
}

// JSON is the document of the ablation, for programs.
func (b *Ablation) JSON() any {
	j := &AblationDocument{Schema: ablationSchema, Observations: len(b.Score.Rows), Skipped: len(b.Score.Skipped),
		All: append([]validate.Effect{}, b.All.Effects...)}
	for _, k := range b.Each {
		c := ConstantDocument{Constant: k.Name, About: k.About, Ideal: k.Ideal, Effects: append([]validate.Effect{}, k.Effects...)}
		if mean, ok := k.Buys(false); ok {
			c.Buys = &mean
		}
		j.Constants = append(j.Constants, c)
	}
	return j
}
