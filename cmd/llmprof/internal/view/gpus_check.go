package view

import (
	"llmprof/cmd/llmprof/internal/render"
	"llmprof/hardware"
)

// A HardwareCheck is what was found in one hardware file.
type HardwareCheck struct {
	File  string   `json:"file"`
	OK    bool     `json:"ok"`
	Error *string  `json:"error"`
	Added []string `json:"added"` // keys that the built-in table lacks
	GPUs  *int     `json:"gpus"`  // number of GPUs, with the built-in ones
}

// CheckHardware lays a file over a table of GPUs.
func CheckHardware(table *hardware.Table, file string) HardwareCheck {
	t, err := table.OverlayFile(file)
	if err != nil {
		text := err.Error()
		return HardwareCheck{File: file, Error: &text}
	}
	names := t.Names()
	n := len(names)
	return HardwareCheck{File: file, OK: true, Added: append([]string{}, names[len(table.Names()):]...), GPUs: &n}
}

// HardwareChecksTable lists checks of hardware files, one a row.
func HardwareChecksTable(checks []HardwareCheck) *render.Table {
	t := &render.Table{Columns: []render.Column{
		{Title: "file", Key: "file", Left: true}, {Title: "ok", Key: "ok", Left: true},
		{Title: "added", Key: "added"}, {Title: "GPUs in all", Key: "gpus"}, {Title: "error", Key: "error", Left: true},
	}}
	for i := range checks {
		c := &checks[i]
		if !c.OK {
			t.Add(c.File, render.Painted{Value: "no", Color: render.Bad}, nil, nil, *c.Error)
			continue
		}
		t.Add(c.File, render.Painted{Value: "yes", Color: render.Good}, len(c.Added), *c.GPUs, nil)
	}
	return t
}

// HardwareChecksPage puts the errors under the table, where they have room.
func HardwareChecksPage(checks []HardwareCheck) *render.Document {
	t := HardwareChecksTable(checks)
	t.Columns = t.Columns[:len(t.Columns)-1]
	var failed []string
	for i := range checks {
		t.Rows[i].Cells = t.Rows[i].Cells[:len(t.Columns)]
		if e := checks[i].Error; e != nil {
			failed = append(failed, *e)
		}
	}
	return &render.Document{Blocks: []render.Block{*t, render.Notes{Title: "Not read", Items: failed}}}
}
