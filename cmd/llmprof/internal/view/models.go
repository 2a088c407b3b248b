package view

import (
	"cmp"
	"fmt"
	"strings"

	"llmprof/models"
	"llmprof/plots/render"
	"llmprof/unit"
)

// stateFormat is the format in which a model's state is stated.
const stateFormat = unit.BF16

// cacheFormat is the format in which a model's cache is stated.
func cacheFormat(m *models.Model) unit.Format { return cmp.Or(m.Cache, unit.BF16) }

// ModelsTable lists models, one a row.
func ModelsTable(all []*models.Model) render.Table {
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
		t.Add(m.Name, m.Family, render.Count(m.Params()), render.Count(m.ActiveParams()), m.NumLayers(),
			m.KVBytesPerToken(cacheFormat(m)), m.StateBytes(stateFormat), Known(m.MaxContext, m.MaxContext > 0))
	}
	return t
}

// A ModelSummary is a model for programs, its cache in 16 bits.
type ModelSummary struct {
	Name         string      `json:"name"`
	Family       string      `json:"family"`
	Source       string      `json:"source"`
	ParamsTotal  int64       `json:"params_total"`
	WithEncoders *int64      `json:"params_with_encoders"`
	ParamsActive int64       `json:"params_active"`
	Layers       int         `json:"layers"`
	LayerKinds   []layerJSON `json:"layer_kinds"`
	KVPerToken   unit.Bytes  `json:"kv_bytes_per_token"`
	State        unit.Bytes  `json:"state_bytes_per_sequence"`
	MaxContext   *int        `json:"max_context"`
	Notes        []string    `json:"notes"`
}

// withEncoders counts the parameters with those of towers, null where these are not known.
func withEncoders(m *models.Model) *int64 {
	if n, known := m.ParamsWithEncoders(); known {
		return &n
	}
	return nil
}

// SummarizeModel is the summary of a model.
func SummarizeModel(m *models.Model) ModelSummary {
	return ModelSummary{
		Name: m.Name, Family: m.Family, Source: m.Source, ParamsTotal: m.Params(), WithEncoders: withEncoders(m),
		ParamsActive: m.ActiveParams(), Layers: m.NumLayers(), LayerKinds: kinds(m), KVPerToken: m.KVBytesPerToken(cacheFormat(m)),
		State: m.StateBytes(stateFormat), MaxContext: unit.OrNull(m.MaxContext), Notes: append([]string{}, m.Notes...),
	}
}

// ModelPage is a model for people. Name is the one that it was asked for by, aliases are its other names.
func ModelPage(m *models.Model, name string, aliases []string) *render.Document {
	kv, state, head := m.KVBytesPerToken(cacheFormat(m)), m.StateBytes(stateFormat), "LM head not tied"
	if m.TiedHead {
		head = "LM head tied to the embedding"
	}
	f := render.Fields{Rows: []render.Field{
		{Name: "Family", Lines: []string{m.Family}},
		{Name: "Source", Lines: []string{m.Source}},
		{Name: "Parameters", Lines: []string{fmt.Sprintf("%d, of which %d are active for a token", m.Params(), m.ActiveParams())}},
		{Name: "Shape", Lines: []string{fmt.Sprintf("hidden size %d, vocabulary of %d, %s", m.Hidden, m.Vocab, head)}},
		{Name: "Layers", Lines: append([]string{fmt.Sprint(m.NumLayers())}, layerLines(m)...)},
		{Name: "KV cache", Lines: []string{fmt.Sprintf("%v per token%s, in %v", kv, untilFull(m), cacheFormat(m))}},
	}}
	if state > 0 {
		f.Add("State", fmt.Sprintf("%v a sequence, in %v unless the config says otherwise", state, stateFormat))
	}
	if m.MaxContext > 0 {
		f.Add("Context", fmt.Sprintf("up to %d tokens", m.MaxContext))
	}
	if m.Stored.Method != "" {
		f.Add("Checkpoint", fmt.Sprintf("%s, weights in %v: %v", m.Stored.Method, m.Stored.Weights, m.StoredBytes()))
	}
	if len(aliases) > 0 {
		f.Add("Also", strings.Join(aliases, ", "))
	}
	return &render.Document{Title: asked(name, m.Name) + m.Name,
		Blocks: []render.Block{f, MatrixTable(m), render.Notes{Title: "Notes", Items: m.Notes}}}
}

// untilFull says of a model with windows how its cache grows once they are full.
func untilFull(m *models.Model) string {
	longest := 0
	for _, l := range m.Layers {
		for i := range l.Blocks {
			if a := l.Blocks[i].Attention; a != nil {
				longest = max(longest, a.Window)
			}
		}
	}
	if longest == 0 {
		return ""
	}
	f := cacheFormat(m)
	beyond := m.CacheBytes(longest+1, f) - m.CacheBytes(longest, f)
	if beyond <= 0 {
		return fmt.Sprintf(" up to %d tokens, which its sliding windows hold", longest)
	}
	return fmt.Sprintf(" until a sliding window is full, %v beyond %d tokens", beyond, longest)
}

func modelLine(m *models.Model) string {
	total, active := m.Params(), m.ActiveParams()
	s := fmt.Sprintf("%s (%s): %s parameters", m.Name, m.Family, unit.Count(float64(total)))
	if active != total {
		s += fmt.Sprintf(", %s active", unit.Count(float64(active)))
	}
	s += fmt.Sprintf(", %d layers", m.NumLayers())
	if m.MaxContext > 0 {
		s += fmt.Sprintf(", context up to %d", m.MaxContext)
	}
	return s
}

func layerLines(m *models.Model) []string {
	var lines []string
	for i := range m.Layers {
		l := &m.Layers[i]
		s := fmt.Sprintf("%d × %s", l.Count, l.Name)
		for j := range l.Blocks {
			if t := blockText(&l.Blocks[j]); t != "" {
				s += "; " + t
			}
		}
		lines = append(lines, s)
	}
	return lines
}

func blockText(b *models.Block) string {
	switch {
	case b.Attention != nil && b.Attention.Latent != nil:
		return fmt.Sprintf("%d heads over a latent of %d+%d", b.Attention.Heads, b.Attention.Latent.Rank, b.Attention.Latent.RopeDim)
	case b.Attention != nil:
		s := fmt.Sprintf("%d heads of %d, %d KV heads", b.Attention.Heads, b.Attention.KeyDim, b.Attention.KVHeads)
		if b.Attention.Window > 0 {
			s += fmt.Sprintf(", window %d", b.Attention.Window)
		}
		return s
	case b.Scan != nil:
		return fmt.Sprintf("%d heads of %d with %d states", b.Scan.Heads, b.Scan.HeadDim, b.Scan.StateDim)
	case b.Experts != nil:
		e := b.Experts
		s := fmt.Sprintf("%d of %d experts of %d", e.TopK, e.Count, e.Activation.Width)
		if e.Shared != nil {
			s += fmt.Sprintf(" and a shared one of %d", e.Shared.Activation.Width)
		}
		return s
	case b.Activation.Width > 0:
		return fmt.Sprintf("intermediate size %d", b.Activation.Width)
	}
	return ""
}

// A ModelCheck is what was found in one config.json; the figures are null where it
// failed.
type ModelCheck struct {
	File         string      `json:"file"` // the file as it was given
	OK           bool        `json:"ok"`
	Error        *string     `json:"error"` // what is wrong; null if ok
	Name         *string     `json:"name"`
	Family       *string     `json:"family"` // model_type of Hugging Face
	Layers       *int        `json:"layers" jsonschema:"minimum=1"`
	LayerKinds   []layerJSON `json:"layer_kinds" jsonschema:"nullable"`
	ParamsTotal  *int64      `json:"params_total" jsonschema:"minimum=1"`
	ParamsActive *int64      `json:"params_active" jsonschema:"minimum=1"` // parameters that one token takes part in
	KVPerToken   *unit.Bytes `json:"kv_bytes_per_token"`                   // of the KV cache in 16 bits, while no window is full
	State        *unit.Bytes `json:"state_bytes_per_sequence"`             // that do not grow, in 16 bits unless the config says otherwise
	MaxContext   *int        `json:"max_context" jsonschema:"minimum=1"`   // tokens; null if there is no limit
	Notes        []string    `json:"notes" jsonschema:"nullable"`
}

// CheckModel is what was found in a file: a model, or why it is none.
func CheckModel(file string, m *models.Model, err error) ModelCheck {
	if err != nil {
		return ModelCheck{File: file, Error: new(err.Error())}
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
			t.Add(c.File, judged(false, "yes", "no"), nil, nil, nil, nil, nil, nil, nil, *c.Error)
			continue
		}
		var kinds []string
		for _, k := range c.LayerKinds {
			kinds = append(kinds, fmt.Sprintf("%d × %s", k.Count, k.Name))
		}
		t.Add(c.File, judged(true, "yes", "no"), *c.Name, *c.Family, render.Count(*c.ParamsTotal), render.Count(*c.ParamsActive),
			*c.KVPerToken, *c.State, strings.Join(kinds, ", "), nil)
	}
	return t
}

// ModelChecksPage puts the errors under the table, where they have room.
func ModelChecksPage(checks []ModelCheck) *render.Document {
	t := ModelChecksTable(checks)
	t.LeaveOut(len(t.Columns) - 1)
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
	list := []matrix{{Layers: 1, Name: "embedding", Out: m.Embedding.Width, In: m.Vocab, Copies: 1, Params: m.EmbeddingParams(),
		Format: format(m, m.Embedding.Stored)}}
	for i := range m.Layers {
		l := &m.Layers[i]
		for j := range l.Blocks {
			list = append(list, blockMatrices(m, l, &l.Blocks[j])...)
		}
	}
	if !m.TiedHead {
		list = append(list, matrix{Layers: 1, Name: m.Head.Name, Out: m.Head.Out, In: m.Head.In, Bias: m.Head.Bias, Copies: 1,
			Params: m.Head.Params(), Format: format(m, m.Head.Stored)})
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
		vectors := format(m, nil)
		if m.Stored.Method != "" && m.Stored.Vectors != unit.NoFormat {
			vectors = m.Stored.Vectors.String()
		}
		list = append(list, matrix{l.Name, l.Count, b.Name, "norms and vectors", 0, 0, false, 1, rest * int64(l.Count), vectors})
	}
	return list
}

// MatrixTable lists the weight matrices of a model, one a row.
func MatrixTable(m *models.Model) render.Table {
	t := render.Table{Columns: []render.Column{
		{Title: "layer", Key: "layer", Left: true, Drop: 1}, {Title: "layers", Key: "layers"},
		{Title: "block", Key: "block", Left: true}, {Title: "matrix", Key: "matrix", Left: true},
		{Title: "out", Key: "out"}, {Title: "in", Key: "in"}, {Title: "copies", Key: "copies"},
		{Title: "params", Key: "params"}, {Title: "share %", Key: "share"}, {Title: "format", Key: "format", Left: true},
	}}
	total := float64(m.Params())
	for _, x := range matrices(m) {
		t.Add(x.Layer, x.Layers, x.Block, x.Name, Known(x.Out, x.Out > 0), Known(x.In, x.Out > 0), x.Copies, render.Count(x.Params),
			render.Percent(float64(x.Params)/total), x.Format)
	}
	if m.Stored.Method == "" {
		t.LeaveOut(len(t.Columns) - 1)
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
