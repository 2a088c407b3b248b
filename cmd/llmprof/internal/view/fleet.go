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
}

// A FleetDocument is a fleet for programs.
type FleetDocument struct {
	Schema string          `json:"schema"`
	Fleets []fleetJSON     `json:"fleets"`                        // in the order of their rank
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
	t := &render.Table{Columns: []render.Column{{Title: "#", Key: "rank"}, {Title: "GPUs", Key: "gpus", Left: true}}}
	for _, p := range f.Plans {
		name := p.models()[0]
		t.Columns = append(t.Columns, render.Column{Title: name, Key: name, Left: true})
	}
	t.Columns = append(t.Columns, render.Column{Title: "$/h", Key: "usd_h"}, render.Column{Title: "$/month", Key: "usd_month"})
	for i := range f.Fleets {
		x := &f.Fleets[i]
		cells := []any{i + 1, gpusOfFleet(x)}
		for _, r := range x.Rows {
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

// gpusOfFleet says which GPUs a fleet has.
func gpusOfFleet(x *plan.Fleet) string {
	if x.GPU == "" {
		return fmt.Sprintf("%d of several kinds", x.GPUs)
	}
	return fmt.Sprintf("%d × %s", x.GPUs, x.GPU)
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
	words.Add("Choice", fmt.Sprintf("%s, $%.2f/h, $%.0f/month", gpusOfFleet(first), float64(first.PerHour), float64(first.PerMonth())))
	if len(f.Fleets) > 1 {
		x := &f.Fleets[1]
		words.Add("Runner-up", fmt.Sprintf("%s, $%.2f/h, $%.0f/month", gpusOfFleet(x), float64(x.PerHour), float64(x.PerMonth())))
	}
	for i, p := range f.Plans {
		r := first.Rows[i]
		lines := []string{p.deployment(r), fmt.Sprintf("%s, TTFT %s, TPOT %s", r, short(r.TTFT), short(r.TPOT))}
		if room := p.headroom(r); room != "" {
			lines = append(lines, room)
		}
		words.Add(p.models()[0], append(lines, p.Checks...)...)
	}
	d.Blocks = append(d.Blocks, *f.Table(), words)
	return d
}
