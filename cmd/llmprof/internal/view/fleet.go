package view

import (
	"fmt"
	"strings"

	"llmprof/plan"
	"llmprof/plots/render"
	"llmprof/unit"
)

// FleetSchema names the form of a fleet's JSON, which "llmprof schema fleet" shows.
const FleetSchema = "llmprof.fleet/v1"

// A Fleet is a search over deployments of several models with a load each.
type Fleet struct {
	Plans  []*Plan // one of each model
	Fleets []plan.Fleet
	Full   bool // all reasons why GPUs fell out are shown
}

// Chosen is the plan of a model with the row of the first fleet as its first.
func (f *Fleet) Chosen(model int) *Plan {
	p := *f.Plans[model]
	best := f.Fleets[0].Rows[model]
	p.Shown = []plan.Row{*best}
	for i := range f.Plans[model].Shown {
		if r := &f.Plans[model].Shown[i]; r != best {
			p.Shown = append(p.Shown, *r)
		}
	}
	return &p
}

// A FleetDocument is a fleet for programs.
type FleetDocument struct {
	Schema string          `json:"schema"`
	Fleets []fleetJSON     `json:"fleets"`                        // the fleets in the order of their rank
	Plans  []*PlanDocument `json:"plans" jsonschema:"minItems=2"` // one of each model
}

// A fleetJSON is a deployment of each model.
type fleetJSON struct {
	GPU      *string      `json:"gpu"`                                   // the GPU that all deployments have; null where each has its own
	Count    int          `json:"count" jsonschema:"minimum=1"`          // GPUs of all deployments
	PerHour  unit.Dollars `json:"usd_h" jsonschema:"exclusiveMinimum=0"` // the price of all GPUs
	PerMonth unit.Dollars `json:"usd_month" jsonschema:"exclusiveMinimum=0"`
	Rows     []int        `json:"rows"` // the index of the row in each plan
}

// Document is the fleet for programs.
func (f *Fleet) Document() *FleetDocument {
	d := &FleetDocument{Schema: FleetSchema, Fleets: []fleetJSON{}}
	for _, p := range f.Plans {
		d.Plans = append(d.Plans, p.Document())
	}
	for i := range f.Fleets {
		x := &f.Fleets[i]
		one := fleetJSON{Count: x.GPUs, PerHour: x.PerHour, PerMonth: x.PerMonth()}
		if x.GPU != "" {
			one.GPU = &x.GPU
		}
		for k, r := range x.Rows {
			one.Rows = append(one.Rows, f.index(k, r))
		}
		d.Fleets = append(d.Fleets, one)
	}
	return d
}

// index is where a row is among those of a model.
func (f *Fleet) index(model int, r *plan.Row) int {
	shown := f.Plans[model].Shown
	for i := range shown {
		if &shown[i] == r {
			return i
		}
	}
	return -1
}

// Table is the fleets, one a row, with the deployment of each model in a column.
func (f *Fleet) Table() *render.Table {
	t := &render.Table{Columns: []render.Column{{Title: "#", Key: "rank"}, {Title: "", Key: "mark", Left: true},
		{Title: "GPUs", Key: "gpus", Left: true}}}
	for _, p := range f.Plans {
		name := p.models()[0]
		t.Columns = append(t.Columns, render.Column{Title: name, Key: name, Left: true})
	}
	t.Columns = append(t.Columns, render.Column{Title: "$/h", Key: "usd_h"}, render.Column{Title: "$/month", Key: "usd_month"})
	for i := range f.Fleets {
		x := &f.Fleets[i]
		gpus := fmt.Sprint(x.GPUs) // Cells of the models name those of several kinds.
		if x.GPU != "" {
			gpus = gpusOfFleet(x)
		}
		cells := []any{i + 1, "", gpus}
		for k, r := range x.Rows {
			if mark := f.Plans[k].uncertain(r); mark != "" {
				cells[1] = mark
			}
			text := fmt.Sprintf("%d: %s, %s", r.GPUs, Split(r), r.Scheme)
			if x.GPU == "" {
				text = fmt.Sprintf("%d × %s: %s, %s", r.GPUs, r.Card.GPU.Key, Split(r), r.Scheme)
			}
			cells = append(cells, text)
		}
		t.Add(append(cells, cents(float64(x.PerHour)), fmt.Sprintf("%.0f", float64(x.PerMonth())))...)
	}
	return t
}

// gpusOfFleet says which GPUs a fleet has, those of each kind together.
func gpusOfFleet(x *plan.Fleet) string {
	var keys, all []string
	count := map[string]int{}
	for _, r := range x.Rows {
		key := r.Card.GPU.Key
		if count[key] == 0 {
			keys = append(keys, key)
		}
		count[key] += r.GPUs
	}
	for _, key := range keys {
		all = append(all, fmt.Sprintf("%d × %s", count[key], key))
	}
	return strings.Join(all, " + ")
}

// costs says what a fleet is and costs.
func (f *Fleet) costs(i int) string {
	x := &f.Fleets[i]
	return fmt.Sprintf("%s, $%.2f/h, $%.0f/month", gpusOfFleet(x), float64(x.PerHour), float64(x.PerMonth()))
}

// Page is the fleets for people, with what stands behind each deployment of the first.
func (f *Fleet) Page() *render.Document {
	var titles []string
	for _, p := range f.Plans {
		titles = append(titles, p.title())
	}
	d := &render.Document{Title: strings.Join(titles, "\n")}
	if len(f.Fleets) == 0 {
		return d
	}
	var words render.Fields
	first := &f.Fleets[0]
	for i, name := range []string{"Choice", "Runner-up"}[:min(len(f.Fleets), 2)] {
		words.Add(name, f.costs(i))
	}
	for i, p := range f.Plans {
		r := first.Rows[i]
		lines := []string{p.deployment(r), fmt.Sprintf("%s, TTFT %s, TPOT %s", r, short(r.TTFT), short(r.TPOT))}
		if room := p.headroom(r); room != "" {
			lines = append(lines, room)
		}
		words.Add(p.models()[0], append(lines, p.Checks...)...)
	}
	d.Blocks = append(d.Blocks, *f.Table(), render.Notes{Title: "Warnings", Items: f.warnings()}, words)
	for _, p := range f.Plans {
		if rejected := p.rejected(); f.Full && len(rejected.Rows) > 0 {
			rejected.Title += " of " + p.models()[0]
			d.Blocks = append(d.Blocks, rejected, p.Formats)
		}
		for i := range p.Launch {
			d.Blocks = append(d.Blocks, launch(&p.Launch[i], fmt.Sprintf("Launch %s with %s", p.models()[0], p.Launch[i].Engine))...)
		}
	}
	return d
}

// warnings are those of all plans, each once.
func (f *Fleet) warnings() (all []string) {
	for _, p := range f.Plans {
		all = append(all, Texts(p.warnings())...)
	}
	return distinct(all, func(text *string) string { return *text })
}
