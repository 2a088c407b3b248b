package main

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"llmprof/cmd/llmprof/internal/render"
	"llmprof/models"
	"llmprof/unit"
)

func (a *app) modelsCheck() *cobra.Command {
	o := &output{}
	cmd := &cobra.Command{
		Use:   "check FILE...",
		Short: "Read config.json files and say what models they are",
		Long: "Read config.json files, or directories that hold one, and say for each what model it is,\n" +
			"or why it cannot be told. \"-\" reads standard input. It fails if any of them does.",
		Example: "  llmprof models check ./config.json\n  llmprof models check --format json */config.json",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.check(); err != nil {
				return err
			}
			checks := make([]check, len(args))
			failed := 0
			for i, file := range args {
				if checks[i] = a.checkModel(cmd.Context(), file); !checks[i].OK {
					failed++
				}
			}
			err := o.write(a, result{
				page:  func() *render.Document { return checkPage(checks) },
				table: func() *render.Table { t := checkTable(checks); return &t },
				data:  func() any { return checks },
			})
			if err == nil && failed > 0 {
				err = fmt.Errorf("%d of %d could not be read", failed, len(checks))
			}
			return err
		},
	}
	o.flags(cmd)
	return cmd
}

// A check is what was found in one config.json; the figures are null where it
// failed.
type check struct {
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

// checkModel reads one file.
func (a *app) checkModel(ctx context.Context, file string) check {
	m, err := a.readFile(ctx, file)
	if err != nil {
		text := strings.Replace(err.Error(), here+file, file, 1)
		return check{File: file, Error: &text}
	}
	s := shapeOf(m)
	return check{
		File: file, OK: true, Name: &s.Name, Family: &s.Family, Layers: &s.Layers, LayerKinds: s.LayerKinds,
		ParamsTotal: &s.ParamsTotal, ParamsActive: &s.ParamsActive, KVPerToken: &s.KVPerToken, State: &s.State,
		MaxContext: s.MaxContext, Notes: s.Notes,
	}
}

// here before a name makes it a path and nothing else.
const here = "." + string(filepath.Separator)

// mostStdin is the most of standard input that is read: more than any
// config.json that is accepted.
const mostStdin = 16 << 20

// readFile reads a path, which is never taken for a built-in name or a hub id.
func (a *app) readFile(ctx context.Context, file string) (*models.Model, error) {
	if file == "-" {
		data, err := io.ReadAll(io.LimitReader(a.stdin, mostStdin))
		if err != nil {
			return nil, fmt.Errorf("reading standard input: %w", err)
		}
		return models.Read("stdin", data)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	path := file
	if !filepath.IsAbs(path) && !strings.HasPrefix(path, ".") {
		path = here + path
	}
	return models.Resolver{Table: &models.Table{}}.Resolve(ctx, path)
}

func checkTable(checks []check) render.Table {
	t := render.Table{Columns: []render.Column{
		{Title: "file", Key: "file", Left: true}, {Title: "ok", Key: "ok", Left: true},
		{Title: "name", Key: "name", Left: true, Drop: 2}, {Title: "family", Key: "family", Left: true, Drop: 1},
		{Title: "params", Key: "params_total"}, {Title: "active", Key: "params_active"},
		{Title: "KV/token", Key: "kv_bytes_per_token"}, {Title: "state", Key: "state_bytes_per_sequence"},
		{Title: "layers", Key: "layer_kinds", Left: true}, {Title: "error", Key: "error", Left: true, Drop: 3},
	}}
	for i := range checks {
		c := &checks[i]
		if !c.OK {
			t.Rows = append(t.Rows, render.Row{Cells: []any{
				c.File, render.Painted{Value: "no", Color: render.Bad}, nil, nil, nil, nil, nil, nil, nil, *c.Error,
			}})
			continue
		}
		t.Rows = append(t.Rows, render.Row{Cells: []any{
			c.File, render.Painted{Value: "yes", Color: render.Good}, *c.Name, *c.Family, render.Count(*c.ParamsTotal), render.Count(*c.ParamsActive),
			*c.KVPerToken, *c.State, kindsText(c.LayerKinds), nil,
		}})
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

// checkPage puts the errors under the table, where they have room.
func checkPage(checks []check) *render.Document {
	t := checkTable(checks)
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
		t, render.Notes{Title: "Not read", Items: failed}, render.Notes{Title: "Notes", Items: notes},
	}}
}
