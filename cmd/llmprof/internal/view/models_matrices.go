package view

import (
	"llmprof/cmd/llmprof/internal/render"
	"llmprof/models"
	"llmprof/unit"
)

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
	Params int64  `json:"params"`           // parameters of all copies in all layers
	Format string `json:"format,omitempty"` // in which the checkpoint keeps it, where it names formats
}

// matrices lists every matrix of the layers, and the embedding and the head.
func matrices(m *models.Model) []matrix {
	list := []matrix{{Layers: 1, Name: "embedding", Out: m.Embedding.Width, In: m.Vocab, Copies: 1, Params: m.EmbeddingParams(), Format: format(m, m.Embedding.Stored)}}
	for i := range m.Layers {
		l := &m.Layers[i]
		for j := range l.Blocks {
			list = append(list, blockMatrices(m, l, &l.Blocks[j])...)
		}
	}
	if !m.TiedHead {
		list = append(list, matrix{Layers: 1, Name: m.Head.Name, Out: m.Head.Out, In: m.Head.In, Bias: m.Head.Bias, Copies: 1, Params: m.Head.Params(), Format: format(m, m.Head.Stored)})
	}
	return list
}

// format names the format of a matrix, "" where the checkpoint is in 16 bits throughout.
func format(m *models.Model, s *models.Storage) string {
	switch {
	case m.Stored.Method == "":
		return ""
	case s == nil:
		return m.Stored.Plain.String()
	}
	return s.Name
}

func vectorFormat(m *models.Model) string {
	if m.Stored.Method != "" && m.Stored.Vectors != unit.NoFormat {
		return m.Stored.Vectors.String()
	}
	return format(m, nil)
}

// blockMatrices lists those of one block; what is not a matrix is one entry.
func blockMatrices(m *models.Model, l *models.Layer, b *models.Block) []matrix {
	var list []matrix
	var sum int64
	add := func(copies int, linears ...models.Linear) {
		for _, x := range linears {
			n := max(x.Times, 1) * copies
			params := x.Params() * int64(copies)
			sum += params
			list = append(list, matrix{l.Name, l.Count, b.Name, x.Name, x.Out, x.In, x.Bias, n, params * int64(l.Count), format(m, x.Stored)})
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
		list = append(list, matrix{l.Name, l.Count, b.Name, "norms and vectors", 0, 0, false, 1, rest * int64(l.Count), vectorFormat(m)})
	}
	return list
}

// MatrixTable lists the weight matrices of a model, one a row.
func MatrixTable(m *models.Model) render.Table {
	t := render.Table{Columns: []render.Column{
		{Title: "layer", Key: "layer", Left: true, Drop: 1}, {Title: "layers", Key: "layers"},
		{Title: "block", Key: "block", Left: true}, {Title: "matrix", Key: "matrix", Left: true},
		{Title: "out", Key: "out"}, {Title: "in", Key: "in"}, {Title: "copies", Key: "copies"},
		{Title: "params", Key: "params"}, {Title: "share %", Key: "share"},
	}}
	if m.Stored.Method != "" {
		t.Columns = append(t.Columns, render.Column{Title: "format", Key: "format", Left: true})
	}
	total := float64(m.Params())
	for _, x := range matrices(m) {
		out, in := any(x.Out), any(x.In)
		if x.Out == 0 {
			out, in = nil, nil
		}
		cells := []any{
			x.Layer, x.Layers, x.Block, x.Name, out, in, x.Copies, render.Count(x.Params), render.Percent(float64(x.Params) / total),
		}
		if m.Stored.Method != "" {
			cells = append(cells, x.Format)
		}
		t.Add(cells...)
	}
	return t
}

// A ModelDocument is a model with its matrices.
type ModelDocument struct {
	ModelSummary
	Hidden   int      `json:"hidden"`
	Vocab    int      `json:"vocab"`
	Tied     bool     `json:"tied_head"`
	Matrices []matrix `json:"matrices"`
}

// DocumentModel is the document of a model.
func DocumentModel(m *models.Model) ModelDocument {
	return ModelDocument{SummarizeModel(m), m.Hidden, m.Vocab, m.TiedHead, matrices(m)}
}
