package view

import (
	"llmprof/cmd/llmprof/internal/render"
	"llmprof/unit"
)

// A Device is a GPU as the machine names it.
type Device struct {
	Name   string      `json:"name"`
	Bus    *string     `json:"bus_id"`
	UUID   *string     `json:"uuid"`
	Memory *unit.Bytes `json:"memory_bytes"` // in all, as the driver reports it
	Key    *string     `json:"key"`          // in the table
	Error  *string     `json:"error"`
	Clocks *string     `json:"clocks"` // at this moment, of the greatest; null where no sensor reports them
}

// DevicesTable lists the GPUs of a machine, one a row.
func DevicesTable(found []Device) render.Table {
	t := render.Table{Columns: []render.Column{
		{Title: "device", Key: "name", Left: true}, {Title: "in the table", Key: "key", Left: true},
		{Title: "memory", Key: "memory_bytes"}, {Title: "bus", Key: "bus_id", Left: true},
	}}
	for i := range found {
		d := &found[i]
		t.Add(d.Name, Cell(d.Key), Cell(d.Memory), Cell(d.Bus))
	}
	return t
}

// DevicesPage is the GPUs of a machine for people.
func DevicesPage(found []Device) *render.Document {
	var unknown, clocks []string
	for i := range found {
		if c := found[i].Clocks; c != nil {
			clocks = append(clocks, found[i].Name+": "+*c)
		}
		if e := found[i].Error; e != nil {
			unknown = append(unknown, *e)
		}
	}
	return &render.Document{Blocks: []render.Block{
		DevicesTable(found), render.Notes{Title: "Clocks now", Items: clocks}, render.Notes{Title: "Not known", Items: unknown},
	}}
}
