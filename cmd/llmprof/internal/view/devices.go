//go:build !js

package view

import (
	"strings"

	"llmprof/measure/detect"
	"llmprof/plots/render"
)

// DevicesTable lists the GPUs of a machine, one a row.
func DevicesTable(found []detect.Device) render.Table {
	t := render.Table{Columns: []render.Column{
		{Title: "device", Key: "name", Left: true}, {Title: "in the table", Key: "key", Left: true},
		{Title: "memory", Key: "memory_bytes"}, {Title: "bus", Key: "bus_id", Left: true},
	}}
	for _, d := range found {
		t.Add(d.Name, Cell(d.Key), Cell(d.Memory), Cell(d.Bus))
	}
	return t
}

// DevicesPage is the GPUs of a machine for people.
func DevicesPage(found []detect.Device) *render.Document {
	var unknown, clocks, hosts []string
	if len(found) > 0 && found[0].Host != nil {
		hosts = append(hosts, "llmprof estimate MODEL GPU --fit "+*found[0].Host)
		if !strings.Contains(*found[0].Host, "--host") {
			hosts = append(hosts, "which memory it has the firmware tells the administrator alone: give --host, or a usual desktop's is taken")
		}
	}
	for i := range found {
		if c := found[i].Clocks; c != nil {
			clocks = append(clocks, found[i].Name+": "+*c)
		}
		if e := found[i].Error; e != nil {
			unknown = append(unknown, *e)
		}
	}
	return &render.Document{Blocks: []render.Block{
		DevicesTable(found), render.Notes{Title: "Clocks now", Items: clocks}, render.Notes{Title: "Host", Items: hosts},
		render.Notes{Title: "Not known", Items: unknown},
	}}
}
