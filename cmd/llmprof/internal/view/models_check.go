package view

import (
	"fmt"
	"strings"

	"llmprof/cmd/llmprof/internal/render"
	"llmprof/models"
	"llmprof/unit"
)

// A ModelCheck is what was found in one config.json; the figures are null where it
// failed.
type ModelCheck struct {
	File         string      `json:"file"`
	OK           bool        `json:"ok"`
	Error        *string     `json:"error"`
	Name         *string     `json:"name"`
	Family       *string     `json:"family"`
	Layers       *int        `json:"layers"`
	LayerKinds   []layerJSON `json:"layer_kinds"`
	ParamsTotal  *int64      `json:"params_total"`
	ParamsActive *int64      `json:"params_active"`
	KVPerToken   *unit.Bytes `json:"kv_bytes_per_token"`
	State        *unit.Bytes `json:"state_bytes_per_sequence"`
	MaxContext   *int        `json:"max_context"`
	Notes        []string    `json:"notes"`
}

// CheckModel is what was found in a file: a model, or why it is none.
func CheckModel(file string, m *models.Model, err error) ModelCheck {
	if err != nil {
		text := err.Error()
		return ModelCheck{File: file, Error: &text}
	}
	s := SummarizeModel(m)
	return ModelCheck{
		File: file, OK: true, Name: &s.Name, Family: &s.Family, Layers: &s.Layers, LayerKinds: s.LayerKinds,
		ParamsTotal: &s.ParamsTotal, ParamsActive: &s.ParamsActive, KVPerToken: &s.KVPerToken, State: &s.State,
		MaxContext: s.MaxContext, Notes: s.Notes,
	}
}

// ModelChecksTable lists checks of models, one a row.
func ModelChecksTable(checks []ModelCheck) *render.Table {
	t := &render.Table{Columns: []render.Column{
		{Title: "file", Key: "file", Left: true}, {Title: "ok", Key: "ok", Left: true},
		{Title: "name", Key: "name", Left: true, Drop: 2}, {Title: "family", Key: "family", Left: true, Drop: 1},
		{Title: "params", Key: "params_total"}, {Title: "active", Key: "params_active"},
		{Title: "KV/token", Key: "kv_bytes_per_token"}, {Title: "state", Key: "state_bytes_per_sequence"},
		{Title: "layers", Key: "layer_kinds", Left: true}, {Title: "error", Key: "error", Left: true, Drop: 3},
	}}
	for i := range checks {
		c := &checks[i]
		if !c.OK {
			t.Add(c.File, render.Painted{Value: "no", Color: render.Bad}, nil, nil, nil, nil, nil, nil, nil, *c.Error)
			continue
		}
		t.Add(c.File, render.Painted{Value: "yes", Color: render.Good}, *c.Name, *c.Family, render.Count(*c.ParamsTotal), render.Count(*c.ParamsActive),
			*c.KVPerToken, *c.State, kindsText(c.LayerKinds), nil)
	}
	return t
}

// kindsText is the layers by kind in one line.
func kindsText(kinds []layerJSON) string {
	parts := make([]string, len(kinds))
	for i, k := range kinds {
		parts[i] = fmt.Sprintf("%d × %s", k.Count, k.Name)
	}
	return strings.Join(parts, ", ")
}

// ModelChecksPage puts the errors under the table, where they have room.
func ModelChecksPage(checks []ModelCheck) *render.Document {
	t := ModelChecksTable(checks)
	t.Columns = t.Columns[:len(t.Columns)-1]
	for i := range t.Rows {
		t.Rows[i].Cells = t.Rows[i].Cells[:len(t.Columns)]
	}
	var failed, notes []string
	for i := range checks {
		c := &checks[i]
		if c.Error != nil {
			text := *c.Error
			if !strings.Contains(text, c.File) {
				text = c.File + ": " + text
			}
			failed = append(failed, text)
		}
		for _, n := range c.Notes {
			notes = append(notes, c.File+": "+n)
		}
	}
	return &render.Document{Blocks: []render.Block{
		*t, render.Notes{Title: "Not read", Items: failed}, render.Notes{Title: "Notes", Items: notes},
	}}
}
