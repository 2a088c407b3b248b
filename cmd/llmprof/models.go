package main

import (
	"github.com/spf13/cobra"

	"llmprof"
	"llmprof/cmd/llmprof/internal/render"
	"llmprof/models"
	"llmprof/unit"
)

func (a *app) models() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "models",
		Short: "List, show or check models",
		Args:  noArgs,
		RunE:  needCommand,
	}
	cmd.AddCommand(a.modelsList(), a.modelsShow(), a.modelsCheck())
	return cmd
}

func (a *app) modelsList() *cobra.Command {
	o := &output{}
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List the built-in models",
		Example: "  llmprof models list\n  llmprof models list --format csv",
		Args:    noArgs,
		RunE: func(*cobra.Command, []string) error {
			if err := o.check(); err != nil {
				return err
			}
			table, err := models.Load(llmprof.ModelsJSON)
			if err != nil {
				return err
			}
			all, err := table.All()
			if err != nil {
				return err
			}
			return o.write(a, result{
				page:  func() *render.Document { return listPage(modelTable(all)) },
				table: func() *render.Table { t := modelTable(all); return &t },
				data: func() any {
					list := make([]shapeJSON, len(all))
					for i, m := range all {
						list[i] = shapeOf(m)
					}
					return list
				},
			})
		},
	}
	o.flags(cmd)
	return cmd
}

func listPage(t render.Table) *render.Document {
	return &render.Document{Blocks: []render.Block{t}}
}

// cacheFormat is the format in which a model's cache and state are stated.
const cacheFormat = unit.BF16

func modelTable(all []*models.Model) render.Table {
	t := render.Table{Columns: []render.Column{
		{Title: "name", Key: "name", Left: true},
		{Title: "family", Key: "family", Left: true, Drop: 1},
		{Title: "params", Key: "params_total"},
		{Title: "active", Key: "params_active"},
		{Title: "layers", Key: "layers"},
		{Title: "KV/token", Key: "kv_bytes_per_token"},
		{Title: "state", Key: "state_bytes_per_sequence", Drop: 2},
		{Title: "max context", Key: "max_context"},
	}}
	for _, m := range all {
		t.Rows = append(t.Rows, render.Row{Cells: []any{
			m.Name, m.Family, render.Count(m.Params()), render.Count(m.ActiveParams()), m.NumLayers(),
			m.KVBytesPerToken(cacheFormat), m.StateBytes(cacheFormat), known(m.MaxContext, m.MaxContext > 0),
		}})
	}
	return t
}

// A shapeJSON is a model for programs, its cache in 16 bits.
type shapeJSON struct {
	Name         string      `json:"name"`
	Family       string      `json:"family"`
	Source       string      `json:"source"`
	ParamsTotal  int64       `json:"params_total"`
	ParamsActive int64       `json:"params_active"`
	Layers       int         `json:"layers"`
	LayerKinds   []layerJSON `json:"layer_kinds"`
	KVPerToken   unit.Bytes  `json:"kv_bytes_per_token"`
	State        unit.Bytes  `json:"state_bytes_per_sequence"`
	MaxContext   *int        `json:"max_context"`
	Notes        []string    `json:"notes"`
}

func shapeOf(m *models.Model) shapeJSON {
	return shapeJSON{
		Name: m.Name, Family: m.Family, Source: m.Source, ParamsTotal: m.Params(), ParamsActive: m.ActiveParams(),
		Layers: m.NumLayers(), LayerKinds: kinds(m), KVPerToken: m.KVBytesPerToken(cacheFormat),
		State: m.StateBytes(cacheFormat), MaxContext: orNull(m.MaxContext), Notes: append([]string{}, m.Notes...),
	}
}
