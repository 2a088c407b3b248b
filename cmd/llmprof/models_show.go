package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"llmprof"
	"llmprof/cmd/llmprof/internal/render"
	"llmprof/models"
)

func (a *app) modelsShow() *cobra.Command {
	o := &output{}
	var offline bool
	cmd := &cobra.Command{
		Use:     "show MODEL",
		Short:   "Show the shape of a model, matrix by matrix",
		Example: "  llmprof models show llama3.1-8b\n  llmprof models show ./config.json --format json",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.check(); err != nil {
				return err
			}
			m, err := a.model(cmd.Context(), args[0], offline)
			if err != nil {
				return err
			}
			t := matrixTable(m)
			return o.write(a, result{
				page:  func() *render.Document { return modelPage(m, args[0], t) },
				table: func() *render.Table { return &t },
				data:  func() any { return shownOf(m) },
			})
		},
		ValidArgsFunction: completeModels,
	}
	o.flags(cmd)
	cmd.Flags().BoolVar(&offline, "offline", false, "never use the network")
	return cmd
}

// completeModels offers the names of the built-in models.
func completeModels(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	table, err := models.Load(llmprof.ModelsJSON)
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	return table.Names(), cobra.ShellCompDirectiveDefault
}

func modelPage(m *models.Model, name string, matrices render.Table) *render.Document {
	kv, state := m.KVBytesPerToken(cacheFormat), m.StateBytes(cacheFormat)
	f := render.Fields{Rows: []render.Field{
		{Name: "Family", Lines: []string{m.Family}},
		{Name: "Source", Lines: []string{m.Source}},
		{Name: "Parameters", Lines: []string{fmt.Sprintf("%d, of which a token takes part in %d", m.Params(), m.ActiveParams())}},
		{Name: "Stream", Lines: []string{fmt.Sprintf("%d wide, vocabulary of %d, %s", m.Hidden, m.Vocab, headText(m))}},
		{Name: "Layers", Lines: append([]string{fmt.Sprint(m.NumLayers())}, layerLines(m)...)},
		{Name: "KV cache", Lines: []string{fmt.Sprintf("%v a token while no window is full, in %v", kv, cacheFormat)}},
	}}
	if state > 0 {
		f.Rows = append(f.Rows, render.Field{Name: "State", Lines: []string{fmt.Sprintf("%v a sequence, in %v unless the config says otherwise", state, cacheFormat)}})
	}
	if m.MaxContext > 0 {
		f.Rows = append(f.Rows, render.Field{Name: "Context", Lines: []string{fmt.Sprintf("up to %d tokens", m.MaxContext)}})
	}
	if m.Stored.Method != "" {
		f.Rows = append(f.Rows, render.Field{Name: "Checkpoint", Lines: []string{fmt.Sprintf("%s, weights in %v", m.Stored.Method, m.Stored.Weights)}})
	}
	if others := aliasesOf(m.Name); len(others) > 0 {
		f.Rows = append(f.Rows, render.Field{Name: "Also", Lines: []string{strings.Join(others, ", ")}})
	}
	title := m.Name
	if name != m.Name {
		title = name + " = " + m.Name
	}
	return &render.Document{Title: title, Blocks: []render.Block{f, matrices, render.Notes{Title: "Notes", Items: m.Notes}}}
}

// aliasesOf lists the other names of a built-in model.
func aliasesOf(name string) []string {
	table, err := models.Load(llmprof.ModelsJSON)
	if err != nil {
		return nil
	}
	return table.Aliases(name)
}

func headText(m *models.Model) string {
	if m.TiedHead {
		return "head tied to the embedding"
	}
	return "head of its own"
}

// A matrix is one weight matrix of a kind of layer.
type matrix struct {
	Layer  string `json:"layer"`
	Layers int    `json:"layers"`
	Block  string `json:"block"`
	Name   string `json:"name"`
	Out    int    `json:"out"`
	In     int    `json:"in"`
	Bias   bool   `json:"bias"`
	Copies int    `json:"copies"`
	Params int64  `json:"params"` // of all copies in all layers
}

// matrices lists every matrix of the layers, and the embedding and the head.
func matrices(m *models.Model) []matrix {
	list := []matrix{{Layers: 1, Name: "embedding", Out: m.Embedding.Width, In: m.Vocab, Copies: 1, Params: m.EmbeddingParams()}}
	for i := range m.Layers {
		l := &m.Layers[i]
		for j := range l.Blocks {
			list = append(list, blockMatrices(l, &l.Blocks[j])...)
		}
	}
	if !m.TiedHead {
		list = append(list, matrix{Layers: 1, Name: m.Head.Name, Out: m.Head.Out, In: m.Head.In, Bias: m.Head.Bias, Copies: 1, Params: m.Head.Params()})
	}
	return list
}

// blockMatrices lists those of one block; what is not a matrix is one entry.
func blockMatrices(l *models.Layer, b *models.Block) []matrix {
	var list []matrix
	var sum int64
	add := func(copies int, linears ...models.Linear) {
		for _, x := range linears {
			n := max(x.Times, 1) * copies
			params := x.Params() * int64(copies)
			sum += params
			list = append(list, matrix{l.Name, l.Count, b.Name, x.Name, x.Out, x.In, x.Bias, n, params * int64(l.Count)})
		}
	}
	add(1, b.In...)
	if b.Attention != nil && b.Attention.Latent != nil {
		add(1, b.Attention.Latent.Expand)
	}
	if e := b.Experts; e != nil {
		add(1, e.Router...)
		add(e.Count, e.In...)
		add(e.Count, e.Out...)
		if e.Shared != nil {
			add(1, e.Shared.In...)
			add(1, e.Shared.Out...)
		}
	}
	add(1, b.Out...)
	if rest := b.Params() - sum; rest != 0 {
		list = append(list, matrix{l.Name, l.Count, b.Name, "norms and vectors", 0, 0, false, 1, rest * int64(l.Count)})
	}
	return list
}

func matrixTable(m *models.Model) render.Table {
	t := render.Table{Columns: []render.Column{
		{Title: "layer", Key: "layer", Left: true, Drop: 1}, {Title: "layers", Key: "layers"},
		{Title: "block", Key: "block", Left: true}, {Title: "matrix", Key: "matrix", Left: true},
		{Title: "out", Key: "out"}, {Title: "in", Key: "in"}, {Title: "copies", Key: "copies"},
		{Title: "params", Key: "params"}, {Title: "share %", Key: "share"},
	}}
	total := float64(m.Params())
	for _, x := range matrices(m) {
		out, in := any(x.Out), any(x.In)
		if x.Out == 0 {
			out, in = nil, nil
		}
		t.Rows = append(t.Rows, render.Row{Cells: []any{
			x.Layer, x.Layers, x.Block, x.Name, out, in, x.Copies, render.Count(x.Params), render.Percent(float64(x.Params) / total),
		}})
	}
	return t
}

// A shownJSON is a model with its matrices.
type shownJSON struct {
	shapeJSON
	Hidden   int      `json:"hidden"`
	Vocab    int      `json:"vocab"`
	Tied     bool     `json:"tied_head"`
	Matrices []matrix `json:"matrices"`
}

func shownOf(m *models.Model) shownJSON {
	return shownJSON{shapeOf(m), m.Hidden, m.Vocab, m.TiedHead, matrices(m)}
}
